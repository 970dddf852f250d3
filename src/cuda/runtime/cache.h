// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk: one file for each key, named by it. The cache never fails a call: what
// cannot be read is a miss, what cannot be written is not kept, and a warning says so once. Safe
// for threads and processes; the last of several writers of one key wins, and all wrote the same.
//
// Bounded: after each write the files that were used longest ago go until the total is within the
// limit. Only files that the cache itself made are counted or removed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cuda/runtime/sha256.h"

namespace coda::cuda {

struct CacheSettings {
  std::string folder;        // empty: no cache
  uint64_t limit = 1 << 30;  // bytes of all files together
  std::string problem;       // why there is no folder, where nobody asked for that
};

/// CODA_CACHE_DIR, or coda in XDG_CACHE_HOME or ~/.cache; nothing where CODA_CACHE is "off".
/// CODA_CACHE_LIMIT: bytes, or with K, M, G or T at its end.
CacheSettings cache_settings();

class Cache {
 public:
  explicit Cache(CacheSettings settings) : settings_(std::move(settings)) {}
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// What was stored under `key`; nothing where it is absent, or damaged (a warning).
  std::optional<std::string> load(const Digest& key);
  void store(const Digest& key, std::string_view payload);
  /// Keeps the CUDA source of a kernel that was refused, for people to look at; it ages like an
  /// entry. Returns its path, or "" where nothing can be kept.
  std::string keep_source(const std::string& name, std::string_view text);

  const std::string& folder() const { return settings_.folder; }

 private:
  std::string path_of(const std::string& name) const { return settings_.folder + "/" + name; }
  bool usable();
  bool write(const std::string& name, std::string_view bytes);
  void evict(const std::string& newest);
  void warn_once(const std::string& problem);

  const CacheSettings settings_;
  std::atomic<bool> warned_ = false;
};

/// The cache of this process, set up from the environment at its first use.
Cache& default_cache();

}  // namespace coda::cuda
