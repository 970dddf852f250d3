// SPDX-License-Identifier: Apache-2.0
// The plan of a kernel and its tables as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plan/problem.h"
#include "cuda/plan/text.h"

namespace coda::device {
namespace {

using ::testing::HasSubstr;

TEST(PlanText, a_port_is_an_initialiser_with_every_field) {
  Port port{Kind::keep_m, Width::half, Type::e4m3, Reduce::logsumexp, Seams::cols};
  port.period = 64, port.group = 8;
  EXPECT_EQ(port_text(port),
            "{.kind = Kind::keep_m, .width = Width::half, .type = Type::e4m3, "
            ".reduce = Reduce::logsumexp, .seams = Seams::cols, .period = 64, .group = 8}");
  EXPECT_THAT(port_text({Kind::group_out}), HasSubstr(".kind = Kind::group_out, "));
}

TEST(PlanText, a_configuration_is_an_initialiser_in_the_order_of_its_fields) {
  Config config;
  config.mode = Mode::cooperative, config.b_major = Major::mn, config.pair = kNarrow;
  config.pdl = true;
  EXPECT_EQ(config_text(config),
            "{.mode = Mode::cooperative, .tile_m = 128, .tile_n = 192, .cluster_m = 1, "
            ".cluster_n = 1, .element = Type::bf16, .a_major = Major::k, .b_major = Major::mn, "
            ".accumulators = 1, .segments = 1, .a_parts = 1, .b_parts = 1, .a_box_rows = 0, "
            ".b_box_rows = 0, .chunk_cols = 64, .pair = -1, .passes = 1, .stages = 0, "
            ".load_stages = 2, .store_stages = 2, .split_k = false, .mask_rows = true, "
            ".mask_cols = true, .ragged_cols = true, .pdl = true, .delays = false}");
}

TEST(Plan, memory_is_shared_out_without_gaps_up_to_the_budget) {
  constexpr Port ports[] = {{.kind = Kind::tile_in, .type = Type::bf16},
                            {.kind = Kind::row_vector, .type = Type::f32},
                            {.kind = Kind::tile_out, .type = Type::bf16},
                            {.kind = Kind::keep_n}};
  constexpr Config config{.load_stages = 1, .store_stages = 1};
  static_assert(plan_problem(config, ports, 4) == nullptr);
  constexpr Plan plan = make_plan(config, ports, 4);
  EXPECT_EQ(plan.loads_at, plan.stages * plan.stage_bytes);
  EXPECT_EQ(plan.stores_at, plan.loads_at + kConsumerWarps * plan.load_slot);
  EXPECT_EQ(plan.vectors_at, plan.stores_at + kConsumerWarps * plan.store_slot);
  EXPECT_EQ(plan.columns_at, plan.vectors_at + 2 * plan.vector_slot);
  EXPECT_EQ(plan.barriers_at, plan.columns_at + plan.columns_bytes);
  EXPECT_LE(plan.smem_bytes, kSmemBudget);
  EXPECT_GT(plan.smem_bytes + plan.stage_bytes, kSmemBudget) << "another stage would fit";
}

TEST(Plan, a_rule_that_is_broken_is_named) {
  const auto problem = [](Config config, Port port) {
    const char* why = plan_problem(config, &port, 1);
    return std::string(why ? why : "none");
  };
  const Port tile{Kind::tile_out, Width::full, Type::bf16};
  EXPECT_EQ(problem({}, tile), "none");
  EXPECT_THAT(problem({.tile_n = 200}, tile), HasSubstr("64, 96, 128, 192 or 256 columns"));
  EXPECT_THAT(problem({.tile_m = 256, .tile_n = 256}, tile), HasSubstr("192"));
  EXPECT_THAT(problem({.stages = 8}, tile), HasSubstr("shared memory is exceeded"));
  EXPECT_THAT(problem({}, {Kind::tile_out, Width::half, Type::bf16}), HasSubstr("need a pair"));
  EXPECT_THAT(problem({}, {.kind = Kind::group_fold, .group = 32}), HasSubstr("two passes"));
  EXPECT_THAT(problem({}, {.kind = Kind::keep_n, .reduce = Reduce::moments}),
              HasSubstr("a column reduction"));
}

}  // namespace
}  // namespace coda::device
