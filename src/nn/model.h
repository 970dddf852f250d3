// SPDX-License-Identifier: Apache-2.0
// A model as a plain graph: ordinary mathematics, with parameters named as on disk. Everything else
// (fusion, gradients, memory) is made from it by rewriting.
#pragma once

#include <coda/graph.h>

#include <string>
#include <vector>

#include "nn/config.h"

namespace coda::nn {

struct Head {
  enum class Kind : unsigned char {
    logits,  // output "logits" [M, vocabulary]
    loss,  // input "labels" [M] (what each token is to predict), output "loss": the sum over tokens
  };
  Kind kind = Kind::loss;
  int64_t ignored = -100;  // labels that count for nothing
  double smoothing = 0;
  double z_loss = 0;  // factor of the squared log-sum-exp
};

/// Inputs: "ids" and "positions" [M] i64, the frequencies of each kind of layer (frequencies()),
/// and the parameters by their names on disk. `type` is T: what the embedding's scale is rounded
/// to. Throws what validate() throws.
Graph model_graph(const ModelConfig& config, const Head& head, DType type);

/// One block between two attentions: for reports. Inputs are the residual stream "x0" and "y0",
/// what attention gave; outputs are "x" and "y" behind the next attention, which ends the block.
Graph block_graph(const ModelConfig& config);

/// The tables of inverse frequencies that a model's graph takes: name and values.
struct FrequencyTable {
  std::string name;
  std::vector<float> values;
};
std::vector<FrequencyTable> frequency_tables(const ModelConfig& config);

}  // namespace coda::nn
