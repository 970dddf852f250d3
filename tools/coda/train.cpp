// SPDX-License-Identifier: Apache-2.0
// coda train: a small Transformer on a text or token file, by fused plans; checkpoints that
// transformers opens.
#include <coda/error.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "commands.h"
#include "nn/config.h"
#include "ranges.h"
#include "train/atomic_file.h"
#include "train/checkpoint.h"
#include "train/curve.h"
#include "train/data.h"
#include "train/run_folder.h"
#include "train/schedule.h"
#include "train/trainer.h"
#include "train_report.h"

namespace coda::tool {
namespace {

using train::RunState;

struct Options {
  std::string data, tokens = "bytes", config, init, resume, out = "run";
  std::string type = "f32", state = "f32", schedule = "cosine";
  int64_t steps = 300, batch = 8, length = 256, micro = 1, warmup = -1, evaluate = 50, save = 0;
  int64_t hidden = 192, ffn = 512, layers = 4, heads = 6;
  int threads = 0, keep = 2;
  double rate = 2e-3, floor = 0.1, decay = 0.1, clip = 1, z_loss = 0, smoothing = 0,
         held_out = 0.05;
  int64_t seed = 1;
  bool unfused = false, memory = false, recompute = false;
  std::vector<std::string> sizes;  // of the model: the options that were given
};

volatile std::sig_atomic_t interrupted = 0;  // the signal

DType dtype_of(const std::string& name) {
  const auto type = dtype_from_name(name);
  if (!type || (*type != DType::f32 && *type != DType::bf16 && *type != DType::f16))
    throw Error(ErrorKind::argument, "--type", "f32, bf16 or f16", "'" + name + "'");
  return *type;
}

train::StateType state_of(const std::string& name) {
  if (name == "f32") return train::StateType::f32;
  if (name == "model") return train::StateType::model;
  throw Error(ErrorKind::argument, "--state", "f32 or model", "'" + name + "'");
}

nn::ModelConfig stored_model(const std::string& path, int64_t length) {
  nn::ModelConfig config = nn::load_config(path);
  if (length > config.max_positions)
    throw Error(
        ErrorKind::argument, "--length",
        fmt::format("at most max_position_embeddings of {}, {}", path, config.max_positions),
        fmt::format("{}", length), "use shorter sequences, or a model of more positions");
  return config;
}

/// The checkpoint of --resume or the model of --init; empty: none.
std::string origin_of(const Options& options) {
  if (!options.resume.empty()) return train::find_checkpoint(options.resume, train::Use::resume);
  if (!options.init.empty()) return train::find_checkpoint(options.init, train::Use::model);
  return {};
}

/// A small LLaMA of the given sizes.
nn::ModelConfig small_model(const Options& options) {
  if (options.hidden % options.heads != 0)
    throw Error(ErrorKind::argument, "--heads", "a divisor of --hidden",
                fmt::format("{} heads, {} hidden", options.heads, options.hidden));
  nn::ModelConfig config;
  config.hidden = options.hidden;
  config.ffn = options.ffn;
  config.layers = options.layers;
  config.heads = config.key_heads = options.heads;
  config.head_size = options.hidden / options.heads;
  config.vocabulary = 256;
  config.max_positions = std::max<int64_t>(options.length, 2048);
  config.norm_eps = 1e-5;
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.windows.assign(static_cast<size_t>(options.layers), 0);
  nn::validate(config, "coda train");
  return config;
}

/// Refuses another model than the run's: --config or a size that was given says otherwise. Sizes
/// that were not given are the run's.
void require_same_model(const Options& options, const nn::ModelConfig& stored,
                        const std::string& folder) {
  if (!options.config.empty())
    train::require_same_model(nn::load_config(options.config), stored, folder);
  if (options.sizes.empty()) return;
  Options all = options;
  const auto size = [&](const char* name, int64_t& value, int64_t of_run) {
    const auto& given = options.sizes;
    if (std::find(given.begin(), given.end(), name) == given.end())
      value = of_run;
    else if (value != of_run)
      throw Error(ErrorKind::argument, name, fmt::format("{}, as in {}", of_run, folder),
                  fmt::format("{}", value),
                  "a run goes on with its model: leave the option out, or begin a new run without "
                  "--resume");
  };
  size("--hidden", all.hidden, stored.hidden);
  size("--ffn", all.ffn, stored.ffn);
  size("--layers", all.layers, stored.layers);
  size("--heads", all.heads, stored.heads);
  nn::ModelConfig given = small_model(all);
  given.max_positions = stored.max_positions;  // of --length, which is a setting
  train::require_same_model(given, stored, folder);
}

/// The model of --resume, --init or --config, otherwise a small one.
nn::ModelConfig model_of(const Options& options, const std::string& origin) {
  if (!origin.empty()) {
    nn::ModelConfig config = stored_model(origin, options.length);
    if (!options.resume.empty()) require_same_model(options, config, origin);
    return config;
  }
  return options.config.empty() ? small_model(options)
                                : stored_model(options.config, options.length);
}

std::map<std::string, std::string> settings_of(const Options& options) {
  return {{"tokens", options.tokens},
          {"type", options.type},
          {"state", options.state},
          {"schedule", options.schedule},
          {"steps", fmt::format("{}", options.steps)},
          {"batch", fmt::format("{}", options.batch)},
          {"length", fmt::format("{}", options.length)},
          {"micro", fmt::format("{}", options.micro)},
          {"warmup", fmt::format("{}", options.warmup)},
          {"lr", fmt::format("{}", options.rate)},
          {"floor", fmt::format("{}", options.floor)},
          {"decay", fmt::format("{}", options.decay)},
          {"clip", fmt::format("{}", options.clip)},
          {"z-loss", fmt::format("{}", options.z_loss)},
          {"smoothing", fmt::format("{}", options.smoothing)},
          {"held-out", fmt::format("{}", options.held_out)},
          {"seed", fmt::format("{}", options.seed)}};
}

class Session {
 public:
  Session(const Shell& shell, const Options& options)
      : shell_(shell),
        options_(options),
        origin_(origin_of(options)),
        config_(model_of(options, origin_)),
        data_(data_options()),
        schedule_({train::decay(options.schedule), options.rate, options.steps, options.warmup,
                   options.floor}),
        trainer_(config_, trainer_options()) {}

  int run() {
    load();
    if (!options_.resume.empty() && state_.step == options_.steps) return nothing_left();
    open();
    const int64_t tokens = options_.batch * options_.length;
    if (!shell_.quiet) print_programs(trainer_, trainer_options(), tokens);
    if (options_.memory) print_memory(trainer_, tokens);
    const auto begin = std::chrono::steady_clock::now();
    const int64_t first = state_.step;
    while (state_.step < options_.steps && !interrupted) {
      try {
        step(begin, first);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::check) diverged(error, first);
        throw;
      }
      const bool last = state_.step == options_.steps || interrupted;
      if (last || (options_.save > 0 && state_.step % options_.save == 0))
        saved_ = train::save_checkpoint(options_.out, trainer_, state_, options_.keep);
    }
    finish();
    return interrupted ? 128 + interrupted : int{kOk};
  }

 private:
  train::DataOptions data_options() const {
    train::DataOptions result;
    result.path = options_.data;
    result.kind = train::token_kind(options_.tokens);
    result.vocabulary = config_.vocabulary;
    result.sequences = options_.batch;
    result.length = options_.length;
    result.micro_batches = options_.micro;
    result.held_out = options_.held_out;
    result.seed = static_cast<uint64_t>(options_.seed);
    return result;
  }

  train::TrainerOptions trainer_options() const {
    train::TrainerOptions result;
    result.type = dtype_of(options_.type);
    result.state = state_of(options_.state);
    result.fused = !options_.unfused;
    result.recompute = options_.recompute;
    result.threads = options_.threads;
    result.optimizer.weight_decay = options_.decay;
    result.optimizer.clip = options_.clip;
    result.head.z_loss = options_.z_loss;
    result.head.smoothing = options_.smoothing;
    return result;
  }

  /// The checkpoint that the run goes on with; empty: it is a new one.
  std::string resumed() const { return options_.resume.empty() ? "" : origin_; }

  int64_t position() const {
    return state_.step < options_.steps ? data_.position(state_.step) : 0;
  }

  void load() {
    std::map<std::string, std::string> settings = settings_of(options_);
    settings["data"] = data_.identity();
    train::check_run_folder(options_.out, resumed());
    if (!options_.resume.empty()) {
      state_ = train::load_checkpoint(origin_, trainer_, settings);
      if (state_.data_position != position())
        throw Error(ErrorKind::io, path_in(origin_, "state.json") + ": key 'data_position'",
                    fmt::format("{} at step {}", position(), state_.step),
                    fmt::format("{}", state_.data_position),
                    "resume from another checkpoint, or begin a new run with the weights of this "
                    "one: --init");
      saved_ = origin_;
    } else if (!origin_.empty()) {
      train::load_model(origin_, trainer_);
    } else {
      trainer_.initialize(static_cast<uint64_t>(options_.seed));
    }
    state_.settings = std::move(settings);
  }

  void open() {
    folder_ = std::make_unique<train::RunFolder>(options_.out, resumed());
    metrics_ = std::make_unique<train::MetricsFile>(path("metrics.csv"), state_.step - 1);
    if (state_.step == 0 || shell_.quiet) return;
    fmt::print(stderr, "going on from {}\n", origin_);
    const size_t lines = train::read_metrics(path("metrics.csv")).size();
    if (static_cast<int64_t>(lines) != state_.step)
      fmt::print(stderr, "note: {} has {} of the {} steps so far\n", path("metrics.csv"), lines,
                 state_.step);
  }

  /// Of a run that has all its steps: not a failure, and nothing is written.
  int nothing_left() const {
    if (shell_.json) {
      print_json({{"step", state_.step},
                  {"tokens", state_.tokens},
                  {"loss", nullptr},
                  {"checkpoint", saved_}});
      return kOk;
    }
    if (!shell_.quiet)
      fmt::print(stderr,
                 "nothing is left to do: the run has done its {} steps, and a run has the steps it "
                 "began with\nto train further, begin a new run with its weights: --init {} --out "
                 "another folder\n",
                 options_.steps, saved_);
    fmt::print("{}\n", saved_);
    return kOk;
  }

  /// Keeps what there is: the parameters are those of the last step that was finite. Earlier
  /// checkpoints all stay, as the last steps may be part of what went wrong.
  [[noreturn]] void diverged(const Error& error, int64_t first) {
    std::string fix = error.fix();
    try {
      if (state_.step > first && train::not_finite(trainer_.optimizer()).empty())
        saved_ =
            train::save_checkpoint(options_.out, trainer_, state_, std::numeric_limits<int>::max());
    } catch (const Error& failure) {
      fix += std::string("; they could not be saved: ") + failure.what();
    }
    fix += saved_.empty() ? "; there is no checkpoint" : "; the last checkpoint is " + saved_;
    if (state_.step > 0) draw();
    throw Error(error.kind(), error.where(), error.expected(), error.got(), fix);
  }

  /// loss.svg of what metrics.csv says: a log, so nothing fails where it cannot be read.
  std::vector<train::Metrics> draw() const {
    std::vector<train::Metrics> lines;
    try {
      lines = train::read_metrics(path("metrics.csv"));
      train::AtomicFile file(path("loss.svg"));
      file.write(train::svg_plot(train::curve_of(lines), "loss"));
      file.commit();
    } catch (const Error& error) {
      fmt::print(stderr, "note: no loss.svg: {}\n", error.what());
    }
    return lines;
  }

  void step(std::chrono::steady_clock::time_point begin, int64_t first) {
    using Seconds = std::chrono::duration<double>;
    const auto before = std::chrono::steady_clock::now();
    train::Metrics line;
    line.step = state_.step;
    line.learning_rate = schedule_.rate(state_.step);
    const train::StepResult result =
        trainer_.step(data_, state_.step, options_.micro, line.learning_rate);
    ++state_.step;
    state_.tokens += result.tokens;
    state_.data_position = position();
    loss_ = result.loss;
    const auto after = std::chrono::steady_clock::now();
    const bool evaluates = options_.evaluate > 0 &&
                           (state_.step % options_.evaluate == 0 || state_.step == options_.steps);
    if (evaluates) line.held_out_loss = trainer_.held_out_loss(data_, 8);
    line.tokens = state_.tokens;
    line.loss = result.loss;
    line.gradient_norm = result.gradient_norm;
    line.tokens_per_second = static_cast<double>(result.tokens) / Seconds(after - before).count();
    line.seconds = Seconds(std::chrono::steady_clock::now() - begin).count();
    metrics_->append(line);
    const double left = line.seconds / static_cast<double>(state_.step - first) *
                        static_cast<double>(options_.steps - state_.step);
    if (evaluates && !shell_.quiet)
      fmt::print(stderr,
                 "step {:>6}  loss {:.4f}  held out {:.4f}  {:.0f} tokens/s  {:.0f} s left\n",
                 state_.step, line.loss, *line.held_out_loss, line.tokens_per_second, left);
    else
      progress(shell_,
               fmt::format("step {} of {}, loss {:.4f}, {:.0f} tokens/s, {:.0f} s left",
                           state_.step, options_.steps, line.loss, line.tokens_per_second, left));
  }

  void finish() {
    progress(shell_, "");
    const std::vector<train::Metrics> lines = draw();
    if (saved_.empty()) fmt::print(stderr, "note: no step was done, so there is no checkpoint\n");
    if (shell_.json)
      print_json({{"step", state_.step},
                  {"tokens", state_.tokens},
                  {"loss", loss_ ? Json(*loss_) : Json(nullptr)},
                  {"checkpoint", saved_}});
    else
      fmt::print("{}{}\n", lines.size() > 1 ? train::terminal_plot(train::curve_of(lines)) : "",
                 saved_);
  }

  static std::string path_in(const std::string& folder, const char* name) {
    return (std::filesystem::path(folder) / name).string();
  }
  std::string path(const char* name) const { return path_in(options_.out, name); }

  const Shell& shell_;
  const Options& options_;
  const std::string origin_;
  const nn::ModelConfig config_;
  const train::Data data_;
  const train::Schedule schedule_;
  train::Trainer trainer_;
  RunState state_;
  std::unique_ptr<train::RunFolder> folder_;
  std::unique_ptr<train::MetricsFile> metrics_;
  std::optional<double> loss_;  // of the last step
  std::string saved_;           // the last checkpoint
};

constexpr int64_t kMost = 1000000000;

void check_ranges(const Options& options) {
  const auto number = [](const char* option, int64_t value, int64_t low, int64_t high = kMost) {
    require_range(option, value, low, high);
  };
  number("--steps", options.steps, 1);
  number("--batch", options.batch, 1);
  number("--length", options.length, 1);
  number("--micro", options.micro, 1);
  number("--warmup", options.warmup, 0);
  number("--evaluate", options.evaluate, 0);
  number("--save", options.save, 0);
  number("--keep", options.keep, 1);
  number("--hidden", options.hidden, 1, 1 << 20);
  number("--ffn", options.ffn, 1, 1 << 22);
  number("--layers", options.layers, 1, 1 << 14);
  number("--heads", options.heads, 1, 1 << 14);
  number("--threads", options.threads, 0, 4096);
  number("--seed", options.seed, 0, int64_t{1} << 62);
  require_range("--lr", options.rate, 0.0, 1e30);
  require_range("--floor", options.floor, 0.0, 1.0);
  require_range("--decay", options.decay, 0.0, 1e30);
  require_range("--clip", options.clip, 0.0, 1e30);
  require_range("--z-loss", options.z_loss, 0.0, 1e30);
  require_range("--smoothing", options.smoothing, 0.0, 1.0);
  require_range("--held-out", options.held_out, 0.0, 0.9);
}

int run(const Shell& shell, Options& options) {
  if (options.warmup == -1) options.warmup = options.steps / 20;
  check_ranges(options);
  if (!options.resume.empty() && !options.init.empty())
    throw Error(ErrorKind::argument, "--init", "either --init or --resume", "both");
  // After the step at hand a checkpoint is written; a second signal ends at once.
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return Session(shell, options).run();
}

}  // namespace

void add_train(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* c = add_command(app, shell, "train", "train a Transformer on a text",
                            [&shell, options] { return run(shell, *options); });
  c->option_defaults()->always_capture_default();
  c->add_option("DATA", options->data, "a text (bytes are tokens) or a file of tokens")->required();
  c->add_option("--tokens", options->tokens, "bytes, u16 or u32");
  c->add_option("--held-out", options->held_out, "part of the data that is never trained on");
  c->add_option("--out", options->out, "the run's folder");
  c->add_option("--config", options->config, "config.json of the model, or its folder");
  c->add_option("--init", options->init, "begin with the weights of this model");
  c->add_option("--resume", options->resume, "go on with this run: same model, settings and data");
  c->add_option("--steps", options->steps, "optimizer steps");
  c->add_option("--batch", options->batch, "sequences of a micro-batch");
  c->add_option("--length", options->length, "tokens of a sequence");
  c->add_option("--micro", options->micro, "micro-batches of a step");
  c->add_option("--lr", options->rate, "highest learning rate");
  c->add_option("--schedule", options->schedule, "cosine, linear or constant");
  c->add_option("--warmup", options->warmup, "steps of warm-up; by default a twentieth");
  c->add_option("--floor", options->floor, "part of the rate that the last step has");
  c->add_option("--decay", options->decay, "weight decay of weights");
  c->add_option("--clip", options->clip, "largest norm of the gradient; 0: no limit");
  c->add_option("--z-loss", options->z_loss, "factor of the squared log-sum-exp");
  c->add_option("--smoothing", options->smoothing, "label smoothing");
  c->add_option("--type", options->type, "of weights and activations: f32, bf16 or f16");
  c->add_option("--state", options->state, "of optimizer states: f32, or model for --type");
  const auto size = [&](const std::string& name, int64_t& value, const char* description) {
    c->add_option(name, value, description)->each([options, name](const std::string&) {
      options->sizes.push_back(name);
    });
  };
  size("--hidden", options->hidden, "width, without --config");
  size("--ffn", options->ffn, "width of the MLP, without --config");
  size("--layers", options->layers, "without --config");
  size("--heads", options->heads, "without --config");
  c->add_option("--evaluate", options->evaluate,
                "steps between losses of 8 held-out batches; 0: none");
  c->add_option("--save", options->save, "steps between checkpoints; 0: at the end");
  c->add_option("--keep", options->keep, "checkpoints that stay");
  c->add_option("--seed", options->seed, "of weights and the order of data");
  c->add_option("--threads", options->threads, "0: one per core");
  const std::vector<CLI::Option*> sizes{c->get_option("--hidden"), c->get_option("--ffn"),
                                        c->get_option("--layers"), c->get_option("--heads")};
  for (CLI::Option* size : sizes)
    for (const char* model : {"--config", "--init"}) c->get_option(model)->excludes(size);
  c->get_option("--init")->excludes(c->get_option("--config"));
  c->add_flag("--memory", options->memory, "print what the plan's memory holds at its peak");
  c->add_flag("--recompute", options->recompute,
              "keep the ends of layers alone for gradients: less memory, more time, the same bits");
  c->add_flag("--unfused", options->unfused, "products and passes apart, to compare with");
}

}  // namespace coda::tool
