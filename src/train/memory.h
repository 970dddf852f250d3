// SPDX-License-Identifier: Apache-2.0
// Memory that plans and kernels take: aligned, owned.
#pragma once

#include <coda/kernel.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace coda::train {

class Memory {
 public:
  Memory() = default;
  /// Zeros.
  explicit Memory(size_t bytes)
      : bytes_(bytes),
        data_(bytes ? ::operator new (bytes, std::align_val_t{kWorkspaceAlignment}) : nullptr) {
    if (bytes) std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const {
      ::operator delete (data, std::align_val_t{kWorkspaceAlignment});
    }
  };
  size_t bytes_ = 0;
  std::unique_ptr<void, Free> data_;
};

}  // namespace coda::train
