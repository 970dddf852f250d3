// SPDX-License-Identifier: Apache-2.0
// coda generate: text from a model of bytes. Every token computes the whole text again; there is no
// cache of keys and values.
#include <coda/error.h>
#include <fmt/core.h>

#include <memory>

#include "commands.h"
#include "ranges.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/sampling.h"

namespace coda::tool {
namespace {

struct Options {
  std::string model, prompt = "\n", type = "f32";
  int64_t tokens = 200, context = 512;
  int threads = 0;
  uint64_t seed = 1;
  train::SamplingOptions sampling{0.8, 0.95};
};

int run(const Shell& shell, const Options& options) {
  train::check(options.sampling);
  require_range<int64_t>("--tokens", options.tokens, 0, 1 << 24);
  require_range<int64_t>("--context", options.context, 1, 1 << 24);
  require_range("--threads", options.threads, 0, 4096);
  if (options.prompt.empty())
    throw Error(ErrorKind::argument, "--prompt", "at least one byte to go on from", "none");
  const std::string folder = train::find_checkpoint(options.model, train::Use::model);
  const nn::ModelConfig config = nn::load_config(folder);
  if (config.vocabulary > 256)
    throw Error(ErrorKind::unsupported, "[generate] " + folder, "a model of bytes",
                fmt::format("a vocabulary of {}", config.vocabulary),
                "coda has no tokenizer; use transformers for this model");
  train::TrainerOptions settings;
  settings.threads = options.threads;
  train::Trainer trainer(config, settings);
  train::load_model(folder, trainer);
  train::Random random(options.seed, "generate");
  std::vector<int64_t> ids;
  for (const char c : options.prompt) ids.push_back(static_cast<unsigned char>(c));
  for (int64_t id : ids)
    if (id >= config.vocabulary)
      throw Error(ErrorKind::argument, "--prompt", fmt::format("bytes below {}", config.vocabulary),
                  fmt::format("{}", id));
  std::string text = options.prompt;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto length = std::min<int64_t>(static_cast<int64_t>(ids.size()), options.context);
    const std::vector<int64_t> seen(ids.end() - length, ids.end());
    ids.push_back(train::sample(trainer.next_logits(seen), options.sampling, random));
    text += static_cast<char>(ids.back());
  }
  if (shell.json)
    print_json({{"model", folder}, {"tokens", ids}});
  else
    fmt::print("{}\n", text);
  return kOk;
}

}  // namespace

void add_generate(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* c = add_command(app, shell, "generate", "text from a trained model",
                            [&shell, options] { return run(shell, *options); });
  c->option_defaults()->always_capture_default();
  c->add_option("MODEL", options->model, "a run of coda train, or a model's folder")->required();
  c->add_option("--prompt", options->prompt, "text to go on from")->default_str("a newline");
  c->add_option("--tokens", options->tokens, "how many to add");
  c->add_option("--context", options->context, "tokens that are looked back at");
  c->add_option("--temperature", options->sampling.temperature, "0: the most probable token");
  c->add_option("--top-p", options->sampling.top_p,
                "only the most probable that make up this much");
  c->add_option("--seed", options->seed, "of the drawing");
  c->add_option("--threads", options->threads, "0: one per core");
}

}  // namespace coda::tool
