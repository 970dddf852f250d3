// SPDX-License-Identifier: Apache-2.0
// compile() and Kernel on the CPU: what launch() refuses, and what it promises about threads.
#include <coda/coda.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "support/test_call.h"

namespace coda::test {
namespace {

std::string message_of(const std::function<void()>& work) {
  try {
    work();
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A call whose result needs workspace: means are combined over tiles.
std::unique_ptr<TestCall> norm_call(Sizes sizes = {70, 300, 40}) {
  return std::make_unique<TestCall>(library("norm.coda", "residual_rms"), sizes);
}

TEST(Kernel, runs_a_program) { norm_call()->run(); }

TEST(Kernel, names_its_program) {
  EXPECT_STREQ(norm_call()->compile().program().name(), "residual_rms");
}

TEST(Kernel, refuses_a_workspace_that_is_missing_too_small_or_misaligned) {
  const auto call = norm_call();
  const Kernel kernel = call->compile();
  const Arguments arguments = call->arguments();
  const size_t bytes = kernel.workspace_bytes(arguments);
  ASSERT_GT(bytes, 0u);
  std::byte* workspace = call->allocate(bytes + 64);
  const std::string needed =
      "[residual_rms] launch: expected " + std::to_string(bytes) + " bytes of workspace, got ";
  const std::string fix = "; fix: allocate what workspace_bytes() says for these arguments";
  EXPECT_EQ(message_of([&] { kernel.launch(nullptr, arguments, nullptr, bytes); }),
            needed + "a null pointer" + fix);
  EXPECT_EQ(message_of([&] { kernel.launch(nullptr, arguments, workspace, bytes - 1); }),
            needed + std::to_string(bytes - 1) + " bytes" + fix);
  EXPECT_EQ(
      message_of([&] { kernel.launch(nullptr, arguments, workspace + 4, bytes); }),
      "[residual_rms] launch: expected a workspace aligned to 64 bytes, got 4 bytes beyond such an "
      "address; fix: allocate it aligned");
  EXPECT_EQ(
      message_of([&] { kernel.launch(workspace, arguments, workspace, bytes); }),
      "[residual_rms] launch: expected no stream on the CPU, got a stream; fix: pass nullptr");
  for (const std::byte byte : call->bytes("x"))
    ASSERT_EQ(byte, std::byte{0xff}) << "a refused call wrote";
}

TEST(Kernel, tells_the_workspace_of_a_call_without_its_memory) {
  const auto call = norm_call();
  const Kernel kernel = call->compile();
  const size_t bytes = kernel.workspace_bytes(call->arguments());
  for (auto& [name, tensor] : call->tensors) tensor.segments[0].data = nullptr;
  for (auto& [name, terms] : call->products) terms[0].a.data = terms[0].b[0].data = nullptr;
  EXPECT_EQ(kernel.workspace_bytes(call->arguments()), bytes);
  EXPECT_NE(
      message_of([&] { kernel.launch(nullptr, call->arguments(), call->allocate(bytes), bytes); }),
      "accepted");
}

TEST(Kernel, outlives_the_program_it_was_compiled_from) {
  auto call = norm_call();
  std::optional<Kernel> kernel;
  {
    const Program program = Program::parse(call->program().text());
    kernel = compile(program, {}, {.type = DType::f32});
  }
  const size_t bytes = kernel->workspace_bytes(call->arguments());
  kernel->launch(nullptr, call->arguments(), call->allocate(bytes), bytes);
  EXPECT_STREQ(kernel->program().name(), "residual_rms");
  EXPECT_FALSE(std::isnan(call->at("x", 0, 0)));
}

TEST(Kernel, for_a_device_that_is_not_there_is_refused) {
  const Program program = library("linear.coda", "linear");
  try {
    compile(program, {Device::Kind::cuda, 1000}, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
#if CODA_CUDA
    EXPECT_TRUE(error.kind() == ErrorKind::unsupported || error.kind() == ErrorKind::device);
    EXPECT_STRNE(error.fix(), "");
#else
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(
        error.what(),
        "[linear] compile: expected a device of this build: cpu, got cuda:1000; fix: compile for "
        "Device{Device::Kind::cpu}, or use a build with CUDA");
#endif
  }
}

TEST(Kernel, gives_the_same_bits_for_any_number_of_threads) {
  std::vector<std::byte> first;
  for (int threads : {1, 2, 3, 8}) {
    const auto call = norm_call({300, 700, 65});
    call->threads = threads;
    call->launch();
    std::vector<std::byte> result = call->bytes("x");
    const std::vector<std::byte> rstd = call->bytes("rstd");
    result.insert(result.end(), rstd.begin(), rstd.end());
    if (first.empty()) first = result;
    EXPECT_EQ(result, first) << threads << " threads";
  }
}

TEST(Kernel, may_be_launched_from_several_threads_at_once) {
  const auto alone = norm_call();
  alone->launch();
  const Kernel kernel = alone->compile();
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 8; ++i) calls.push_back(norm_call());
  std::vector<std::thread> threads;
  for (const auto& call : calls)
    threads.emplace_back([&kernel, &call] {
      const Arguments arguments = call->arguments();
      const size_t bytes = kernel.workspace_bytes(arguments);
      kernel.launch(nullptr, arguments, call->allocate(bytes), bytes);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& call : calls) {
    EXPECT_EQ(call->bytes("x"), alone->bytes("x"));
    EXPECT_EQ(call->bytes("rstd"), alone->bytes("rstd"));
  }
}

}  // namespace
}  // namespace coda::test
