// SPDX-License-Identifier: Apache-2.0
// The folder of a run: checkpoints are replaced without a moment that has none, one process at a
// time writes, and what identifies data and models is held against them.
#include "train/run_folder.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "nn/config.h"
#include "support/folder.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class RunFolderTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  const test::Folder home_;
  const fs::path folder_ = home_.path();
};

TEST_F(RunFolderTest, a_folder_is_replaced_as_a_whole_or_not_at_all) {
  write("made/new", "1");
  replace_folder(path("made"), path("place"));
  EXPECT_EQ(read("place/new"), "1");
  write("made/newer", "2");
  replace_folder(path("made"), path("place"));
  EXPECT_EQ(read("place/newer"), "2");
  EXPECT_FALSE(fs::exists(folder_ / "place/new"));
  EXPECT_FALSE(fs::exists(folder_ / "made"));
  EXPECT_EQ(message([&] { replace_folder(path("made"), path("place")); }),
            path("place") +
                ": expected a folder to write, got No such file or directory; fix: free space or "
                "choose another --out");
  EXPECT_EQ(read("place/newer"), "2");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(RunFolderTest, one_run_at_a_time_holds_a_folder) {
  write("run/.step-00000003.partial/config.json", "{}");
  {
    const RunFolder first(path("run"), "");
    EXPECT_FALSE(fs::exists(folder_ / "run/.step-00000003.partial"));
    const std::string refused = "--out " + path("run") +
                                ": expected a folder that no other run writes, got another coda "
                                "train writes there now; fix: wait for it or stop it (it saves "
                                "before it ends), or choose another --out";
    EXPECT_EQ(message([&] { const RunFolder second(path("run"), ""); }), refused);
    EXPECT_EQ(message([&] { check_run_folder(path("run"), ""); }), refused);
  }
  const RunFolder next(path("run"), "");
}

TEST_F(RunFolderTest, a_run_goes_on_in_the_folder_of_its_checkpoint_however_it_is_written) {
  write("run/step-00000003/config.json", "{}");
  for (const char* from : {"run/step-00000003", "run/step-00000003/", "run/./step-00000003"})
    EXPECT_EQ(message([&] { check_run_folder(path("run"), path(from)); }), "no error") << from;
  write("other/step-00000003/config.json", "{}");
  EXPECT_THAT(message([&] { check_run_folder(path("run"), path("other/step-00000003")); }),
              HasSubstr("got 1 checkpoint of another run, the last " + path("run/step-00000003")));
  write("begun/metrics.csv", "step\n");  // a header alone: nothing is lost
  EXPECT_EQ(message([&] { check_run_folder(path("begun"), ""); }), "no error");
}

TEST_F(RunFolderTest, names_of_checkpoints_are_steps) {
  EXPECT_EQ(step_of_name("step-00000012"), 12);
  EXPECT_EQ(step_of_name("step-999999999999999999"), 999999999999999999);
  for (const char* name : {"step-", "step-1a", "step--1", "step-9999999999999999999", "ste-1",
                           ".step-00000003.partial", "step-1.old"})
    EXPECT_FALSE(step_of_name(name)) << name;
}

TEST_F(RunFolderTest, a_checkpoint_without_its_optimizer_is_a_model_alone) {
  for (const char* file : {"step-3/config.json", "step-3/model.safetensors", "step-4/config.json",
                           "step-4/model.safetensors.index.json", "step-3/state.json",
                           "step-3/optimizer.safetensors", "step-5/config.json"})
    write(std::string("run/") + file, "x");
  EXPECT_EQ(find_checkpoint(path("run"), Use::model), path("run/step-4"));
  EXPECT_EQ(find_checkpoint(path("run"), Use::resume), path("run/step-3"));
}

TEST_F(RunFolderTest, the_identity_of_data_is_that_of_all_or_of_even_blocks) {
  const auto identity = [&](const std::string& text) {
    write("text", text);
    DataOptions options;
    options.path = path("text");
    options.length = 8;
    return Data(options).identity();
  };
  // FNV-1a, by its definition.
  std::string text(1000, ' ');
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 7919 % 251);
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3;
  }
  std::ostringstream expected;
  expected << "1000 tokens, hash " << std::hex << hash;
  EXPECT_EQ(identity(text), expected.str());
  // Larger than what is read as a whole: the ends and the length tell.
  std::string large((size_t{17} << 20) + 3, 'x');
  const std::string before = identity(large);
  for (const size_t at : {size_t{0}, large.size() - 1, large.size() - 65536}) {
    large[at] = 'y';
    EXPECT_NE(identity(large), before) << at;
    large[at] = 'x';
  }
  EXPECT_NE(identity(large + "x"), before);
  EXPECT_EQ(identity(large), before);
}

/// A model whose output product takes the embedding, in files with more than its tensors.
class ExtraTensorsTest : public RunFolderTest {
 protected:
  ExtraTensorsTest()
      : trainer_(nn::parse_config(R"({
          "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256,
          "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "hidden_act": "silu",
          "rope_theta": 10000.0})"),
                 options()) {
    trainer_.initialize(3);
  }

  static TrainerOptions options() {
    TrainerOptions result;
    result.threads = 1;
    return result;
  }

  /// What loading says of the model's tensors and one more.
  std::string loaded_with(const std::string& name, const std::vector<int64_t>& shape,
                          const float* values) {
    std::vector<TensorToStore> tensors{{name, DType::f32, shape, values}};
    for (const Parameter& parameter : trainer_.optimizer().parameters()) {
      const nn::ParameterSpec& spec = parameter.spec;
      tensors.push_back({spec.name, DType::f32,
                         spec.columns ? std::vector<int64_t>{spec.rows, spec.columns}
                                      : std::vector<int64_t>{spec.rows},
                         parameter.weight.data()});
    }
    fs::create_directories(folder_ / "model");
    write_safetensors(path("model/model.safetensors"), tensors);
    return message([&] { load_model(path("model"), trainer_); });
  }

  Trainer trainer_;
};

TEST_F(ExtraTensorsTest, an_equal_copy_of_the_embedding_is_none) {
  std::vector<float> embedding(256 * 16);
  for (const Parameter& parameter : trainer_.optimizer().parameters())
    if (parameter.spec.name == "model.embed_tokens.weight")
      std::copy_n(reinterpret_cast<const float*>(parameter.weight.data()), embedding.size(),
                  embedding.begin());
  ASSERT_NE(embedding[5], 0);
  EXPECT_EQ(loaded_with("lm_head.weight", {256, 16}, embedding.data()), "no error");
  embedding[5] += 1;
  EXPECT_EQ(loaded_with("lm_head.weight", {256, 16}, embedding.data()),
            path("model") +
                ": tensor 'lm_head.weight': expected the 11 tensors of the model alone, got 1 that "
                "the model does not have; fix: use the config.json that belongs to this file");
}

TEST_F(ExtraTensorsTest, a_step_with_weights_that_are_not_finite_names_them) {
  write("text", std::string(4000, 'a'));
  DataOptions data;
  data.path = path("text");
  data.length = 12;
  Parameter& parameter = trainer_.optimizer().parameters().front();
  reinterpret_cast<float*>(parameter.weight.data())[97 * 16] = std::nanf("");
  EXPECT_EQ(message([&] { trainer_.step(Data(data), 2, 1, 0.1); }),
            "step 2: expected a finite loss, got nan; fix: the weights of '" + parameter.spec.name +
                "' are not finite: go on from an earlier checkpoint; parameters are those after 2 "
                "steps");
}

}  // namespace
}  // namespace coda::train
