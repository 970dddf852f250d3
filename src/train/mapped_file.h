// SPDX-License-Identifier: Apache-2.0
// A file's bytes, read-only, for as long as this lives.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace coda::train {

class MappedFile {
 public:
  /// Throws Error{io} for what is no regular file or cannot be read. A file may be empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace coda::train
