// SPDX-License-Identifier: Apache-2.0
// The accumulators of tiles: sums of products over the segments of a call. Panels of A and B that
// the mainloop cannot take as they lie (other types, odd strides, seams inside a tile) are widened
// to float32 in the worker's memory: B once per column of tiles in a group, A once per group.
#pragma once

#include "call/call.h"
#include "cpu/grid.h"
#include "cpu/kernels.h"
#include "cpu/mainloop.h"

namespace coda::cpu {

/// Row tiles that a worker takes together, so that a panel of B serves all of them. A property of
/// speed alone: results do not depend on it.
struct Groups {
  int64_t row_tiles;  // in one group
  int64_t count;      // of groups
};
Groups make_groups(const BoundCall& call, const Grid& grid, int threads);

/// How the operands of each product reach the mainloop, and where widened panels lie.
class ProductPlan {
 public:
  ProductPlan() = default;
  ProductPlan(const BoundCall& call, const Grid& grid, const Groups& groups,
              const Mainloop& mainloop);
  size_t bytes() const { return bytes_; }  // of one worker's panels

  struct Operand {
    const Binding* binding;
    bool direct;    // taken as it lies
    bool turned;    // widened panels keep k outermost, as the memory has it
    size_t offset;  // of the widened panels of A's group, or of B
  };
  struct Term {
    int accumulator;  // input
    int64_t k;
    Operand a, b;
    int same_a;  // an earlier term with the same A, whose panels serve; or -1
  };
  const std::vector<Term>& terms() const { return terms_; }

 private:
  std::vector<Term> terms_;
  size_t bytes_ = 0;
};

/// One worker's products.
class Products {
 public:
  Products(const ProductPlan& plan, const Grid& grid, const Groups& groups, const Kernels& kernels,
           const Mainloop& mainloop, std::byte* panels);

  /// Sets the accumulator `input` of a tile; rows lie `stride` apart. Tiles of one group and column
  /// follow one another.
  void compute(int input, const Tile& tile, float* to, int64_t stride);

 private:
  Panel panel_a(size_t term, const Tile& tile);
  Panel panel_b(size_t term, const Tile& tile);
  Panel widen(const ProductPlan::Operand& operand, int64_t row, int64_t rows, int64_t k,
              std::byte* to) const;

  const ProductPlan& plan_;
  const Grid& grid_;
  const Groups& groups_;
  const Kernels& kernels_;
  std::unique_ptr<Mainloop::Session> session_;
  std::byte* panels_;
  std::vector<int64_t> column_of_b_;  // by term: the tile column its panel holds
  std::vector<std::vector<int64_t>>
      rows_of_a_;  // by term and place in the group: the tile row held
  std::vector<std::vector<Panel>> held_a_;
  std::vector<Panel> held_b_;
};

}  // namespace coda::cpu
