// SPDX-License-Identifier: Apache-2.0
// A file that is there as a whole or not at all: written beside its place, flushed to the disk and
// renamed, so that a crash, a full disk or a second writer leaves the old file as it was.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace coda::train {

/// What was renamed or removed in a folder lasts once the folder is on the disk. Where a folder
/// cannot be flushed, nothing happens.
void flush_folder(const std::string& folder);

class AtomicFile {
 public:
  /// Opens a temporary file in the folder of `path`. Every failure here and below throws.
  explicit AtomicFile(std::string path);
  /// Without commit() nothing was written.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Puts the file in its place. Nothing may be written after it.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view expected, int error) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace coda::train
