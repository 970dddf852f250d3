// SPDX-License-Identifier: Apache-2.0
// A program on the epilogue of the Hopper mainloop, as data: the table of its ports, and the steps
// of `apply` that call them.
//
// A value that varies over columns is a fragment, a value per row an array of 4 (element i & 2 is
// that of element i of a fragment), a number a variable. Neighbouring elementwise values of one
// size share a loop; what is read outside of it lives on as an array.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/lower/pointwise.h"
#include "cuda/plan/plan.h"

namespace coda::cuda {

/// Where a port's argument comes from; exactly one is set.
struct FusedPort {
  device::Port port;
  int input = -1;
  int output = -1;
  ir::ValueId reduction = -1;  // a partial in the workspace
};

/// Why the program cannot run on the mainloop's epilogue at any configuration, or nothing.
std::optional<std::string> fused_problem(const Instance& instance);

/// Offset of the columns that the program pairs (Config::pair), and the columns that must lie in
/// one chunk.
int pair_of(const Instance& instance);
int chunk_multiple(const Instance& instance);

/// The port table alone, which is what a configuration is chosen by. Requires !fused_problem().
std::vector<FusedPort> fused_ports(const Instance& instance);

struct FusedStep {
  enum class Kind : unsigned char {
    load,    // one value from a port
    loop,    // values, each from those before it, element by element (or numbers, without a loop)
    call,    // one value by a call of the driver: split, join, swap, a folded group (with a port)
    result,  // one value to a port
  } kind;
  std::vector<ir::ValueId> values;
  int port = -1;
};

/// One run of `apply` over a chunk.
struct FusedPass {
  std::vector<FusedStep> steps;
  std::vector<bool> arrays;  // by value: read outside its loop
};

struct LoweredFused {
  ir::Program program;  // eliminate(); what ids below refer to
  int pair = 0;         // Config::pair
  std::vector<FusedPort> ports;
  std::vector<TilePartial> partials;  // what generated passes join afterwards
  std::vector<FusedPass> passes;      // two where groups are folded: fold, then all the rest

  bool number(ir::ValueId id) const;
  bool by_rows(ir::ValueId id) const;
  /// Elements of a fragment over `columns`, and of the array that a value is.
  int fragment(const ir::Columns& columns) const;
  int elements(ir::ValueId id) const;
  /// The value that a step of kind result writes to port `index`.
  ir::ValueId result_of(int index) const;
  /// The columns of that port.
  const ir::Columns& result_columns(int index) const;
};

/// Requires !fused_problem(). `narrow`: strips of 8 columns (device::kNarrow), where the program
/// pairs none.
LoweredFused lower_fused(const Instance& instance, bool narrow);

}  // namespace coda::cuda
