// SPDX-License-Identifier: Apache-2.0
// What one more layer costs a training step, counted by hand: bytes moved, values kept, memory.
// No layer's step makes values that another layer reads, but for the gradient it passes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "execute/layout.h"
#include "rewrite/cost.h"
#include "train/trainer.h"

namespace coda::train {
namespace {

using rewrite::Plan;
using rewrite::Ref;

constexpr int kFew = 2, kMany = 6;
constexpr int64_t kTokens = 4096;  // few bytes are lost between buffers

class Depth : public testing::TestWithParam<const char*> {
 protected:
  static nn::ModelConfig config(int layers) {
    nn::ModelConfig config =
        nn::load_config(std::string(CODA_SOURCE_DIR "/tests/reference/") + GetParam());
    const std::vector<int64_t> windows = config.windows;
    config.layers = layers;
    config.windows.clear();
    for (int i = 0; i < layers; ++i)
      config.windows.push_back(windows[static_cast<size_t>(i) % windows.size()]);
    return config;
  }
  static Plan plan(int layers, bool recompute = false) {
    TrainerOptions options;
    options.type = DType::bf16;
    options.recompute = recompute;
    return training_plan(config(layers), options);
  }
  static int64_t arena(const Plan& plan) {
    return static_cast<int64_t>(execute::lay_out(plan, kTokens, DType::bf16).bytes);
  }
  static int64_t saved(const Plan& plan) {
    const rewrite::Cost::Saved kept = rewrite::cost_of(plan, DType::bf16).saved;
    return kept.matrices + kept.rows + kept.attention;
  }

  const nn::ModelConfig model = config(kFew);
  const int64_t d = model.hidden, f = model.ffn, q = model.query_columns(),
                qkv = q + 2 * model.key_columns();
};

/// The most values that a program of the plan stores.
size_t most_stores(const Plan& plan) {
  size_t most = 0;
  for (const rewrite::Step& step : plan.steps)
    if (std::holds_alternative<rewrite::ProgramCall>(step.call))
      most = std::max(most, writes(step).size());
  return most;
}

bool any_step(const rewrite::Step& /*step*/) { return true; }
bool is_weight_gradient(const rewrite::Step& step) {
  const auto* call = std::get_if<rewrite::ProgramCall>(&step.call);
  return call && !call->rows_are_tokens;
}

/// For how many steps a value that a backward step makes is kept at most until such readers.
size_t longest_wait(const Plan& plan, bool (*is_reader)(const rewrite::Step&)) {
  std::map<int, size_t> made;
  size_t longest = 0;
  for (size_t s = plan.backward; s < plan.steps.size(); ++s) {
    for (const Ref& ref : reads(plan.steps[s]))
      if (const auto found = made.find(ref.buffer); found != made.end() && is_reader(plan.steps[s]))
        longest = std::max(longest, s - found->second);
    for (const Ref& ref : writes(plan.steps[s]))
      if (plan.buffers[ref.buffer].role == rewrite::Buffer::Role::local)
        made.emplace(ref.buffer, s);
  }
  return longest;
}

TEST_P(Depth, no_step_stores_more_in_a_deeper_model) {
  for (const bool recompute : {false, true})
    EXPECT_EQ(most_stores(plan(kMany, recompute)), most_stores(plan(kFew, recompute)))
        << to_string(plan(kMany, recompute));
}

TEST_P(Depth, what_a_backward_step_makes_is_read_before_the_layer_is_through) {
  const Plan few = plan(kFew), many = plan(kMany);
  const size_t layer =
      (many.steps.size() - many.backward - (few.steps.size() - few.backward)) / (kMany - kFew);
  EXPECT_LT(longest_wait(many, any_step), layer) << to_string(many);
}

TEST_P(Depth, operands_of_weight_gradients_do_not_wait_for_another_part_of_the_layer) {
  // Of gate and up: made by a product, whose own weight gradient and the next product come first.
  EXPECT_LE(longest_wait(plan(kMany), is_weight_gradient), size_t{3}) << to_string(plan(kMany));
}

TEST_P(Depth, a_layer_grows_the_arena_by_what_it_keeps) {
  for (const bool recompute : {false, true}) {
    // In less than four layers that are made again, the peak is elsewhere.
    const Plan few = plan(4, recompute), many = plan(8, recompute);
    EXPECT_EQ(arena(many) - arena(few), kTokens * (saved(many) - saved(few))) << to_string(many);
  }
}

TEST_P(Depth, a_layer_moves_and_keeps_the_bytes_counted_by_hand) {
  const rewrite::Cost few = rewrite::cost_of(plan(kFew), DType::bf16),
                      many = rewrite::cost_of(plan(kMany), DType::bf16);
  const auto layer = [](int64_t all, int64_t some) { return (all - some) / (kMany - kFew) / 2; };
  const int64_t forward = layer(many.forward.matrices.total(), few.forward.matrices.total());
  const int64_t backward = layer(many.backward.matrices.total(), few.backward.matrices.total());
  const int64_t kept = layer(many.saved.matrices, few.saved.matrices);
  // What a bias or the norm of heads is added to or taken of is kept beside what attention reads.
  const int64_t heads = model.qk_norm || model.qkv_bias ? qkv : 0;
  if (model.sandwich_norms) {
    // The two norms behind products take a pass each, and another for their gradients. The end of
    // the layer is kept with what those norms are of; the other residual stream follows from them.
    EXPECT_EQ(forward, 14 * d + 4 * f + q + qkv + heads);
    EXPECT_EQ(backward, 24 * d + 10 * f + 2 * q + 5 * qkv);
    EXPECT_EQ(kept, 3 * d + 2 * f + q + qkv + heads);
  } else {
    EXPECT_EQ(forward, 8 * d + 4 * f + q + qkv + heads);
    EXPECT_EQ(backward, 14 * d + 10 * f + 2 * q + 5 * qkv);
    EXPECT_EQ(kept, 2 * d + 2 * f + q + qkv + heads);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Depth,
                         testing::Values("gemma2", "gemma3", "llama", "mistral", "qwen2", "qwen3"));

}  // namespace
}  // namespace coda::train
