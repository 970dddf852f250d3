// SPDX-License-Identifier: Apache-2.0
// Contexts, streams and memory against a driver without a GPU (fake_driver.cpp), which is strict
// about the context that is current.
#include "cuda/runtime/context.h"

#include <coda/error.h>
#include <gtest/gtest.h>

#include <thread>

#include "cuda/runtime/module.h"
#include "cuda/runtime/stream.h"

namespace coda::cuda {
namespace {

ContextHandle current_context() {
  ContextHandle context = nullptr;
  check(driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

size_t live_objects() { return driver().library.function<size_t()>("fake_live_objects")(); }
int retained(int device) { return driver().library.function<int(int)>("fake_retained")(device); }
bool capturing() { return driver().library.function<int()>("fake_capturing")() != 0; }
const LaunchConfig& last_launch() {
  return *driver().library.function<const LaunchConfig*()>("fake_last_launch")();
}

class ContextTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("CODA_CUDA_PATH", CODA_FAKE_LIBRARIES "/driver", 1); }
  void TearDown() override {
    EXPECT_EQ(current_context(), nullptr);
    EXPECT_EQ(live_objects(), 0u);
    EXPECT_EQ(retained(0), 0);
    EXPECT_EQ(retained(1), 0);
  }
};

/// Makes and uses one of everything.
void use_everything(const ContextPointer& context) {
  const Stream stream(context);
  const Event event(context);
  const Memory memory(context, 64), other(context, 64);
  event.record(stream.handle());
  std::vector<unsigned char> host(64, 3), back(64, 0);
  copy_to_device(*context, memory.data(), host.data(), 64, stream.handle());
  copy_on_device(*context, other.data(), memory.data(), 64, stream.handle());
  fill(*context, memory.data(), 7, 64, stream.handle());
  copy_to_host(*context, back.data(), other.data(), 64, stream.handle());
  stream.synchronise();
  EXPECT_EQ(back, host);
  copy_to_host(*context, back.data(), memory.data(), 64, stream.handle());
  EXPECT_EQ(back, std::vector<unsigned char>(64, 7));
  Capture capture(context, stream.handle());
  launch(*context, nullptr, {}, {});
  const Graph graph = capture.finish();
  graph.launch(stream.handle());
}

TEST_F(ContextTest, everything_works_without_a_current_context_and_leaves_none) {
  const ContextPointer context = Context::retain(0);
  EXPECT_EQ(retained(0), 1);
  use_everything(context);
  EXPECT_EQ(current_context(), nullptr);
}

TEST_F(ContextTest, everything_works_where_another_device_is_current_and_leaves_it_so) {
  const ContextPointer first = Context::retain(0), second = Context::retain(1);
  const ContextGuard guard(*first);
  use_everything(second);
  EXPECT_EQ(current_context(), first->handle());
}

TEST_F(ContextTest, a_guard_pushes_only_what_is_not_current) {
  const ContextPointer first = Context::retain(0), second = Context::retain(1);
  {
    const ContextGuard one(*first);
    {
      const ContextGuard same(*first);
      const ContextGuard two(*second);
      EXPECT_EQ(current_context(), second->handle());
    }
    EXPECT_EQ(current_context(), first->handle());
  }
}

TEST_F(ContextTest, objects_are_freed_in_their_own_context_whatever_is_current) {
  ContextPointer first = Context::retain(0);
  const ContextPointer second = Context::retain(1);
  auto memory = std::make_unique<Memory>(first, 100);
  auto stream = std::make_unique<Stream>(first);
  first.reset();
  EXPECT_EQ(retained(0), 1) << "objects keep their context";
  const ContextGuard guard(*second);
  memory.reset();
  stream.reset();
  EXPECT_EQ(live_objects(), 0u);
  EXPECT_EQ(retained(0), 0);
}

TEST_F(ContextTest, moved_memory_is_freed_once) {
  const ContextPointer context = Context::retain(0);
  Memory first(context, 10);
  void* data = first.data();
  Memory second = std::move(first);
  EXPECT_EQ(second.data(), data);
  second = Memory(context, 20);
  EXPECT_EQ(live_objects(), 1u);
  EXPECT_EQ(Memory(context, 0).data(), nullptr);
}

TEST_F(ContextTest, other_threads_have_their_own_current_context) {
  const ContextPointer context = Context::retain(1);
  const ContextGuard guard(*context);
  std::thread([&] {
    EXPECT_EQ(current_context(), nullptr);
    use_everything(context);
    EXPECT_EQ(current_context(), nullptr);
  }).join();
}

TEST_F(ContextTest, an_abandoned_capture_ends_and_leaves_no_graph) {
  const ContextPointer context = Context::retain(0);
  const Stream stream(context);
  {
    const Capture capture(context, stream.handle());
    EXPECT_TRUE(capturing());
  }
  EXPECT_FALSE(capturing());
  EXPECT_EQ(live_objects(), 1u) << "the stream";
}

TEST_F(ContextTest, failures_name_the_call_and_carry_the_text_of_cuda) {
  const ContextPointer context = Context::retain(0);
  try {
    const Memory memory(context, size_t{1} << 50);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_STREQ(error.where(), "[cuda] cuMemAlloc");
    EXPECT_STREQ(error.got(), "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  }
  try {
    check(12345, "cuSomething");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.got(), "error 12345") << "one that the driver has no text for";
  }
}

TEST_F(ContextTest, a_device_that_does_not_exist_is_an_argument_error) {
  for (const int ordinal : {-1, 2}) {
    try {
      Context::retain(ordinal);
      FAIL() << ordinal;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::argument);
      EXPECT_STREQ(error.got(), std::to_string(ordinal).c_str());
    }
  }
}

TEST_F(ContextTest, a_launch_passes_its_shape_on) {
  const ContextPointer context = Context::retain(0);
  const Stream stream(context);
  launch(*context, nullptr, {{2, 3, 4}, {5, 6, 7}, 1000, stream.handle(), false}, {});
  EXPECT_EQ(std::vector<unsigned>(last_launch().grid, last_launch().grid + 3),
            (std::vector<unsigned>{2, 3, 4}));
  EXPECT_EQ(std::vector<unsigned>(last_launch().block, last_launch().block + 3),
            (std::vector<unsigned>{5, 6, 7}));
  EXPECT_EQ(last_launch().shared_bytes, 1000u);
  EXPECT_EQ(last_launch().stream, stream.handle());
  EXPECT_EQ(last_launch().attribute_count, 0u);
  launch(*context, nullptr, {{1, 1, 1}, {1, 1, 1}, 0, stream.handle(), true}, {});
  EXPECT_EQ(last_launch().attribute_count, 1u);
}

}  // namespace
}  // namespace coda::cuda
