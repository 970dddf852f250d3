// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/cache.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "cuda/runtime/entry.h"
#include "cuda/runtime/file.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntrySuffix = ".cubin.coda";
constexpr std::string_view kSourceSuffix = ".coda.cu";
constexpr std::chrono::hours kTemporaryLifetime{1};  // no write takes that long

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Nothing for text that is no size.
std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || unit.size() > 1) return std::nullopt;
  const size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit) + 1;
  if (power > 4 || value > UINT64_MAX >> (10 * power)) return std::nullopt;
  return value << (10 * power);
}

struct Kept {
  fs::path path;
  uintmax_t bytes;
  fs::file_time_type used;
};

}  // namespace

CacheSettings cache_settings() {
  CacheSettings settings;
  if (const std::string text = environment("CODA_CACHE_LIMIT"); !text.empty()) {
    if (const std::optional<uint64_t> limit = parse_size(text)) {
      settings.limit = *limit;
    } else {
      log(LogLevel::warning, "CODA_CACHE_LIMIT: expected bytes such as 500M or 2G, got " + text);
    }
  }
  if (environment("CODA_CACHE") == "off") return settings;
  const auto absolute = [](const std::string& path) { return path.starts_with('/'); };
  if (const std::string folder = environment("CODA_CACHE_DIR"); !folder.empty()) {
    std::error_code error;
    settings.folder = fs::absolute(folder, error).string();
  } else if (const std::string base = environment("XDG_CACHE_HOME"); absolute(base)) {
    settings.folder = base + "/coda";
  } else if (const std::string home = environment("HOME"); absolute(home)) {
    settings.folder = home + "/.cache/coda";
  } else {
    settings.problem = "none of CODA_CACHE_DIR, XDG_CACHE_HOME and HOME names a folder";
  }
  return settings;
}

void Cache::warn_once(const std::string& problem) {
  if (warned_.exchange(true)) return;
  log(LogLevel::warning, "compiled kernels are not kept: " + problem +
                             "; set CODA_CACHE_DIR to a folder that can be written, or "
                             "CODA_CACHE=off to do without");
}

bool Cache::usable() {
  if (!settings_.folder.empty()) return true;
  if (!settings_.problem.empty()) warn_once(settings_.problem);
  return false;
}

std::optional<std::string> Cache::load(const Digest& key) {
  if (!usable()) return std::nullopt;
  const std::string path = path_of(hex(key) + std::string(kEntrySuffix));
  std::string bytes;
  if (const int error = read_file(path, bytes, true); error != 0) {
    if (error == EINVAL)
      log(LogLevel::warning, "ignored " + path + ": not a regular file");
    else if (error != ENOENT)
      warn_once(path + ": " + std::strerror(error));
    return std::nullopt;
  }
  std::optional<std::string> payload = decode_entry(key, bytes);
  if (!payload) log(LogLevel::warning, "ignored " + path + ": damaged or foreign; built again");
  return payload;
}

bool Cache::write(const std::string& name, std::string_view bytes) {
  if (!usable()) return false;
  if (bytes.size() > settings_.limit) {
    warn_once(name + " alone exceeds the limit of " + std::to_string(settings_.limit) + " bytes");
    return false;
  }
  int error = make_folder(settings_.folder);
  if (error == 0) error = write_file(path_of(name), bytes);
  if (error != 0) {
    warn_once(settings_.folder + ": " + std::strerror(error));
    return false;
  }
  evict(name);
  return true;
}

void Cache::store(const Digest& key, std::string_view payload) {
  write(hex(key) + std::string(kEntrySuffix), encode_entry(key, payload));
}

std::string Cache::keep_source(const std::string& name, std::string_view text) {
  const std::string file = name + std::string(kSourceSuffix);
  return write(file, text) ? path_of(file) : "";
}

void Cache::evict(const std::string& newest) {
  std::vector<Kept> files;
  uintmax_t total = 0;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  std::error_code error;
  for (fs::directory_iterator at(settings_.folder, error), end; !error && at != end;
       at.increment(error)) {
    // Another process may remove any of them meanwhile.
    std::error_code gone;
    const std::string name = at->path().filename().string();
    const bool temporary = name.starts_with(kTemporaryPrefix);
    if (!temporary && !name.ends_with(kEntrySuffix) && !name.ends_with(kSourceSuffix)) continue;
    Kept file = {at->path(), at->file_size(gone), {}};
    if (!gone) file.used = at->last_write_time(gone);
    if (gone) continue;
    if (temporary) {
      if (now - file.used > kTemporaryLifetime) fs::remove(file.path, gone);
      continue;
    }
    total += file.bytes;
    if (name != newest) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& file : files) {
    if (total <= settings_.limit) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    total -= file.bytes;
  }
}

Cache& default_cache() {
  static Cache cache(cache_settings());
  return cache;
}

}  // namespace coda::cuda
