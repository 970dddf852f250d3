// SPDX-License-Identifier: Apache-2.0
// One tensor argument at a time: everything that can be checked without the other arguments.
#pragma once

#include "call/call.h"
#include "call/where.h"

namespace coda {

/// What an argument must be.
struct Expected {
  bool rows, columns;         // the dimensions it has
  std::string_view type_fix;  // how to get the right type
  Device device;
  Memory memory;
};

/// Checks rank, extents, strides, device, alignment, null and 64-bit bounds of each segment, and
/// that the segments fit side by side. Segments without elements are left out unless all are.
Binding resolve(Axis axis, std::span<const TensorView> segments, DType type,
                const Expected& expected, Where where);

/// The extents of an [M, N] call as they become known: the first argument that tells one sets it,
/// and the first that disagrees is refused.
class Extents {
 public:
  explicit Extents(const ir::Program& program) : program_(program) {}
  void rows(int64_t m, const Where& where) { agree(m_, m, "M = ", m, where); }
  /// `count` columns of `dims` with the sizes in `symbols`.
  void columns(const ir::Columns& columns, int64_t count, const std::vector<int64_t>& symbols,
               const Where& where);
  /// `n` columns of full width.
  void columns(int64_t n, const Where& where) { agree(n_, n, "N = ", n, where); }
  /// The same against an extent that is known (with N and M among the symbols).
  void check_columns(const ir::Columns& columns, int64_t count, const std::vector<int64_t>& symbols,
                     const Where& where) const;
  /// Fills symbols 0 and 1. An extent that no argument tells is 1 where nothing of the program
  /// varies along it, and refused otherwise.
  void finish(std::vector<int64_t>& symbols) const;

 private:
  struct Known {
    std::optional<int64_t> value;
    std::string_view source;  // the argument; empty: sizes()
  };
  void agree(Known& known, int64_t value, const char* what, int64_t own, const Where& where);

  const ir::Program& program_;
  Known m_, n_;
};

}  // namespace coda
