// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <coda/error.h>

#include <cmath>

#include "base/convert.h"
#include "rewrite/rewrite.h"
#include "train/random.h"

namespace coda::train {
namespace {

rewrite::Plan make_plan(const nn::ModelConfig& config, const TrainerOptions& options,
                        nn::Head::Kind kind, bool training) {
  nn::Head head = options.head;
  head.kind = kind;
  // Held-out loss is the cross-entropy, whatever training adds to it.
  if (!training) head.smoothing = head.z_loss = 0;
  rewrite::Options rewriting;
  rewriting.fused = options.fused;
  if (training) rewriting.of = {"loss"};
  rewriting.recompute = options.recompute && config.layers > 1;  // of the last nothing is
  if (kind == nn::Head::Kind::loss) rewriting.chunk_columns = config.vocabulary;
  rewriting.chunk_rows = options.chunk_rows;
  return rewrite::rewrite(nn::model_graph(config, head, options.type).ir(), rewriting);
}

std::unique_ptr<const execute::Executor> make_executor(const nn::ModelConfig& config,
                                                       const TrainerOptions& options,
                                                       nn::Head::Kind kind, bool training) {
  return std::make_unique<const execute::Executor>(make_plan(config, options, kind, training),
                                                   options.type, options.threads);
}

bool writes_residual(nn::Role role) {
  return role == nn::Role::attention_output_weight || role == nn::Role::down_weight;
}

bool is_norm(nn::Role role) {
  using enum nn::Role;
  return role == attention_norm || role == query_norm || role == key_norm ||
         role == attention_output_norm || role == ffn_norm || role == ffn_output_norm ||
         role == final_norm;
}

}  // namespace

rewrite::Plan training_plan(const nn::ModelConfig& config, const TrainerOptions& options) {
  return make_plan(config, options, nn::Head::Kind::loss, true);
}

Trainer::Trainer(const nn::ModelConfig& config, const TrainerOptions& options)
    : config_(config),
      options_(options),
      optimizer_(config, options.type, options.state, options.optimizer, options.threads),
      tables_(nn::frequency_tables(config)),
      training_(make_executor(config, options, nn::Head::Kind::loss, true)) {}

const execute::Executor& Trainer::forward() {
  if (!forward_) forward_ = make_executor(config_, options_, nn::Head::Kind::loss, false);
  return *forward_;
}

const execute::Executor& Trainer::logits() {
  if (!logits_) logits_ = make_executor(config_, options_, nn::Head::Kind::logits, false);
  return *logits_;
}

void Trainer::initialize(uint64_t seed) {
  for (Parameter& parameter : optimizer_.parameters()) {
    const nn::Role role = parameter.spec.role;
    std::vector<float> values(static_cast<size_t>(parameter.count()));
    if (is_norm(role)) {
      std::fill(values.begin(), values.end(), config_.norm_unit_offset ? 0.0F : 1.0F);
    } else if (parameter.spec.columns) {
      double range = config_.initializer_range;
      if (writes_residual(role)) range /= std::sqrt(2 * static_cast<double>(config_.layers));
      Random(seed, parameter.spec.name).normal(values, 0, static_cast<float>(range));
    }
    optimizer_.set(parameter, values);
  }
}

void Trainer::bind_model(execute::Tensors& tensors) const {
  for (const nn::FrequencyTable& table : tables_)
    tensors[table.name] = const_cast<float*>(table.values.data());
  for (const Parameter& parameter : optimizer_.parameters()) {
    tensors[parameter.spec.name] = parameter.weight.data();
    tensors["d_" + parameter.spec.name] = parameter.gradient.data();
  }
}

void Trainer::run(const execute::Executor& executor, const Batch& batch, execute::Tensors tensors,
                  bool accumulate) {
  bind_model(tensors);
  tensors["ids"] = const_cast<int64_t*>(batch.ids.data());
  tensors["positions"] = const_cast<int64_t*>(batch.positions.data());
  tensors["labels"] = const_cast<int64_t*>(batch.labels.data());
  std::vector<int64_t> sequences{0};
  for (int64_t length : batch.lengths) sequences.push_back(sequences.back() + length);
  execute::Run run;
  run.tokens = static_cast<int64_t>(batch.ids.size());
  run.accumulate = accumulate;
  run.sequences = sequences;
  if (!batch.labels.empty())
    check_labels(vector_view(batch.labels.data(), run.tokens, DType::i64), config_.vocabulary,
                 options_.head.ignored);
  const size_t bytes = executor.arena_bytes(run.tokens, run.sequences);
  if (bytes > arena_.size()) arena_ = Memory(bytes);
  executor.run(run, tensors, arena_.data(), arena_.size());
}

void Trainer::refuse_step(int64_t step, const char* expected, double got) const {
  const std::string bad = not_finite(optimizer_);
  const std::string cause =
      !bad.empty() ? "the weights of '" + bad + "' are not finite: go on from an earlier checkpoint"
      : step == 0  ? "no step was done: use other weights or a wider --type"
                   : "lower the learning rate or clip more";
  throw Error(ErrorKind::check, "step " + std::to_string(step), expected,
              std::isnan(got) ? "nan" : std::to_string(got),
              cause + "; parameters are those after " + std::to_string(step) +
                  (step == 1 ? " step" : " steps"));
}

StepResult Trainer::step(const Data& data, int64_t step, int64_t micro_batches, double rate) {
  // Every counted token weighs the same, in whichever micro-batch it is.
  std::vector<Batch> batches;
  StepResult result;
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    batches.push_back(data.batch(step, micro));
    result.tokens += batches.back().counted;
  }
  float loss = 0;
  const float upstream =
      result.tokens > 0 ? static_cast<float>(1 / static_cast<double>(result.tokens)) : 0;
  for (size_t micro = 0; micro < batches.size(); ++micro)
    run(*training_, batches[micro], {{"loss", &loss}, {"d_loss", const_cast<float*>(&upstream)}},
        micro > 0);
  result.loss = static_cast<double>(loss) * static_cast<double>(upstream);
  if (!std::isfinite(result.loss)) refuse_step(step, "a finite loss", result.loss);
  result.gradient_norm = optimizer_.step(step, rate);
  if (!std::isfinite(result.gradient_norm))
    refuse_step(step, "a finite gradient", result.gradient_norm);
  return result;
}

double Trainer::held_out_loss(const Data& data, int64_t batches) {
  double sum = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < std::min(batches, data.held_out_batches()); ++i) {
    const Batch batch = data.held_out_batch(i);
    float loss = 0;
    run(forward(), batch, {{"loss", &loss}}, false);
    sum += static_cast<double>(loss);
    counted += batch.counted;
  }
  return counted > 0 ? sum / static_cast<double>(counted) : std::nan("");
}

std::vector<float> Trainer::next_logits(const std::vector<int64_t>& ids) {
  Batch batch;
  batch.ids = ids;
  for (size_t i = 0; i < ids.size(); ++i) batch.positions.push_back(static_cast<int64_t>(i));
  batch.lengths = {static_cast<int64_t>(ids.size())};
  const auto tokens = static_cast<int64_t>(ids.size());
  Memory out(static_cast<size_t>(tokens * config_.vocabulary) * size_of(options_.type));
  run(logits(), batch, {{"logits", out.data()}}, false);
  std::vector<float> result(static_cast<size_t>(config_.vocabulary));
  const size_t first = static_cast<size_t>(tokens - 1) * result.size();
  for (size_t j = 0; j < result.size(); ++j)
    result[j] =
        options_.type == DType::bf16  ? to_f32(reinterpret_cast<const Bf16*>(out.data())[first + j])
        : options_.type == DType::f16 ? to_f32(reinterpret_cast<const F16*>(out.data())[first + j])
                                      : reinterpret_cast<const float*>(out.data())[first + j];
  return result;
}

}  // namespace coda::train
