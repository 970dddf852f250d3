// SPDX-License-Identifier: Apache-2.0
// A validated call: what bind() makes of a program, the values chosen at compile time and the
// arguments of a call. Backends read this alone, so every check of a call stands in one place
// (bind.cpp).
#pragma once

#include <coda/kernel.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace coda {

/// What compile() fixes: the program, T and the size parameters (values[i] of symbol i; N and M are
/// set per call).
struct Instance {
  std::shared_ptr<const ir::Program> program;
  DType type = DType::f32;
  std::vector<int64_t> symbols;  // by symbol; entries 0 (N) and 1 (M) are 0 until a call sets them
};

/// Storage type of a declaration in an instance: T replaced by its choice.
inline DType storage(const ir::ElementType& type, const Instance& instance) {
  return type.generic ? instance.type : type.dtype;
}

/// Memory of a matrix; a dimension the declaration lacks has stride 0. Strides count elements.
struct View {
  std::byte* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  DType dtype = DType::f32;
};

struct Segment {
  int64_t begin = 0, end = 0;  // along the binding's axis
  View view;                   // its element (0, 0) is element `begin` of the binding
};

/// A tensor argument: one segment in the usual case, otherwise several side by side along `axis`,
/// without gaps. `rows` and `columns` are the extents in the declaration's own dims (columns: n/2,
/// n, n/G, P ...).
struct Binding {
  Axis axis = Axis::columns;
  int64_t rows = 1, columns = 1;
  std::vector<Segment> segments;
};

struct Product {
  int64_t k = 0;
  Binding a;  // [M, K], segments along rows
  Binding b;  // [N, K], segments along rows (of N)
};

struct BoundCall {
  int64_t m = 0, n = 0;
  std::vector<int64_t> symbols;  // the instance's, with N and M set
  std::vector<Binding> inputs;   // by input; empty for accumulators and scalars
  std::vector<double> scalars;   // by input; NaN unless a scalar (i32, i64: exact below 2^53)
  std::vector<std::vector<Product>> products;  // by input; empty unless an accumulator
  std::vector<Binding> outputs;                // by output
};

struct Arguments::State {
  struct Tensor {
    Axis axis;
    std::vector<TensorView> segments;
  };
  struct Term {
    TensorView a;
    std::vector<TensorView> b;
  };
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, double, std::less<>> scalars;
  std::map<std::string, std::vector<Term>, std::less<>> products;
  std::optional<std::pair<int64_t, int64_t>> sizes;
};

enum class Memory { required, may_be_null };

/// Fixes T and the size parameters. Throws as compile() documents.
Instance instantiate(std::shared_ptr<const ir::Program> program, const CompileOptions& options);

/// Checks every argument (names, ranks, shapes, dtypes, alignment, null pointers, overlap, 64-bit
/// overflow, pair and group divisibility, one device) and resolves them. Reads no tensor's contents
/// and writes nothing. Throws Error naming the argument, what was expected, what was got and how to
/// fix it.
BoundCall bind(const Instance& instance, const Arguments& arguments, Device device,
               Memory memory = Memory::required);

}  // namespace coda
