// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/sequence.h"

#include <algorithm>

#include "cuda/backend/products.h"
#include "cuda/runtime/stream.h"
#include "ir/program.h"

namespace coda::cuda {

namespace {

constexpr size_t kArgumentAlignment = 64;
constexpr size_t kLargestArgument = 16384;  // of a kernel's parameters, which may have 32764

}  // namespace

void Sequence::kernel(FunctionHandle function, int64_t blocks, int threads, int shared_bytes,
                      const ArgumentBytes& arguments, std::vector<NumberSlot> numbers) {
  const std::vector<std::byte>& bytes = arguments.bytes();
  if (bytes.size() > kLargestArgument)
    throw Error(ErrorKind::unsupported, "launch", "at most 16384 bytes of kernel parameters",
                std::to_string(bytes.size()), "use fewer tensors in one program");
  const size_t at =
      (arguments_.size() + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  arguments_.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), arguments_.begin() + static_cast<ptrdiff_t>(at));
  largest_ = std::max(largest_, bytes.size());
  steps_.emplace_back(
      KernelStep{function, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                 static_cast<unsigned>(shared_bytes), at, bytes.size(), std::move(numbers)});
}

void Sequence::product(std::shared_ptr<const ProductPlan> plan, const void* a, const void* b,
                       void* out, void* workspace) {
  steps_.emplace_back(ProductStep{std::move(plan), a, b, out, workspace});
}

void Sequence::clear(void* memory, int64_t bytes) {
  if (bytes > 0) steps_.emplace_back(ClearStep{memory, static_cast<size_t>(bytes)});
}

void Sequence::run(const Gpu& gpu, StreamHandle stream, const std::vector<double>& scalars) const {
  const ContextGuard guard(gpu.context());
  alignas(kArgumentAlignment) std::byte copy[kLargestArgument];
  for (const auto& step : steps_)
    std::visit(
        ir::Overloaded{
            [&](const KernelStep& k) {
              std::memcpy(copy, arguments_.data() + k.arguments, k.size);
              for (const NumberSlot& slot : k.numbers) {
                const auto real = static_cast<float>(scalars[slot.input]);
                const auto integer = slot.integer ? static_cast<int64_t>(scalars[slot.input]) : 0;
                if (slot.integer)
                  std::memcpy(copy + slot.at, &integer, sizeof integer);
                else
                  std::memcpy(copy + slot.at, &real, sizeof real);
              }
              Launch how;
              how.grid[0] = k.blocks, how.block[0] = k.threads;
              how.shared_bytes = k.shared_bytes, how.stream = stream;
              void* argument = copy;
              launch(gpu.context(), k.function, how, {&argument, 1});
            },
            [&](const ProductStep& p) { p.plan->run(gpu, p.a, p.b, p.out, p.workspace, stream); },
            [&](const ClearStep& c) { fill(gpu.context(), c.memory, 0, c.bytes, stream); }},
        step);
}

}  // namespace coda::cuda
