// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "nn/config.h"
#include "train/atomic_file.h"
#include "train/run_folder.h"
#include "train/safetensors.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void write_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

std::vector<int64_t> shape_of(const nn::ParameterSpec& spec) {
  return spec.columns ? std::vector<int64_t>{spec.rows, spec.columns}
                      : std::vector<int64_t>{spec.rows};
}

/// The states of a parameter by their names in optimizer.safetensors.
template <class Visit>
void visit_states(const Optimizer& optimizer, const Parameter& parameter, const Visit& visit) {
  if (optimizer.has_masters()) visit("master.", parameter.master);
  visit("momentum.", parameter.momentum);
  visit("variance.", parameter.variance);
}

void copy(const StoredTensor& from, DType type, const Memory& to) {
  if (from.type != type || from.bytes.size() != to.size())
    throw Error(ErrorKind::io, "'" + from.name + "'",
                fmt::format("{} bytes of {}", to.size(), name_of(type)), from.description(),
                "resume with the --type and --state of the run");
  if (to.size() > 0) std::memcpy(to.data(), from.bytes.data(), to.size());
}

void require_finite(const std::string& path, const std::string& name,
                    const std::vector<float>& values) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad != values.end())
    throw Error(ErrorKind::argument, path + ": tensor '" + name + "'", "finite numbers",
                fmt::format("{} at element {}", *bad, bad - values.begin()),
                "use weights that did not diverge, or copy the file again");
}

/// What files of models hold beside their parameters: the frequencies that older versions of
/// transformers wrote, which config.json determines, and the embedding once more where the output
/// product takes it.
bool is_known_copy(const Safetensors& stored, const StoredTensor& tensor,
                   const nn::ModelConfig& config) {
  if (tensor.name.ends_with(".rotary_emb.inv_freq")) return true;
  const StoredTensor* embedding = stored.find("model.embed_tokens.weight");
  return config.tied_embeddings && tensor.name == "lm_head.weight" && embedding != nullptr &&
         embedding->type == tensor.type && std::ranges::equal(embedding->bytes, tensor.bytes);
}

/// Refuses a tensor that is none of `names`: the file is another model's.
void refuse_others(const std::string& path, const Safetensors& stored,
                   const std::set<std::string>& names, const nn::ModelConfig& config) {
  size_t count = 0;
  const StoredTensor* first = nullptr;
  for (const StoredTensor& tensor : stored.tensors()) {
    if (names.contains(tensor.name) || is_known_copy(stored, tensor, config)) continue;
    if (count++ == 0) first = &tensor;
  }
  if (first == nullptr) return;
  throw Error(ErrorKind::argument, path + ": tensor '" + first->name + "'",
              fmt::format("the {} tensors of the model alone", names.size()),
              fmt::format("{} that the model does not have", count),
              "use the config.json that belongs to this file");
}

}  // namespace

std::string save_checkpoint(const std::string& run, const Trainer& trainer, const RunState& state,
                            int keep) {
  const Optimizer& optimizer = trainer.optimizer();
  const fs::path last = fs::path(run) / fmt::format("step-{:08}", state.step);
  const fs::path partial = fs::path(run) / fmt::format(".step-{:08}.partial", state.step);
  std::error_code failure;
  fs::remove_all(partial, failure);
  fs::create_directories(partial, failure);
  if (failure)
    throw Error(ErrorKind::io, partial.string(), "a folder to write", failure.message(),
                "free space or choose another --out");
  try {
    nn::ModelConfig config = trainer.config();
    config.storage = optimizer.type();
    write_text(partial / "config.json", nn::write_config(config));
    std::vector<TensorToStore> weights, states;
    for (const Parameter& parameter : optimizer.parameters()) {
      const std::vector<int64_t> shape = shape_of(parameter.spec);
      weights.push_back({parameter.spec.name, optimizer.type(), shape, parameter.weight.data()});
      visit_states(optimizer, parameter, [&](const char* prefix, const Memory& memory) {
        states.push_back(
            {prefix + parameter.spec.name, optimizer.state_type(), shape, memory.data()});
      });
    }
    write_safetensors((partial / "model.safetensors").string(), weights);
    write_safetensors((partial / "optimizer.safetensors").string(), states);
    write_text(partial / "state.json", state_text(state));
    replace_folder(partial.string(), last.string());
  } catch (...) {
    fs::remove_all(partial, failure);
    throw;
  }
  std::map<int64_t, std::string> all = checkpoints(run);
  while (static_cast<int>(all.size()) > keep && all.begin()->first != state.step) {
    fs::remove_all(all.begin()->second, failure);
    all.erase(all.begin());
  }
  return last.string();
}

void load_model(const std::string& folder, Trainer& trainer) {
  const Safetensors stored = Safetensors::open(folder);
  std::vector<std::vector<float>> values;  // all are read before any is set
  std::set<std::string> names;
  for (const Parameter& parameter : trainer.optimizer().parameters()) {
    const std::string& name = parameter.spec.name;
    values.push_back(floats_of(stored.at(name, shape_of(parameter.spec))));
    require_finite(folder, name, values.back());
    names.insert(name);
  }
  refuse_others(folder, stored, names, trainer.config());
  size_t next = 0;
  for (Parameter& parameter : trainer.optimizer().parameters())
    trainer.optimizer().set(parameter, values[next++]);
}

void require_same_model(const nn::ModelConfig& given, const nn::ModelConfig& stored,
                        const std::string& folder) {
  nn::ModelConfig other = given;
  other.storage = stored.storage;  // that of the run, which --type chose
  const std::string text = nn::write_config(other), expected = nn::write_config(stored);
  if (text == expected) return;
  const Json a = Json::parse(expected), b = Json::parse(text);
  std::set<std::string> keys;
  for (const Json& json : {a, b})
    for (const auto& item : json.items()) keys.insert(item.key());
  const auto value = [](const Json& json, const std::string& key) {
    return json.contains(key) ? json[key].dump() : "no such key";
  };
  for (const std::string& key : keys)
    if (value(a, key) != value(b, key))
      throw Error(ErrorKind::argument, "the model: key '" + key + "'",
                  value(a, key) + ", as in " + (fs::path(folder) / "config.json").string(),
                  value(b, key),
                  "a run goes on with its model: leave --config and the sizes out, or begin a new "
                  "run without --resume");
}

RunState load_checkpoint(const std::string& folder, Trainer& trainer,
                         const std::map<std::string, std::string>& settings) {
  RunState state = read_state(folder);
  require_same_settings(state, settings);
  const std::string file = (fs::path(folder) / "optimizer.safetensors").string();
  const Safetensors states = Safetensors::open(file);
  const Optimizer& optimizer = trainer.optimizer();
  std::set<std::string> names;
  for (const Parameter& parameter : optimizer.parameters())
    visit_states(optimizer, parameter, [&](const char* prefix, const Memory&) {
      names.insert(prefix + parameter.spec.name);
    });
  refuse_others(file, states, names, trainer.config());
  load_model(folder, trainer);
  for (const Parameter& parameter : optimizer.parameters())
    visit_states(optimizer, parameter, [&](const char* prefix, const Memory& memory) {
      copy(states.at(prefix + parameter.spec.name, shape_of(parameter.spec)),
           optimizer.state_type(), memory);
    });
  return state;
}

}  // namespace coda::train
