// SPDX-License-Identifier: Apache-2.0
// The parameters of a model in memory and AdamW on them, as the programs of library/optimizer.coda.
#pragma once

#include <coda/kernel.h>

#include <map>
#include <string>
#include <vector>

#include "nn/names.h"
#include "train/memory.h"

namespace coda::train {

/// Where weights and moments are kept: in float32 beside the weights in T, or in T alone.
enum class StateType : unsigned char { f32, model };

struct Parameter {
  nn::ParameterSpec spec;
  int64_t rows, columns;      // as a matrix; vectors have one row
  Memory weight;              // T: what the plan reads
  Memory master;              // f32; empty where states are in T
  Memory momentum, variance;  // f32 or T
  Memory gradient;            // f32
  int64_t count() const { return rows * columns; }
};

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of weights, not of vectors
  double clip = 1;            // of the global norm of the gradient; 0: none
};

class Optimizer {
 public:
  /// All parameters of the model, zero. `type` is T: f32, bf16 or f16.
  Optimizer(const nn::ModelConfig& config, DType type, StateType state,
            const OptimizerOptions& options, int threads);

  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  DType type() const { return type_; }
  DType state_type() const { return state_ == StateType::f32 ? DType::f32 : type_; }
  bool has_masters() const { return state_ == StateType::f32; }

  /// Sets a parameter's weight (and master) to float32 values.
  void set(Parameter& parameter, std::span<const float> values);

  /// One step with the gradients as they are, after clipping; steps count from 0. Returns the norm
  /// of the gradient before clipping. Not finite: nothing was changed.
  double step(int64_t step, double rate);

 private:
  const DType type_;
  const StateType state_;
  const OptimizerOptions options_;
  std::vector<Parameter> parameters_;
  Kernel adamw_, squares_, clip_;
  Memory workspace_;
};

/// The name of the first parameter with a weight that is not finite; empty: all are.
std::string not_finite(const Optimizer& optimizer);

}  // namespace coda::train
