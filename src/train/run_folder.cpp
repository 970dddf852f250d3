// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <coda/error.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "train/atomic_file.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step-";
constexpr const char* kLock = ".lock";

std::string joined(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

bool is_there(const std::string& folder, const char* name) {
  std::error_code failure;
  return fs::is_regular_file(joined(folder, name), failure);
}

/// The first file of a checkpoint that is not there; null: it is whole.
const char* missing_file(const std::string& folder, Use use) {
  const bool parts = use == Use::model && is_there(folder, "model.safetensors.index.json");
  for (const char* name : {"config.json", "model.safetensors"})
    if (!is_there(folder, name) && !(parts && name[0] == 'm')) return name;
  if (use == Use::resume)
    for (const char* name : {"optimizer.safetensors", "state.json"})
      if (!is_there(folder, name)) return name;
  return nullptr;
}

/// Whether the checkpoint `from` is in `folder`.
bool holds(const std::string& folder, const std::string& from) {
  std::error_code failure;
  const fs::path whole = fs::weakly_canonical(fs::path(from) / "", failure);
  const fs::path checkpoint = whole.has_filename() ? whole : whole.parent_path();
  return fs::equivalent(folder, checkpoint.parent_path(), failure);
}

/// Whether a metrics.csv says more than its header: a run that ended before a step left nothing.
bool has_metrics(const std::string& folder) {
  std::ifstream file(joined(folder, "metrics.csv"));
  std::string line;
  return std::getline(file, line) && file.peek() != std::ifstream::traits_type::eof();
}

void refuse_another_run(const std::string& folder, const std::string& from) {
  if (!from.empty() && holds(folder, from)) return;
  const std::map<int64_t, std::string> all = checkpoints(folder);
  if (all.empty() && !has_metrics(folder)) return;
  const std::string what =
      all.empty() ? "metrics.csv of another run"
                  : fmt::format("{} checkpoint{} of another run, the last {}", all.size(),
                                all.size() == 1 ? "" : "s", all.rbegin()->second);
  throw Error(ErrorKind::io, "--out " + folder, "a folder without a run", what,
              all.empty() ? "choose another --out or remove the folder"
                          : fmt::format("choose another --out, remove the folder, or go on with "
                                        "--resume {}",
                                        folder));
}

[[noreturn]] void refuse_busy(const std::string& folder) {
  throw Error(ErrorKind::io, "--out " + folder, "a folder that no other run writes",
              "another coda train writes there now",
              "wait for it or stop it (it saves before it ends), or choose another --out");
}

/// False where another process holds the lock. File systems without locks let every run through.
bool locks(int descriptor) {
  int result;
  do result = flock(descriptor, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0 || errno != EWOULDBLOCK;
}

}  // namespace

std::optional<int64_t> step_of_name(const std::string& name) {
  const size_t digits = std::strlen(kPrefix);
  // 18 digits fit an int64_t whatever they are.
  if (name.rfind(kPrefix, 0) != 0 || name.size() == digits || name.size() > digits + 18 ||
      name.find_first_not_of("0123456789", digits) != std::string::npos)
    return std::nullopt;
  return std::stoll(name.substr(digits));
}

std::map<int64_t, std::string> checkpoints(const std::string& run) {
  std::map<int64_t, std::string> found;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(run, failure))
    if (const auto step = step_of_name(entry.path().filename().string()))
      found[*step] = entry.path().string();
  return found;
}

std::string find_checkpoint(const std::string& path, Use use) {
  std::error_code failure;
  if (fs::exists(fs::path(path) / "config.json", failure)) return path;
  const std::map<int64_t, std::string> all = checkpoints(path);
  for (auto at = all.rbegin(); at != all.rend(); ++at)
    if (missing_file(at->second, use) == nullptr) return at->second;
  const std::string got = !all.empty() ? fmt::format("{} without {}", all.rbegin()->second,
                                                     missing_file(all.rbegin()->second, use))
                          : fs::exists(path, failure) ? "neither"
                                                      : "no such folder";
  throw Error(ErrorKind::io, path, "a model's folder or a run with a whole checkpoint", got,
              "see coda train --out");
}

void check_run_folder(const std::string& folder, const std::string& from) {
  const int lock = open(joined(folder, kLock).c_str(), O_RDONLY | O_CLOEXEC);
  if (lock >= 0) {
    const bool free = locks(lock);
    close(lock);
    if (!free) refuse_busy(folder);
  }
  refuse_another_run(folder, from);
}

void replace_folder(const std::string& made, const std::string& place) {
  const auto refuse = [&](int error) {
    throw Error(ErrorKind::io, place, "a folder to write", std::strerror(error),
                "free space or choose another --out");
  };
  std::error_code failure;
  const auto move = [](const std::string& from, const std::string& to) {
    return std::rename(from.c_str(), to.c_str()) == 0;
  };
  if (!fs::exists(place, failure)) {
    if (!move(made, place)) refuse(errno);
  } else if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(made, failure);
  } else {
    // File systems that cannot exchange: the old one stays under another name until then.
    const std::string old = made + ".old";
    fs::remove_all(old, failure);
    if (!move(place, old)) refuse(errno);
    if (!move(made, place)) {
      const int error = errno;
      move(old, place);
      refuse(error);
    }
    fs::remove_all(old, failure);
  }
  flush_folder(fs::path(place).parent_path().string());
}

RunFolder::RunFolder(const std::string& folder, const std::string& from) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorKind::io, "--out " + folder, "a folder to write", failure.message(),
                "choose another --out");
  lock_ = open(joined(folder, kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0)
    throw Error(ErrorKind::io, "--out " + folder, "a folder to write", std::strerror(errno),
                "choose another --out");
  if (!locks(lock_)) {
    close(lock_);
    refuse_busy(folder);
  }
  try {
    refuse_another_run(folder, from);
  } catch (...) {
    close(lock_);
    throw;
  }
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".step-") && name.ends_with(".partial"))
      fs::remove_all(entry.path(), failure);
  }
}

RunFolder::~RunFolder() { close(lock_); }

}  // namespace coda::train
