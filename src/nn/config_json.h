// SPDX-License-Identifier: Apache-2.0
// JSON from files that others wrote: parsed without trust, read by typed keys, every mistake one
// coda::Error that names file and key.
#pragma once

#include <coda/error.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace coda::nn {

using Json = nlohmann::json;

/// The object that `text` holds. Refuses what is no JSON object, a key that occurs twice (readers
/// differ in which one they take) and nesting that no such file has.
Json parse_object(std::string_view text, std::string_view where);

/// A value for a message: as JSON, shortened where it is long.
std::string shown(const Json& value);

/// The whole text of a file; throws where it cannot be read or is longer than any config.
std::string read_text(const std::string& path);

/// The keys of one object. A key that is absent or null gives nothing; one that was never asked for
/// is refused by refuse_unread().
class JsonFields {
 public:
  /// `object` must outlive this. `where` is a file, or the place of an object within one.
  JsonFields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  std::string place(std::string_view key) const;
  bool has(const char* key) const;       // and not null
  bool contains(const char* key) const;  // null too

  /// The value, not yet looked at; null where there is none.
  const Json* find(const char* key);

  std::optional<int64_t> integer(const char* key);
  std::optional<double> positive(const char* key);
  std::optional<bool> boolean(const char* key);
  std::optional<std::string> text(const char* key);
  std::optional<JsonFields> object(const char* key);

  int64_t required_integer(const char* key);
  double required_positive(const char* key);
  std::string required_text(const char* key);
  /// Refuses an object without the key; null will do.
  void must_say(const char* key) const;

  /// Refuses the key unless it is absent, null or equal to `neutral`, the value at which it changes
  /// nothing.
  void must_be(const char* key, const Json& neutral, std::string_view fix);

  /// Takes a key that changes no number, whatever it says.
  void pass(const char* key) { read_.insert(key); }

  /// Refuses what was not asked for, unless it is null: a feature that is not there.
  void refuse_unread(std::string_view expected, std::string_view fix) const;

  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view got,
                           std::string_view fix, ErrorKind kind = ErrorKind::argument) const;

 private:
  [[noreturn]] void missing(const char* key, std::string_view expected) const;

  const Json* object_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace coda::nn
