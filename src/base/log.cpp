// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

namespace coda {
namespace {

constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};

void to_stderr(int level, const char* message, void*) {
  std::fprintf(stderr, "coda %s: %s\n", kNames[level], message);
}

struct Sink {
  std::mutex mutex;
  LogCallback callback = to_stderr;
  void* user = nullptr;
};

Sink& sink() {
  static Sink sink;
  return sink;
}

LogLevel least_level() {
  static const LogLevel level = [] {
    const char* text = std::getenv("CODA_LOG");
    return log_level_from(text ? text : "");
  }();
  return level;
}

}  // namespace

LogLevel log_level_from(std::string_view text) noexcept {
  for (int level = 0; level < 5; ++level)
    if (text == kNames[level]) return static_cast<LogLevel>(level);
  return LogLevel::warning;
}

bool log_enabled(LogLevel level) noexcept {
  return level >= least_level() && level < LogLevel::off;
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  std::pair<LogCallback, void*> target;
  {
    // The callback runs outside the lock, so it may log or replace itself.
    const std::lock_guard lock(sink().mutex);
    target = {sink().callback, sink().user};
  }
  target.first(static_cast<int>(level), std::string(message).c_str(), target.second);
}

void set_log_callback(LogCallback callback, void* user) {
  const std::lock_guard lock(sink().mutex);
  sink().callback = callback ? callback : to_stderr;
  sink().user = callback ? user : nullptr;
}

}  // namespace coda
