// SPDX-License-Identifier: Apache-2.0
// The generator reaches the whole language, and printed programs parse to the same program.
#include "check/generate.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <map>

#include "check/draw.h"
#include "check_support.h"
#include "language/parser.h"
#include "language/printer.h"
#include "reference/reference.h"

namespace coda::check {
namespace {

using Kind = ir::Columns::Kind;

/// What a program contains, by name.
void count(const ir::Program& program, std::map<std::string, int>& seen) {
  static const char* const kNodes[] = {"real",  "integer", "size",  "index", "input",
                                       "apply", "round",   "split", "join",  "swap"};
  const auto dims = [](const ir::Dims& d) {
    static const char* const kColumns[] = {"", "all", "group", "repeat"};
    return std::string(d.rows ? "m " : "") + kColumns[static_cast<int>(d.columns.kind)];
  };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ir::Node& node = program.nodes[i];
    if (const auto* e = std::get_if<ir::Elementwise>(&node)) {
      ++seen[std::string(ir::info(e->op).name)];
      const bool whole = program.info[i].stage == ir::Stage::complete;
      if (whole) ++seen["complete arithmetic"];
      for (ir::ValueId id : ir::operands(node))
        if (const auto* r = std::get_if<ir::Reduce>(&program.nodes[id]);
            r && !whole && r->kept.is_tile())
          ++seen["group used again"];
    } else if (const auto* r = std::get_if<ir::Reduce>(&node)) {
      ++seen[std::string(ir::name_of(r->op)) + " kept " + dims(r->kept)];
      ++seen["reduction " + std::string(ir::name_of(r->op))];
    } else {
      ++seen[kNodes[node.index()]];
    }
  }
  int accumulators = 0;
  for (const ir::Input& input : program.inputs) {
    accumulators += input.kind == ir::Input::Kind::accumulator;
    ++seen["input " + dims(input.dims)];
    if (!input.type.generic) ++seen[std::string("input ") + name_of(input.type.dtype)];
  }
  ++seen["accumulators " + std::to_string(accumulators)];
  for (const ir::Output& output : program.outputs) {
    ++seen["output " + dims(output.dims)];
    if (!output.type.generic) ++seen[std::string("output ") + name_of(output.type.dtype)];
  }
}

TEST(Generator, reaches_every_operation_reduction_dimension_and_type) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 600; ++seed) count(random_program(seed), seen);
  std::vector<std::string> wanted{"round",
                                  "split",
                                  "join",
                                  "swap",
                                  "index",
                                  "size",
                                  "complete arithmetic",
                                  "group used again",
                                  "accumulators 0",
                                  "accumulators 1",
                                  "accumulators 2",
                                  "input m all",
                                  "input m group",
                                  "input all",
                                  "input repeat",
                                  "input m ",
                                  "output m all",
                                  "output m group",
                                  "output all",
                                  "output group",
                                  "output repeat",
                                  "output m repeat",
                                  "output ",
                                  "output m "};
  for (const ir::OpInfo& op : ir::all_ops()) wanted.emplace_back(op.name);
  for (const char* op : {"sum", "max", "min", "mean", "logsumexp", "argmax", "moments"}) {
    wanted.push_back(std::string("reduction ") + op);
    wanted.push_back(std::string(op) + " kept m ");
    wanted.push_back(std::string(op) + " kept m group");
    wanted.push_back(std::string(op) + " kept all");
  }
  for (const char* type : {"f32", "bf16", "f16", "e4m3", "e5m2", "i32", "i64", "u8"}) {
    wanted.push_back(std::string("input ") + type);
    wanted.push_back(std::string("output ") + type);
  }
  for (const std::string& name : wanted) EXPECT_GT(seen[name], 0) << name;
}

TEST(Generator, a_seed_always_gives_the_same_program) {
  EXPECT_EQ(dump(random_program(7)), dump(random_program(7)));
  EXPECT_NE(dump(random_program(7)), dump(random_program(8)));
}

TEST(Printer, random_programs_parse_to_programs_that_print_and_compute_the_same) {
  for (uint64_t seed = 0; seed < seeds(500, 2000); ++seed) {
    const ir::Program program = random_program(seed);
    const std::string text = language::print(program);
    const ir::Program parsed = language::parse_file(text, "random.coda").at(0);
    ASSERT_EQ(language::print(parsed), text) << "seed " << seed;
    if (seed % 5 != 0) continue;
    std::vector<int64_t> symbols = draw_sizes(program, {}, 16, seed);
    symbols[ir::kSymbolM] = 3, symbols[ir::kSymbolN] = column_unit(program, symbols);
    const auto inputs = draw_dense(program, symbols, seed);
    const auto before = reference::evaluate(program, symbols, inputs, {});
    const auto after = reference::evaluate(parsed, symbols, inputs, {});
    ASSERT_EQ(before.size(), after.size());
    for (size_t o = 0; o < before.size(); ++o) {
      ASSERT_EQ(before[o].integer, after[o].integer) << text;
      for (size_t i = 0; i < before[o].value.size(); ++i)
        ASSERT_TRUE(before[o].value[i] == after[o].value[i] ||
                    before[o].value[i] != before[o].value[i])
            << "seed " << seed << " output " << program.outputs[o].name << "\n"
            << text;
    }
  }
}

}  // namespace
}  // namespace coda::check
