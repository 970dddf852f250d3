// SPDX-License-Identifier: Apache-2.0
// A call of a program for tests: makes a good argument of every kind, lets a test change what it is
// about, runs the kernel, and holds every output against the float64 reference.
//
// Values are t(i + offset) of the flat row-major index i, where t(n) = ((37 n + 11) mod 101 - 50) /
// 32: exact in every float type but e5m2 and e4m3. Each argument has its own offset. Integers are 7
// i mod N. Outputs are full of NaN (bytes 0xff). Each tensor lies in its own buffer between margins
// of 0xff bytes, and run() checks that no byte outside the output elements changes.
#pragma once

#include <coda/kernel.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "call/call.h"

namespace coda::test {

/// ((37 n + 11) mod 101 - 50) / 32.
double t(int64_t n);

struct Sizes {
  int64_t m, n, k = 1;
};

class TestCall {
 public:
  struct Term {
    TensorView a;
    std::vector<TensorView> b;
  };
  struct Tensor {
    Axis axis = Axis::columns;
    std::vector<TensorView> segments;
  };

  TestCall(Program program, Sizes sizes, DType type = DType::f32,
           std::vector<std::pair<std::string, int64_t>> parameters = {});
  TestCall(const TestCall&) = delete;  // its views point into its own buffers
  TestCall& operator=(const TestCall&) = delete;

  // What the call consists of; a test changes it at will.
  std::map<std::string, Tensor> tensors;
  std::map<std::string, double> scalars;
  std::map<std::string, std::vector<Term>> products;
  std::optional<std::pair<int64_t, int64_t>> sizes;
  bool fused = true;
  int threads = 1;

  TensorView& view(const std::string& name) { return tensors.at(name).segments.at(0); }

  /// New memory for a view of that shape: `fill(row, column)` gives the values (none: an output,
  /// NaN).
  using Fill = std::function<double(int64_t, int64_t)>;
  TensorView matrix(int64_t rows, int64_t columns, DType type, const Fill& fill,
                    int64_t row_stride = 0, int64_t column_stride = 1);
  TensorView vector(int64_t size, DType type, const Fill& fill, int64_t stride = 1);
  /// `bytes` of new memory full of 0xff between margins, aligned to 64.
  std::byte* allocate(size_t bytes);

  /// Sets every element of a tensor argument.
  void fill(const std::string& name, const Fill& fill);

  Arguments arguments() const;
  Instance instance() const;
  Kernel compile() const;

  /// Compiles, launches, and checks the outputs and the bytes around them.
  void run();
  /// Launches alone.
  void launch();
  /// Element of an output or input of one segment; rank 1: row 0 or column 0.
  double at(const std::string& name, int64_t row, int64_t column = 0) const;
  /// All elements of a tensor as the bytes of its elements, row-major.
  std::vector<std::byte> bytes(const std::string& name) const;

  const Program& program() const { return program_; }

 private:
  struct Buffer {
    std::vector<std::byte> memory;
    std::byte* data;
    size_t size;
  };
  std::vector<bool> written_mask(const Buffer& buffer) const;

  Program program_;
  DType type_;
  std::vector<std::pair<std::string, int64_t>> parameters_;
  std::deque<Buffer> buffers_;
};

/// A program of library/.
Program library(const std::string& file, const std::string& name);

double load(const TensorView& view, int64_t row, int64_t column);
void store(const TensorView& view, int64_t row, int64_t column, double value);

}  // namespace coda::test
