// SPDX-License-Identifier: Apache-2.0
// coda explain --model: what rewriting makes of a model's block, and what training it takes.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/config.h"
#include "rewrite/cost.h"
#include "rewrite/roofline.h"
#include "shell.h"
#include "train/footprint.h"

namespace coda::tool {

struct ModelOptions {
  std::string config;
  std::optional<int64_t> tokens;  // of a step
  std::string type = "bf16", state = "f32";
  std::vector<std::string> machines{"H100", "H200", "cpu"};
  bool programs = false;     // with the text of every program
  bool dump_passes = false;  // the IR after each pass instead
};

/// Throws Error{argument} for tokens that are missing or none and machines that coda does not know,
/// and what reading the config throws.
int explain_model(const Shell& shell, const ModelOptions& options);

/// The plan of a block, forward and backward, with its cost.
struct BlockPlan {
  rewrite::Plan plan;  // labelled
  rewrite::Cost cost;
};

/// Sums over the programs of forward or backward; attention is left out.
struct BlockSums {
  int gemms = 0, passes = 0;
  double read = 0, written = 0, flops = 0;  // bytes, bytes, in products
  std::vector<double> seconds;              // by machine
  rewrite::Widths widths;                   // of matrices over tokens
};

struct ModelReport {
  nn::ModelConfig config;
  int64_t tokens = 0;
  DType type = DType::bf16;
  train::StateType state = train::StateType::f32;
  std::vector<rewrite::Machine> machines;
  BlockPlan before, after;  // unfused and fused
  train::Footprint memory;  // of training the whole model with fused plans

  BlockSums sums(const BlockPlan& block, bool backward) const;
  /// Bytes a token as multiples of the widths d and f, "24 Md + 8 Mf"; empty where widths of the
  /// model coincide, so that it is open which is meant.
  std::string multiples(const rewrite::Widths& widths) const;
};

void print_text(const ModelReport& report, bool programs);
Json as_json(const ModelReport& report);

}  // namespace coda::tool
