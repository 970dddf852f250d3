// SPDX-License-Identifier: Apache-2.0
// A model in training: its plan, its parameters and one step after the other.
#pragma once

#include <memory>
#include <string>

#include "execute/executor.h"
#include "nn/model.h"
#include "train/data.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace coda::train {

struct TrainerOptions {
  DType type = DType::f32;  // T: weights and activations
  StateType state = StateType::f32;
  bool fused = true;
  bool recompute = false;  // activation checkpointing by layer: less memory, the same bits
  int threads = 0;
  int64_t chunk_rows = 1024;  // tokens whose logits exist at a time
  OptimizerOptions optimizer;
  nn::Head head;  // of the loss
};

struct StepResult {
  double loss = 0;           // mean over the step's counted tokens
  double gradient_norm = 0;  // before clipping
  int64_t tokens = 0;        // counted ones
};

/// What one micro-batch of training runs, with the outputs "loss" and the gradients of all
/// parameters.
rewrite::Plan training_plan(const nn::ModelConfig& config, const TrainerOptions& options);

class Trainer {
 public:
  Trainer(const nn::ModelConfig& config, const TrainerOptions& options);

  const nn::ModelConfig& config() const { return config_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  const execute::Executor& training() const { return *training_; }

  /// Weights from N(0, initializer_range^2), those that write to the residual stream divided by
  /// sqrt(2 layers) (Radford et al. 2019); norms 1 (or 0 where 1 is added), biases 0.
  void initialize(uint64_t seed);

  /// One optimizer step over all micro-batches of `step`, each token counted alike. Throws
  /// Error{check} where the loss or the gradient is not finite: parameters are as before.
  StepResult step(const Data& data, int64_t step, int64_t micro_batches, double rate);

  /// Mean loss over at most `batches` batches of the held-out part; NaN where nothing is held out.
  double held_out_loss(const Data& data, int64_t batches);

  /// Logits of the last token: [vocabulary] in float32.
  std::vector<float> next_logits(const std::vector<int64_t>& ids);

 private:
  const execute::Executor& forward();
  const execute::Executor& logits();
  void bind_model(execute::Tensors& tensors) const;
  [[noreturn]] void refuse_step(int64_t step, const char* expected, double got) const;
  void run(const execute::Executor& executor, const Batch& batch, execute::Tensors tensors,
           bool accumulate);

  const nn::ModelConfig config_;
  const TrainerOptions options_;
  Optimizer optimizer_;
  std::vector<nn::FrequencyTable> tables_;
  std::unique_ptr<const execute::Executor> training_, forward_, logits_;
  Memory arena_;
};

}  // namespace coda::train
