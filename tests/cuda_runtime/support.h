// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: folders of their own, environment variables for a while, and
// the messages that the library logs.
#pragma once

#include <coda/log.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace coda::cuda {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "coda-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// An environment variable with another value, or none, until the end of the scope.
class Environment {
 public:
  Environment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value)
      setenv(name_, value->c_str(), 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// Collects warnings while it lives.
class Warnings {
 public:
  Warnings() {
    set_log_callback(
        [](int level, const char* message, void* user) {
          auto* self = static_cast<Warnings*>(user);
          const std::lock_guard lock(self->mutex_);
          if (level >= static_cast<int>(LogLevel::warning)) self->messages_.emplace_back(message);
        },
        this);
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  ~Warnings() { set_log_callback(nullptr, nullptr); }
  size_t count() const { return messages_.size(); }
  void clear() { messages_.clear(); }
  std::string text() const {
    std::string all;
    for (const std::string& message : messages_) all += message + "\n";
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// Names of the files in a folder, sorted.
inline std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Starts `body` in a process of its own; its result is the exit code.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

inline int exit_code(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace coda::cuda
