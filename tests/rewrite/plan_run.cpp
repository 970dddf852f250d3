// SPDX-License-Identifier: Apache-2.0
#include "rewrite/plan_run.h"

#include <memory>
#include <stdexcept>

#include "base/convert.h"

namespace coda::test {

using rewrite::Buffer;

PlanRun::PlanRun(const execute::Executor& executor, int64_t tokens)
    : executor_(executor), tokens_(tokens) {
  constexpr std::byte kPoison{0xFF};
  for (const Buffer& buffer : executor.plan().buffers)
    if (buffer.role == Buffer::Role::input || buffer.role == Buffer::Role::output)
      memory_[buffer.name].assign(
          execute::bytes_of(executor.plan(), buffer, tokens, executor.type()) + 8, kPoison);
}

const Buffer& PlanRun::buffer(const std::string& name) const {
  for (const Buffer& buffer : executor_.plan().buffers)
    if (buffer.name == name && memory_.count(name)) return buffer;
  throw std::invalid_argument("no tensor " + name);
}

void PlanRun::set(const std::string& name, const std::vector<double>& values) {
  const DType type = executor_.storage(buffer(name));
  if (static_cast<int64_t>(values.size()) !=
      execute::rows_of(executor_.plan(), buffer(name), tokens_) * buffer(name).columns)
    throw std::invalid_argument("another number of values for " + name);
  std::byte* to = memory_.at(name).data();
  for (size_t i = 0; i < values.size(); ++i) store_element(to + i * size_of(type), type, values[i]);
}

void PlanRun::set(const Matrices& matrices) {
  for (const Buffer& buffer : executor_.plan().buffers)
    if (buffer.role == Buffer::Role::input) set(buffer.name, matrices.at(buffer.name).values);
}

Matrix PlanRun::get(const std::string& name) const {
  const DType type = executor_.storage(buffer(name));
  Matrix result{
      execute::rows_of(executor_.plan(), buffer(name), tokens_), buffer(name).columns, {}};
  const std::byte* from = memory_.at(name).data();
  for (int64_t i = 0; i < result.rows * result.columns; ++i)
    result.values.push_back(load_element(from + static_cast<size_t>(i) * size_of(type), type));
  return result;
}

void PlanRun::run(execute::Run run) {
  run.tokens = tokens_;
  execute::Tensors tensors;
  for (auto& [name, memory] : memory_) tensors[name] = memory.data();
  const size_t bytes = executor_.arena_bytes(tokens_, run.sequences);
  // What forward steps left is kept for the backward ones.
  if (arena_.size() < bytes + kWorkspaceAlignment)
    arena_.assign(bytes + kWorkspaceAlignment, std::byte{0xFF});
  void* aligned = arena_.data();
  size_t space = arena_.size();
  std::align(kWorkspaceAlignment, 1, aligned, space);
  executor_.run(run, tensors, aligned, bytes);
}

}  // namespace coda::test
