// SPDX-License-Identifier: Apache-2.0
// Tiny models of every family against transformers: logits, loss and the gradient of every
// parameter, in float32, by the fused and the unfused plan.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "execute/executor.h"
#include "nn/model.h"
#include "nn/names.h"
#include "rewrite/rewrite.h"
#include "train/safetensors.h"

namespace coda::test {
namespace {

using train::Safetensors;

struct Arena {
  explicit Arena(size_t size) : bytes(size), memory(size + kWorkspaceAlignment, std::byte{0xFF}) {
    data = memory.data();
    size_t space = memory.size();
    std::align(kWorkspaceAlignment, 1, data, space);
  }
  size_t bytes;
  std::vector<std::byte> memory;
  void* data;
};

class Reference : public testing::TestWithParam<const char*> {
 protected:
  Reference()
      : folder_(std::string(CODA_SOURCE_DIR) + "/tests/reference/" + GetParam()),
        config_(nn::load_config(folder_)),
        model_(Safetensors::open(folder_)),
        wanted_(Safetensors::open(folder_ + "/reference.safetensors")) {
    const auto& ids = wanted_.at("input_ids");
    rows_ = ids.shape[0], length_ = ids.shape[1];
    ids_ = train::integers_of(ids);
    for (int64_t r = 0; r <= rows_; ++r) sequences_.push_back(r * length_);
    for (int64_t i = 0; i < rows_ * length_; ++i) positions_.push_back(i % length_);
    labels_ = train::integers_of(wanted_.at("targets"));
    for (const nn::FrequencyTable& table : nn::frequency_tables(config_))
      values_[table.name] = table.values;
    for (const nn::ParameterSpec& spec : nn::parameters(config_))
      values_[spec.name] = train::floats_of(model_.at(spec.name));
  }

  void bind(execute::Tensors& tensors) {
    tensors["ids"] = ids_.data();
    tensors["positions"] = positions_.data();
    tensors["labels"] = labels_.data();
    for (auto& [name, values] : values_) tensors[name] = values.data();
  }

  static void compare(const std::vector<float>& got, const std::vector<float>& want,
                      const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double scale = 0, worst = 0;
    for (float value : want) scale = std::max(scale, std::fabs(double(value)));
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::fabs(double(got[i]) - want[i]);
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
    EXPECT_LE(worst, 1e-4 * scale) << what << ", of " << scale;
  }

  const std::string folder_;
  const nn::ModelConfig config_;
  const Safetensors model_, wanted_;
  int64_t rows_ = 0, length_ = 0;
  std::vector<int64_t> ids_, positions_, labels_, sequences_;
  std::map<std::string, std::vector<float>> values_;
};

TEST_P(Reference, logits) {
  rewrite::Options options;
  const Graph graph = nn::model_graph(config_, {nn::Head::Kind::logits}, DType::f32);
  const execute::Executor executor(rewrite::rewrite(graph.ir(), options), DType::f32, 2);
  const int64_t tokens = rows_ * length_;
  std::vector<float> logits(static_cast<size_t>(tokens * config_.vocabulary), NAN);
  execute::Tensors tensors;
  bind(tensors);
  tensors["logits"] = logits.data();
  const Arena arena(executor.arena_bytes(tokens, sequences_));
  execute::Run run;
  run.tokens = tokens;
  run.sequences = sequences_;
  executor.run(run, tensors, arena.data, arena.bytes);
  compare(logits, train::floats_of(wanted_.at("logits")), "logits");
}

TEST_P(Reference, loss_and_gradients) {
  for (const bool fused : {true, false}) {
    rewrite::Options options;
    options.fused = fused;
    options.of = {"loss"};
    options.chunk_columns = config_.vocabulary;
    options.chunk_rows = 20;
    const Graph graph = nn::model_graph(config_, {}, DType::f32);
    const execute::Executor executor(rewrite::rewrite(graph.ir(), options), DType::f32, 2);
    const int64_t packed = config_.query_columns() + 2 * config_.key_columns();
    for (const rewrite::Buffer& buffer : executor.plan().buffers) {
      if (buffer.per_token && buffer.columns == config_.vocabulary && packed != buffer.columns) {
        EXPECT_TRUE(buffer.chunked) << buffer.name;
      }
    }
    int64_t counted = 0;
    for (int64_t label : labels_) counted += label != -100;
    const float upstream = 1 / static_cast<float>(counted);
    float loss = NAN;
    execute::Tensors tensors;
    bind(tensors);
    tensors["loss"] = &loss;
    tensors["d_loss"] = const_cast<float*>(&upstream);
    std::map<std::string, std::vector<float>> gradients;
    for (const nn::ParameterSpec& spec : nn::parameters(config_)) {
      auto& gradient = gradients[spec.name];
      gradient.assign(static_cast<size_t>(spec.rows * std::max<int64_t>(spec.columns, 1)), NAN);
      tensors["d_" + spec.name] = gradient.data();
    }
    const int64_t tokens = rows_ * length_;
    const Arena arena(executor.arena_bytes(tokens, sequences_));
    execute::Run run;
    run.tokens = tokens;
    run.sequences = sequences_;
    executor.run(run, tensors, arena.data, arena.bytes);
    compare({loss * upstream}, train::floats_of(wanted_.at("loss")), "loss");
    for (const auto& [name, gradient] : gradients)
      compare(gradient, train::floats_of(wanted_.at("grad." + name)), name);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Reference,
                         testing::Values("llama", "llama3", "mistral", "qwen2", "qwen3", "gemma2",
                                         "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace coda::test
