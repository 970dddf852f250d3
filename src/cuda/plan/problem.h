// SPDX-License-Identifier: Apache-2.0
// What a plan must keep to. The host's business alone: it builds no kernel that breaks a rule.
#pragma once

#include "plan.h"

namespace coda::device {

/// Why a configuration cannot be built; nullptr when it can.
constexpr const char* plan_problem(const Config& c, const Port* ports, int count) {
  struct Check {
    bool bad;
    const char* why;
  };
  const Plan p = make_plan(c, ports, count);
  const int a_rows = c.tile_m / p.a_share, b_rows = c.tile_n / p.b_share, cols = p.tile_cols;
  const Check checks[] = {
      {c.element != Type::bf16 && c.element != Type::f16, "operands are bf16 or f16"},
      {c.accumulators != 1 && c.accumulators != 2, "one or two accumulators"},
      {p.group_rows % 64 || p.group_rows < 64 || p.group_rows > 192,
       "a warpgroup owns 64, 128 or 192 rows"},
      {c.tile_n % c.accumulators != 0, "tile_n must divide evenly among the accumulators"},
      {cols != 64 && cols != 96 && cols != 128 && cols != 192 && cols != 256,
       "an accumulator has 64, 96, 128, 192 or 256 columns"},
      {p.acc_registers > 192, "accumulators take more than 192 registers"},
      {c.cluster_m * c.cluster_n > 2 || c.cluster_m < 1 || c.cluster_n < 1,
       "a cluster is 1x1, 2x1 or 1x2"},
      {c.segments < 1 || c.segments > kMaxSegments, "too many segments"},
      {c.a_parts < 1 || c.a_parts > kMaxParts || c.b_parts < 1 || c.b_parts > kMaxParts,
       "too many parts"},
      {(c.a_major == Major::mn && c.tile_m % 64) || (c.b_major == Major::mn && cols % 64),
       "an MN-major operand needs 64-wide panels"},
      {p.a_box_rows % 8 || p.b_box_rows % 8 || p.a_box_rows > 256 || p.b_box_rows > 256,
       "a box is a multiple of 8 and at most 256 rows high"},
      {a_rows % p.a_box_rows || b_rows % p.b_box_rows || cols % p.b_box_rows,
       "boxes must divide the stage"},
      {p.a_boxes + p.b_boxes > 32, "one lane per box: at most 32"},
      {c.chunk_cols != 32 && c.chunk_cols != 64 && c.chunk_cols != 128,
       "a chunk is 32, 64 or 128 wide"},
      {cols % c.chunk_cols != 0, "chunks must divide the accumulator"},
      {c.pair < kNarrow || (c.pair > 1 && c.pair % 8) ||
           (c.pair > 0 && c.chunk_cols % (2 * c.pair)),
       "pairs are neighbours or a multiple of 8 columns apart, inside a chunk"},
      {c.load_stages < 1 || c.store_stages < 1, "a ring has at least one slot"},
      {p.stages < 2 || p.stages > kMaxStages, "fewer than two operand stages fit"},
      {p.smem_bytes > kSmemBudget, "shared memory is exceeded"}};
  for (const Check& check : checks)
    if (check.bad) return check.why;
  for (int i = 0; i < count; ++i) {
    const Port& port = ports[i];
    const bool fold = port.kind == Kind::group_fold, one_word = reduce_words(port.reduce) == 1;
    const bool group = fold || port.kind == Kind::group_in || port.kind == Kind::group_out;
    const Check port_checks[] = {
        {is_tile(port) && (port.type == Type::i32 || port.type == Type::i64),
         "a tile is f32, bf16, f16, fp8 or u8"},
        {is_tile(port) && chunk_row_bytes(port, c.chunk_cols) < 32,
         "a tile port needs 32 bytes per chunk row"},
        {port.width != Width::full && c.pair <= 0, "other widths than full need a pair"},
        {port.kind == Kind::keep_n && !one_word,
         "a column reduction is a sum, a maximum or a minimum"},
        {group && port.group % 8 != 0, "a group is a multiple of 8 columns"},
        {fold && c.passes != 2, "folded groups need two passes"},
        {fold && (c.chunk_cols % port.group || !one_word),
         "a folded group is a sum, maximum or minimum of columns in one chunk"}};
    for (const Check& check : port_checks)
      if (check.bad) return check.why;
  }
  return nullptr;
}

}  // namespace coda::device
