// SPDX-License-Identifier: Apache-2.0
// The choice of a configuration: what fits, what is preferred, how many kernels calls share.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <set>

#include "check/programs.h"
#include "cuda/backend/configure.h"
#include "cuda/plan/problem.h"

namespace coda::cuda {
namespace {

using device::Kind;
using device::Major;
using device::Mode;

struct Case {
  ir::Program program;
  Instance instance;
  ProgramShape shape;
};

Case library_case(const std::string& name) {
  for (const check::NamedProgram& named : check::all_programs())
    if (named.name == name) {
      Case result{named.program, check::instance_of(named.program, DType::bf16), {}};
      result.shape = program_shape(result.instance, fused_ports(result.instance));
      return result;
    }
  throw std::runtime_error("no program " + name);
}

Problem problem(int64_t m, int64_t n, int64_t k, int accumulators = 1) {
  Problem result;
  result.m = m, result.n = n, result.depths = {k}, result.accumulators = accumulators;
  return result;
}

TEST(Configure, every_candidate_can_be_built) {
  for (const char* name : {"linear", "residual_rms", "rmsnorm_swiglu", "rope", "quant_1x128"}) {
    const Case c = library_case(name);
    const int accumulators = name == std::string("rmsnorm_swiglu") ? 2 : 1;
    const auto all = modelled_candidates(c.shape, problem(16384, 4096, 4096, accumulators), {});
    EXPECT_GE(all.size(), 4u) << name;
    for (const Candidate& candidate : all) {
      EXPECT_EQ(plan_problem(candidate.config, c.shape.ports.data(),
                             static_cast<int>(c.shape.ports.size())),
                nullptr)
          << name << ": " << to_string(candidate.config);
      EXPECT_EQ(candidate.config.chunk_cols % c.shape.chunk_multiple, 0) << name;
    }
  }
}

TEST(Configure, attempts_are_few_and_hold_their_values_in_other_ways) {
  const Case c = library_case("residual_rms");
  const auto all = modelled_candidates(c.shape, problem(16384, 4096, 4096), {});
  const auto some = attempts(all);
  ASSERT_EQ(some.size(), kMostAttempts);
  EXPECT_EQ(to_string(some[0].config), to_string(all[0].config));
  std::set<std::string> shapes;
  bool narrow = false;
  for (const Candidate& candidate : some) {
    const device::Config& config = candidate.config;
    shapes.insert(std::to_string(config.tile_m) + "x" + std::to_string(config.tile_n));
    narrow = narrow || config.pair == device::kNarrow;
  }
  EXPECT_GE(shapes.size(), 3u);
  EXPECT_TRUE(narrow);
}

TEST(Configure, large_products_take_large_tiles_and_share_an_operand) {
  const Case c = library_case("linear");
  for (const auto& [n, k] : {std::pair{4096, 4096}, std::pair{22016, 4096}}) {
    const device::Config best = modelled_candidates(c.shape, problem(16384, n, k), {})[0].config;
    EXPECT_GE(best.tile_m * best.tile_n, 128 * 192) << to_string(best);
    EXPECT_EQ(best.cluster_m * best.cluster_n, 2) << to_string(best);
  }
}

TEST(Configure, a_heavy_epilogue_is_hidden_by_ping_pong) {
  const Case c = library_case("qk_norm_rope");
  EXPECT_EQ(modelled_candidates(c.shape, problem(16384, 3072, 2048), {})[0].config.mode,
            Mode::pingpong);
}

TEST(Configure, small_matrices_are_spread_over_the_processors) {
  const Case c = library_case("linear");
  const device::Config best = modelled_candidates(c.shape, problem(512, 1024, 4096), {})[0].config;
  EXPECT_LE(best.tile_m * best.tile_n, 128 * 128) << to_string(best);
}

TEST(Configure, two_hundred_heights_share_a_handful_of_kernels) {
  for (const char* name : {"linear", "residual_rms"}) {
    const Case c = library_case(name);
    std::set<std::string> texts;
    for (int64_t i = 1; i <= 200; ++i) {
      const device::Config best =
          modelled_candidates(c.shape, problem(i * 83, 4096, 4096), {})[0].config;
      texts.insert(to_string(best) + (best.mask_rows ? " rows" : "") +
                   (best.mask_cols ? " columns" : ""));
    }
    EXPECT_LE(texts.size(), 16u) << name;
    EXPECT_GE(texts.size(), 2u) << name;
    RecordProperty(name, static_cast<int>(texts.size()));
  }
}

TEST(Configure, parts_lie_between_boxes_and_chunks) {
  const Case c = library_case("linear");
  Problem p = problem(4096, 3072, 2048);
  p.b_seams = {1024, 1040};
  for (const Candidate& candidate : modelled_candidates(c.shape, p, {})) {
    const auto& ports = c.shape.ports;
    const device::Plan plan =
        make_plan(candidate.config, ports.data(), static_cast<int>(ports.size()));
    EXPECT_EQ(1040 % plan.b_box_rows, 0) << to_string(candidate.config);
    EXPECT_EQ(candidate.config.b_parts, 3);
  }
  p.tiles_cut_n = true;
  std::string why;
  EXPECT_TRUE(modelled_candidates(c.shape, p, {}, &why).empty());
  EXPECT_NE(why.find("parts along N"), std::string::npos) << why;
  p.b_seams = {1024, 2048};
  EXPECT_FALSE(modelled_candidates(c.shape, p, {}).empty());
  p.tiles_cut_n = false, p.b_seams = {1004};
  EXPECT_TRUE(modelled_candidates(c.shape, p, {}).empty());
}

TEST(Configure, a_wish_is_followed_or_has_no_candidate) {
  const Case c = library_case("residual_rms");
  const ConfigWish wish = parse_config("pingpong:64x256:2x1 chunk=32 load=3");
  for (const Candidate& candidate : modelled_candidates(c.shape, problem(4096, 4096, 4096), wish)) {
    EXPECT_EQ(candidate.config.tile_m, 64);
    EXPECT_EQ(candidate.config.cluster_m, 2);
    EXPECT_EQ(candidate.config.chunk_cols, 32);
    EXPECT_EQ(candidate.config.load_stages, 3);
  }
  std::string why;
  EXPECT_TRUE(
      modelled_candidates(c.shape, problem(4096, 4096, 4096), parse_config("64x64"), &why).empty());
  EXPECT_NE(why, "");
}

TEST(Configure, words_that_name_nothing_are_refused) {
  for (const char* text : {"pingpang", "128x", "x128", "chunk=", "chunk=-1", "width=3", "2x1x"})
    EXPECT_THROW(parse_config(text), Error) << text;
}

}  // namespace
}  // namespace coda::cuda
