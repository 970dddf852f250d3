// SPDX-License-Identifier: Apache-2.0
// Tables of timed configurations: what is read and refused, which calls an entry stands for, and
// what has precedence.
#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/programs.h"
#include "cuda/backend/tuned.h"
#include "language/parser.h"

namespace coda::cuda {
namespace {

using ::testing::HasSubstr;

constexpr const char* kConfig = "cooperative 128x128 1x1 chunk=32 load=1 store=2";

ProgramShape shape_of(const std::string& text) {
  const auto programs = language::parse_file("coda 1\n" + text, "test.coda");
  const Instance instance = check::instance_of(programs.at(0), DType::bf16);
  return program_shape(instance, fused_ports(instance));
}

const ProgramShape& bias() {
  static const ProgramShape shape =
      shape_of("program named(a: acc, b: T[n]) -> y: T[m, n] { y = a + b }");
  return shape;
}

Problem problem(int64_t m, int64_t n, int64_t k) {
  Problem result;
  result.m = m, result.n = n, result.depths = {k};
  return result;
}

TunedEntry entry(int64_t m, int64_t n, int64_t k, const std::string& config = kConfig) {
  TunedEntry result;
  result.program = tuned_key(bias(), problem(m, n, k)), result.layout = "NT";
  result.m = m, result.n = n, result.k = k;
  result.config = config, result.wish = exact_wish(config);
  return result;
}

TunedTable table(std::vector<TunedEntry> entries) {
  return {"NVIDIA H200", kHopperProcessors, std::move(entries)};
}

std::string first(const Problem& p, const TunedTable& from, const ConfigWish& wish = {},
                  const ProgramShape& program = bias()) {
  const Candidate best = candidates(program, p, wish, nullptr, from).at(0);
  return way_of(best.config, best.splits, best.tuned);
}

TEST(Tuned, what_is_written_is_read) {
  TunedTable written = table({entry(16384, 2048, 4096), entry(8192, 1024, 512)});
  written.entries[0].microseconds = 201.5, written.entries[0].ratio = 0.987;
  const TunedTable read = parse_tuned(to_json(written), "test.json");
  EXPECT_EQ(read.gpu, written.gpu);
  EXPECT_EQ(read.multiprocessors, written.multiprocessors);
  ASSERT_EQ(read.entries.size(), 2u);
  EXPECT_TRUE(read.entries[1].replaces(written.entries[1]));
  EXPECT_FALSE(read.entries[1].replaces(written.entries[0]));
  EXPECT_EQ(read.entries[0].config, kConfig);
  EXPECT_TRUE(read.entries[0].wish == written.entries[0].wish);
  EXPECT_EQ(read.entries[0].microseconds, 201.5);
  EXPECT_EQ(read.entries[0].ratio, 0.987);
  EXPECT_TRUE(parse_tuned(to_json(table({})), "test.json").entries.empty());
}

TEST(Tuned, the_built_in_table_is_of_an_h200) {
  EXPECT_EQ(built_in_table().gpu, "NVIDIA H200");
  EXPECT_EQ(built_in_table().multiprocessors, kHopperProcessors);
}

TEST(Tuned, tables_that_are_wrong_are_refused_by_what_is_wrong) {
  const auto refusal = [](std::string text) {
    try {
      parse_tuned(text, "test.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::argument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string good = to_json(table({entry(16384, 2048, 4096), entry(8192, 1024, 512)}));
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal(good.substr(0, good.size() / 2)), HasSubstr("test.json"));
  EXPECT_THAT(refusal("[]"), HasSubstr("schema"));
  EXPECT_THAT(refusal(with(good, "\"schema\": 1", "\"schema\": 2")), HasSubstr("schema 2"));
  EXPECT_THAT(refusal(with(good, "\"gpu\"", "\"chip\"")), HasSubstr("'gpu'"));
  EXPECT_THAT(refusal(with(good, "\"multiprocessors\": 132", "\"multiprocessors\": \"all\"")),
              HasSubstr("'multiprocessors'"));
  EXPECT_THAT(refusal(with(good, "\"entries\"", "\"rows\"")), HasSubstr("'entries'"));
  EXPECT_THAT(refusal(with(good, "\"m\":8192", "\"m\":0")), HasSubstr("entry 2"));
  EXPECT_THAT(refusal(with(good, "\"layout\"", "\"order\"")), HasSubstr("'layout'"));
  EXPECT_THAT(refusal(with(good, "\"ratio\":0.0", "\"ratio\":\"low\"")), HasSubstr("'ratio'"));
  const std::string unknown = refusal(with(good, "cooperative", "collective"));
  EXPECT_THAT(unknown, HasSubstr("test.json: entry 1"));
  EXPECT_THAT(unknown, HasSubstr("collective"));
  EXPECT_THAT(refusal(with(good, " chunk=32", "")), HasSubstr("a whole one"));
}

TEST(Tuned, an_entry_goes_before_what_the_model_takes) {
  const Problem p = problem(16384, 2048, 4096);
  const TunedTable tuned = table({entry(16384, 2048, 4096)});
  const std::vector<Candidate> modelled = modelled_candidates(bias(), p, {});
  ASSERT_NE(to_string(modelled[0].config, modelled[0].splits), kConfig);
  EXPECT_EQ(first(p, tuned), std::string("fused ") + kConfig + " (tuned)");
  const std::vector<Candidate> all = candidates(bias(), p, {}, nullptr, tuned);
  ASSERT_GE(all.size(), modelled.size());
  EXPECT_FALSE(all[1].tuned);
  EXPECT_EQ(to_string(all[1].config, all[1].splits),
            to_string(modelled[0].config, modelled[0].splits));
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_NE(to_string(all[i].config, all[i].splits), kConfig) << i;
}

TEST(Tuned, an_entry_stands_for_sizes_within_a_factor_of_one_and_a_half) {
  const TunedTable tuned = table({entry(16384, 2048, 4096)});
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{24576, 2048, 4096},
                                {16384, 1408, 4096},
                                {11008, 3072, 6144}})
    EXPECT_THAT(first(problem(m, n, k), tuned), HasSubstr("(tuned)")) << m << " " << n << " " << k;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{24640, 2048, 4096},
                                {16384, 1344, 4096},
                                {16384, 2048, 6208}})
    EXPECT_EQ(first(problem(m, n, k), tuned), first(problem(m, n, k), table({})))
        << m << " " << n << " " << k;
}

TEST(Tuned, the_nearest_entry_decides) {
  const std::string other = "pingpong 64x128 1x1 chunk=32 load=1 store=1";
  const TunedTable tuned = table({entry(16384, 2048, 4096), entry(16384, 2560, 4096, other)});
  EXPECT_THAT(first(problem(16384, 2176, 4096), tuned), HasSubstr(kConfig));
  EXPECT_THAT(first(problem(16384, 2432, 4096), tuned), HasSubstr(other));
}

TEST(Tuned, an_entry_is_for_its_ports_layout_accumulators_and_chip) {
  const Problem p = problem(16384, 2048, 4096);
  const TunedTable tuned = table({entry(16384, 2048, 4096)});
  const auto is_tuned = [&](const Problem& call, const ProgramShape& program = bias()) {
    return candidates(program, call, {}, nullptr, tuned).at(0).tuned;
  };
  ASSERT_TRUE(is_tuned(p));
  // Another name and other arithmetic, but the same ports.
  EXPECT_TRUE(
      is_tuned(p, shape_of("program other(z: acc, w: T[n]) -> out: T[m, n] { out = z * w }")));
  for (const char* text : {"program p(a: acc) -> y: T[m, n] { y = a }",
                           "program p(a: acc, b: f32[n]) -> y: T[m, n] { y = a + b }",
                           "program p(a: acc, b: T[n]) -> y: f32[m, n] { y = a + b }",
                           "program p(a: acc, b: T[n]) -> y: T[m, n], s: f32[m] { y = a + b\n"
                           " s = sum[m](a) }"})
    EXPECT_FALSE(is_tuned(p, shape_of(text))) << text;
  Problem turned = p;
  turned.b_major = device::Major::mn;
  EXPECT_FALSE(is_tuned(turned));
  Problem halves = p;
  halves.element = device::Type::f16;
  EXPECT_FALSE(is_tuned(halves));
  Problem summed = p;
  summed.depths = {2048, 2048};
  EXPECT_FALSE(is_tuned(summed));
  Problem smaller = p;
  smaller.multiprocessors = 114;
  EXPECT_FALSE(is_tuned(smaller));
}

TEST(Tuned, a_wish_has_precedence) {
  const Problem p = problem(16384, 2048, 4096);
  const TunedTable tuned = table({entry(16384, 2048, 4096)});
  EXPECT_THAT(first(p, tuned, parse_config("pingpong 128x192")),
              testing::AllOf(HasSubstr("pingpong 128x192"), Not(HasSubstr("(tuned)"))));
  EXPECT_THAT(first(p, tuned, parse_config("delays")), Not(HasSubstr("(tuned)")));
}

TEST(Tuned, an_entry_that_does_not_fit_the_call_is_passed_over) {
  Problem p = problem(16384, 2048, 4096);
  const TunedTable tuned =
      table({entry(16384, 2048, 4096, "pingpong 128x128 1x1 chunk=64 load=1 store=1")});
  EXPECT_THAT(first(p, tuned), HasSubstr("(tuned)"));
  p.b_seams = {1056}, p.tiles_cut_n = true;  // no multiple of 64
  EXPECT_THAT(first(p, tuned), Not(HasSubstr("(tuned)")));
}

TEST(Tuned, configurations_are_told_apart_by_what_their_text_leaves_out) {
  const ConfigWish usual = exact_wish(kConfig);
  EXPECT_EQ(usual.split, 1);
  EXPECT_EQ(usual.strip, 16);
  const ConfigWish other = exact_wish(std::string(kConfig) + " strip=8 split=4");
  EXPECT_EQ(other.split, 4);
  EXPECT_EQ(other.strip, 8);
}

}  // namespace
}  // namespace coda::cuda
