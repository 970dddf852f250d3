// SPDX-License-Identifier: Apache-2.0
// A run on disk: one folder per checkpoint, which transformers opens as a model, with what it takes
// to go on bit for bit beside it.
//
//   RUN/step-00000100/config.json, model.safetensors      the model, as Hugging Face names it
//                     optimizer.safetensors, state.json   masters, moments; step and data position
//
// A checkpoint is written under another name, flushed and renamed, so a folder called step-N is
// whole whatever happens; earlier ones, and an older one of the same step, stay until then.
#pragma once

#include <map>
#include <string>

#include "train/run_state.h"
#include "train/trainer.h"

namespace coda::train {

/// Writes RUN/step-N and removes checkpoints but the last `keep`. Every failure is an Error{io}
/// that leaves what was there.
std::string save_checkpoint(const std::string& run, const Trainer& trainer, const RunState& state,
                            int keep);

/// Sets the weights from a model's folder. Its tensors must be those of the trainer's model, in
/// their shapes, finite, and no others; otherwise an Error names the tensor and nothing is set.
void load_model(const std::string& folder, Trainer& trainer);

/// Throws Error{argument} naming the first key of config.json in which a model that was given
/// differs from that of the checkpoint in `folder`, whatever type it is stored in.
void require_same_model(const nn::ModelConfig& given, const nn::ModelConfig& stored,
                        const std::string& folder);

/// Sets everything from a checkpoint. Throws as read_state, require_same_settings and load_model
/// do.
RunState load_checkpoint(const std::string& folder, Trainer& trainer,
                         const std::map<std::string, std::string>& settings);

}  // namespace coda::train
