// SPDX-License-Identifier: Apache-2.0
#include "rewrite/check_recompute.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "execute/executor.h"
#include "rewrite/passes.h"
#include "rewrite/plan_run.h"

namespace coda::test {
namespace {

using rewrite::Buffer;

void run(PlanRun& plan, const GraphCheck& check, bool split) {
  execute::Run run;
  run.sequences = check.sequences;
  if (split) {
    run.backward = false;
    plan.run(run);
    run.backward = true, run.forward = false;
  }
  plan.run(run);
}

void expect_same_bits(const Matrix& got, const Matrix& want, const std::string& what) {
  ASSERT_EQ(got.values.size(), want.values.size()) << what;
  for (size_t i = 0; i < want.values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint64_t>(got.values[i]), std::bit_cast<uint64_t>(want.values[i]))
        << what << " element " << i << ": " << got.values[i] << " instead of " << want.values[i];
}

}  // namespace

rewrite::Plan check_recompute(const Graph& graph, const GraphCheck& check) {
  rewrite::Options rewriting = rewriting_of(check);
  const rewrite::Joint joint =
      rewrite::differentiate(ir::eliminate(rewrite::expand(graph.ir())), rewriting);
  const Matrices inputs = draw(joint.graph, check);
  rewrite::Plan result;
  for (const bool fused : {true, false})
    for (const DType type : {DType::f32, DType::bf16}) {
      rewriting.fused = fused;
      rewriting.recompute = false;
      const execute::Executor kept(rewrite::rewrite(graph.ir(), rewriting), type, 2);
      rewriting.recompute = true;
      const execute::Executor again(rewrite::rewrite(graph.ir(), rewriting), type, 2);
      if (fused) result = again.plan();
      PlanRun want(kept, check.tokens);
      want.set(inputs);
      run(want, check, false);
      for (const bool split : {false, true}) {
        PlanRun got(again, check.tokens);
        got.set(inputs);
        run(got, check, split);
        for (const Buffer& buffer : kept.plan().buffers)
          if (buffer.role == Buffer::Role::output)
            expect_same_bits(got.get(buffer.name), want.get(buffer.name),
                             std::string(fused ? "fused " : "unfused ") + name_of(type) + " " +
                                 buffer.name + "\n" + to_string(again.plan()));
      }
    }
  return result;
}

}  // namespace coda::test
