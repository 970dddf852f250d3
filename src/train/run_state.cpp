// SPDX-License-Identifier: Apache-2.0
#include "train/run_state.h"

#include <coda/error.h>
#include <coda/version.h>
#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "nn/config_json.h"
#include "train/run_folder.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

// Schema 1 did not say which data a run is on, so such a run could go on with another text.
constexpr int64_t kSchema = 2;
constexpr const char* kFix =
    "resume from another checkpoint, or begin a new run with the weights of this one: --init";

[[noreturn]] void refuse(const std::string& where, std::string_view expected,
                         std::string_view got) {
  throw Error(ErrorKind::io, where, expected, got, kFix);
}

std::string place(const std::string& path, std::string_view key) {
  return path + ": key '" + std::string(key) + "'";
}

int64_t number(const nn::Json& json, const std::string& path, const char* key) {
  const auto found = json.find(key);
  const bool whole = found != json.end() && found->is_number_integer();
  const bool fits = whole && (!found->is_number_unsigned() ||
                              found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits || found->get<int64_t>() < 0)
    refuse(place(path, key), "a whole number from 0",
           found == json.end() ? "no such key" : nn::shown(*found));
  return found->get<int64_t>();
}

std::map<std::string, std::string> settings_in(const nn::Json& json, const std::string& path) {
  const auto found = json.find("settings");
  if (found == json.end() || !found->is_object())
    refuse(place(path, "settings"), "an object of texts",
           found == json.end() ? "no such key" : nn::shown(*found));
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) refuse(place(path, "settings." + name), "a text", nn::shown(value));
    settings[name] = value.get<std::string>();
  }
  return settings;
}

std::optional<int64_t> steps_of(const RunState& state) {
  const auto found = state.settings.find("steps");
  if (found == state.settings.end()) return std::nullopt;
  int64_t steps = 0;
  const std::string& text = found->second;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return steps;
}

}  // namespace

std::string state_text(const RunState& state) {
  const nlohmann::ordered_json json{{"schema", kSchema},
                                    {"version", CODA_VERSION_STRING},
                                    {"step", state.step},
                                    {"tokens", state.tokens},
                                    {"data_position", state.data_position},
                                    {"settings", state.settings}};
  return json.dump(2) + "\n";
}

RunState read_state(const std::string& folder) {
  const std::string path = (fs::path(folder) / "state.json").string();
  std::error_code failure;
  if (!fs::is_regular_file(path, failure))
    throw Error(ErrorKind::io, path, "the state of a run, a file",
                fs::is_directory(path, failure) ? "a folder" : "no such file",
                "resume from a folder that coda train made; for a model's folder: --init");
  const nn::Json json = nn::parse_object(nn::read_text(path), path);
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_number_integer() || *schema != kSchema)
    refuse(place(path, "schema"), fmt::format("{}", kSchema),
           schema == json.end() ? "no such key" : nn::shown(*schema));
  RunState state;
  state.step = number(json, path, "step");
  state.tokens = number(json, path, "tokens");
  state.data_position = number(json, path, "data_position");
  state.settings = settings_in(json, path);
  const std::optional<int64_t> steps = steps_of(state);
  if (!steps)
    refuse(
        place(path, "settings.steps"), "the number of the run's steps",
        state.settings.contains("steps") ? "'" + state.settings.at("steps") + "'" : "no such key");
  if (state.step > *steps)
    refuse(place(path, "step"), fmt::format("at most {}, the steps of the run", *steps),
           fmt::format("{}", state.step));
  const fs::path whole = fs::path(folder) / "";  // of a path with and without a slash at its end
  const std::optional<int64_t> named = step_of_name(whole.parent_path().filename().string());
  if (named && *named != state.step)
    refuse(place(path, "step"), fmt::format("{}, as the folder's name says", *named),
           fmt::format("{}", state.step));
  return state;
}

void require_same_settings(const RunState& state,
                           const std::map<std::string, std::string>& settings) {
  const auto refuse_setting = [](const std::string& name, const std::string& expected,
                                 const std::string& got) {
    if (name == "data")
      throw Error(ErrorKind::argument, "DATA", expected + ", the data of the run", got,
                  "go on with the file that the run began with; for other data begin a new run "
                  "with the weights of this one: --init");
    throw Error(ErrorKind::argument, "--" + name, expected, got,
                "a run goes on with the settings it began with");
  };
  for (const auto& [name, value] : settings) {
    const auto found = state.settings.find(name);
    if (found == state.settings.end()) refuse_setting(name, "a setting of the run", value);
    if (found->second != value) refuse_setting(name, "'" + found->second + "'", "'" + value + "'");
  }
  for (const auto& [name, value] : state.settings)
    if (!settings.contains(name)) refuse_setting(name, "'" + value + "'", "no such setting");
}

}  // namespace coda::train
