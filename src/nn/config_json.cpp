// SPDX-License-Identifier: Apache-2.0
#include "nn/config_json.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace coda::nn {
namespace {

constexpr int kDeepest = 16;
constexpr std::streamoff kLongestText = 64 << 20;

/// The message of a nlohmann exception without its number.
std::string reason(const char* what) {
  const std::string_view text = what;
  const size_t end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace

Json parse_object(std::string_view text, std::string_view where) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw Error(ErrorKind::io, where, expected, got, "write the file again");
  };
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest)
      refuse("JSON of at most " + std::to_string(kDeepest) + " levels", "more of them");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second)
      refuse("every key once", "two of " + shown(parsed));
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, check);
  } catch (const Json::exception& error) {
    refuse("valid JSON", reason(error.what()));
  }
  if (!json.is_object()) refuse("a JSON object", shown(json));
  return json;
}

std::string shown(const Json& value) {
  constexpr size_t longest = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

std::string read_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::io, path, "a regular file",
                std::filesystem::is_directory(status) ? "a folder" : "something else",
                "give the path of one file");
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff(file.tellg()) : -1;
  if (size > kLongestText)
    throw Error(ErrorKind::io, path, "at most " + std::to_string(kLongestText) + " bytes",
                std::to_string(size), "check the path");
  std::string text(size < 0 ? 0 : static_cast<size_t>(size), '\0');
  if (size >= 0) file.seekg(0).read(text.data(), size);
  if (size < 0 || !file)
    throw Error(ErrorKind::io, path, "a file that can be read",
                errno != 0 ? std::strerror(errno) : "no data", "check the path");
  return text;
}

std::string JsonFields::place(std::string_view key) const {
  return where_ + ": key '" + std::string(key) + "'";
}

void JsonFields::refuse(std::string_view key, std::string_view expected, std::string_view got,
                        std::string_view fix, ErrorKind kind) const {
  throw Error(kind, place(key), expected, got, fix);
}

void JsonFields::missing(const char* key, std::string_view expected) const {
  refuse(key, expected, contains(key) ? "null" : "no such key",
         "add the key as the model was trained with");
}

bool JsonFields::contains(const char* key) const { return object_->contains(key); }

bool JsonFields::has(const char* key) const {
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

const Json* JsonFields::find(const char* key) {
  pass(key);
  return has(key) ? &*object_->find(key) : nullptr;
}

std::optional<int64_t> JsonFields::integer(const char* key) {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  // Unsigned values above the largest signed one are no int64_t.
  if (!value->is_number_integer() ||
      (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}))
    refuse(key, "an integer", shown(*value), "correct the value");
  return value->get<int64_t>();
}

std::optional<double> JsonFields::positive(const char* key) {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || !(value->get<double>() > 0))
    refuse(key, "a number above 0", shown(*value), "correct the value");
  return value->get<double>();
}

std::optional<bool> JsonFields::boolean(const char* key) {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false", shown(*value), "correct the value");
  return value->get<bool>();
}

std::optional<std::string> JsonFields::text(const char* key) {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, "a text", shown(*value), "correct the value");
  return value->get<std::string>();
}

std::optional<JsonFields> JsonFields::object(const char* key) {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object", shown(*value), "correct the value");
  return JsonFields(*value, place(key));
}

int64_t JsonFields::required_integer(const char* key) {
  const std::optional<int64_t> value = integer(key);
  if (!value) missing(key, "an integer");
  return *value;
}

double JsonFields::required_positive(const char* key) {
  const std::optional<double> value = positive(key);
  if (!value) missing(key, "a number above 0");
  return *value;
}

std::string JsonFields::required_text(const char* key) {
  std::optional<std::string> value = text(key);
  if (!value) missing(key, "a text");
  return *std::move(value);
}

void JsonFields::must_say(const char* key) const {
  if (!contains(key)) missing(key, "a value or null");
}

void JsonFields::must_be(const char* key, const Json& neutral, std::string_view fix) {
  const Json* value = find(key);
  if (value && *value != neutral)
    refuse(key, shown(neutral), shown(*value), fix, ErrorKind::unsupported);
}

void JsonFields::refuse_unread(std::string_view expected, std::string_view fix) const {
  for (const auto& [key, value] : object_->items())
    if (!value.is_null() && !read_.contains(key))
      refuse(key, expected, shown(value), fix, ErrorKind::unsupported);
}

}  // namespace coda::nn
