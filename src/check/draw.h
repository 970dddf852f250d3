// SPDX-License-Identifier: Apache-2.0
// Random inputs for a program: what to draw each from (docs/language.md, "Rules"), the values, and
// the memory they lie in.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "call/call.h"
#include "check/random.h"
#include "reference/reference.h"

namespace coda::check {

/// What the elements of an input are drawn from.
enum class Source : unsigned char {
  normal,    // N(0, 1)
  positive,  // |N(0, 1)| + 0.1: reaches sqrt, rsqrt, log or a divisor
  column,    // [0, N): an integer compared with a column index
  index,     // [0, 4096): any other integer
  byte,      // u8: 0 and 1 mostly, as masks are
};

/// One source per input, by how the program uses it.
std::vector<Source> sources_of(const ir::Program& program);

double draw_real(Source source, Random& random);
int64_t draw_integer(Source source, int64_t n, Random& random);

/// Size parameters: those given, 8 for those that split, swap or group columns, others from [0, n].
std::vector<int64_t> draw_sizes(const ir::Program& program,
                                const std::map<std::string, int64_t>& given, int64_t n,
                                uint64_t seed);

/// The least N that pairs and groups allow with these sizes; other N are its multiples.
int64_t column_unit(const ir::Program& program, std::vector<int64_t> symbols);

/// Inputs as whole matrices, unrounded: accumulators are drawn themselves.
std::vector<reference::Dense> draw_dense(const ir::Program& program,
                                         std::span<const int64_t> symbols, uint64_t seed);

/// The memory of a drawn call: anything that is allowed, or what matrix hardware reads without
/// copies (columns of tiles contiguous, addresses and pitches aligned to 16 bytes, operands along K
/// or turned, one A for all accumulators, tensors side by side at shared multiples of 64).
enum class Layout : unsigned char { any, aligned };

/// A call on drawn inputs in memory of many layouts. Outputs and every gap and margin hold a
/// pattern that is NaN in each float type.
class DrawnCall {
 public:
  /// Draws for [M, N] = symbols[1], symbols[0] and depth k.
  DrawnCall(const Instance& instance, std::vector<int64_t> symbols, int64_t k, uint64_t seed,
            Layout layout = Layout::any);

  const Arguments& arguments() const { return arguments_; }
  /// Adds sizes(M, N).
  void tell_sizes();
  /// Puts all memory back to what it was before the first launch.
  void restore();
  /// The memory of every tensor, margins included: what a device copies there and back.
  std::vector<std::span<std::byte>> memory();
  /// After a launch: empty, or what was written that is not an output's element.
  std::string find_damage(const BoundCall& call) const;

 private:
  struct Shape {
    int64_t rows, columns;
    bool has_rows, has_columns;
  };
  struct Block {
    std::string name;
    std::vector<std::byte> memory, original;
    size_t margin = 0;
  };

  TensorView place(const std::string& name, Shape shape, DType type, bool output,
                   bool turned = false);
  std::vector<int64_t> draw_cuts(int64_t count, int64_t step, bool along_n);
  std::vector<TensorView> place_segments(const std::string& name, const Shape& shape, DType type,
                                         bool output, Axis axis, const std::vector<int64_t>& cuts,
                                         bool turned = false);
  void choose_aligned();
  void fill(const TensorView& view, Source source, double scale, Random& random);
  void add_tensor(const std::string& name, const ir::ElementType& type, const ir::Dims& dims,
                  Source source, bool output);
  bool update_in_place(const std::string& name, const ir::ElementType& type, const ir::Dims& dims);
  void add_products(const std::string& name, int64_t k);
  int64_t segment_step(const ir::Dims& dims, int64_t columns) const;

  const Instance& instance_;
  std::vector<int64_t> symbols_;
  int64_t unit_;
  uint64_t seed_;
  Random layout_;
  Layout form_;
  bool turned_a_ = false, turned_b_ = false;            // aligned: of all products
  std::vector<int64_t> seams_m_, seams_n_;              // aligned: of all tensors in parts
  std::vector<std::pair<int64_t, TensorView>> shared_;  // aligned: K and A of each product
  Arguments arguments_;
  std::vector<Block> blocks_;
  std::set<std::string> updated_;  // inputs that an output lies upon
};

}  // namespace coda::check
