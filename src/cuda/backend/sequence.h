// SPDX-License-Identifier: Apache-2.0
// What a call executes: kernels, products of cuBLASLt and clearing of memory, in order, with every
// pointer in place. Built once for the arguments of a call and kept; running it allocates nothing,
// waits for nothing, and may be captured.
#pragma once

#include <cstring>
#include <memory>
#include <variant>
#include <vector>

#include "call/call.h"
#include "cuda/backend/gpu.h"

namespace coda::cuda {

class ProductPlan;

/// Shares the workspace out; without memory (null), it only counts.
class Workspace {
 public:
  explicit Workspace(void* memory) : base_(static_cast<std::byte*>(memory)) {}
  void* take(int64_t bytes) {
    std::byte* const result = base_ + used_;
    used_ += (static_cast<size_t>(bytes) + 255) / 256 * 256;
    return result;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

/// The bytes of a kernel's one parameter, written field by field.
class ArgumentBytes {
 public:
  explicit ArgumentBytes(size_t size) : bytes_(size) {}
  template <class T>
  void put(size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// A scalar of the call inside a kernel's parameter: written anew at every launch.
struct NumberSlot {
  size_t at;
  int input;
  bool integer;  // int64, otherwise float32
};

class Sequence {
 public:
  void kernel(FunctionHandle function, int64_t blocks, int threads, int shared_bytes,
              const ArgumentBytes& arguments, std::vector<NumberSlot> numbers = {});
  void product(std::shared_ptr<const ProductPlan> plan, const void* a, const void* b, void* out,
               void* workspace);
  void clear(void* memory, int64_t bytes);

  /// Queues everything on `stream`.
  void run(const Gpu& gpu, StreamHandle stream, const std::vector<double>& scalars) const;

 private:
  struct KernelStep {
    FunctionHandle function;
    unsigned blocks, threads, shared_bytes;
    size_t arguments, size;  // in arguments_
    std::vector<NumberSlot> numbers;
  };
  struct ProductStep {
    std::shared_ptr<const ProductPlan> plan;
    const void *a, *b;
    void *out, *workspace;
  };
  struct ClearStep {
    void* memory;
    size_t bytes;
  };

  std::vector<std::variant<KernelStep, ProductStep, ClearStep>> steps_;
  size_t largest_ = 0;
  std::vector<std::byte> arguments_;
};

}  // namespace coda::cuda
