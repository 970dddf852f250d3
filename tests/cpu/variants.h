// SPDX-License-Identifier: Apache-2.0
// Runs a test call with any options of the CPU backend, which the public interface does not offer:
// a given instruction set, the plain mainloop.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/kernel.h"
#include "reference/reference.h"
#include "support/test_call.h"

namespace coda::test {

/// Launches alone.
inline void launch(const TestCall& call, const cpu::Options& options) {
  const Instance instance = call.instance();
  const BoundCall bound = bind(instance, call.arguments(), {});
  const auto kernel = cpu::compile(instance, options);
  const size_t bytes = kernel->workspace_bytes(bound);
  std::vector<std::byte> workspace(bytes + 64, std::byte{0xff});
  kernel->launch(bound, workspace.data());
  for (size_t i = bytes; i < workspace.size(); ++i)
    ASSERT_EQ(workspace[i], std::byte{0xff}) << "byte " << i << " of a workspace of " << bytes;
}

/// Launches and holds the outputs against the reference.
inline void check(const TestCall& call, const cpu::Options& options) {
  const Instance instance = call.instance();
  const BoundCall bound = bind(instance, call.arguments(), {});
  const auto inputs = reference::inputs_of(*instance.program, bound);
  const auto expected =
      reference::evaluate(*instance.program, bound.symbols, inputs, {.type = instance.type});
  launch(call, options);
  for (size_t i = 0; i < expected.size(); ++i) {
    const reference::Comparison comparison = reference::compare(bound.outputs[i], expected[i]);
    EXPECT_TRUE(comparison.ok()) << instance.program->outputs[i].name << ": "
                                 << reference::to_string(comparison);
  }
}

/// The outputs' bytes after a launch.
inline std::vector<std::vector<std::byte>> outputs_of(TestCall& call, const cpu::Options& options) {
  launch(call, options);
  const Instance instance = call.instance();
  std::vector<std::vector<std::byte>> result;
  for (const ir::Output& output : instance.program->outputs)
    result.push_back(call.bytes(output.name));
  return result;
}

}  // namespace coda::test
