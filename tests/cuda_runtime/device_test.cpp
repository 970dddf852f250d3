// SPDX-License-Identifier: Apache-2.0
// Needs a Hopper GPU and its driver; skipped, with the reason, where there is none.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "cuda/runtime/compiler.h"
#include "cuda/runtime/module.h"
#include "cuda/runtime/stream.h"
#include "support.h"

namespace coda::cuda {
namespace {

constexpr const char* kSaxpy =
    R"(extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  extern __shared__ float shared[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  shared[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = fmaf(a, shared[threadIdx.x], y[i]);
})";

ContextHandle current_context() {
  ContextHandle context = nullptr;
  check(driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const DeviceInfo info = device_info(0);
      if (info.major != 9) GTEST_SKIP() << info.name << " is no Hopper GPU";
      context_ = Context::retain(0);
      compile_source({"saxpy", kSaxpy}, options_);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  TestFolder folder_;
  Cache cache_{{folder_ / "cache", 1 << 30, ""}};
  CompilerOptions options_ = {.cache = &cache_};
  ContextPointer context_;
};

TEST_F(DeviceTest, tells_what_the_device_is) {
  const DeviceInfo info = device_info(0);
  EXPECT_NE(info.name, "");
  EXPECT_GT(info.multiprocessors, 50);
  EXPECT_EQ(info.shared_bytes, 232448);
  EXPECT_GT(info.l2_bytes, 1 << 20);
  EXPECT_GT(info.memory_bytes, size_t{16} << 30);
  for (const int ordinal : {-1, device_count()}) {
    try {
      device_info(ordinal);
      ADD_FAILURE() << ordinal;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::argument);
    }
  }
}

TEST_F(DeviceTest, launches_and_captures_and_replays_a_kernel) {
  const int n = 100003;
  const float a = 0.75f;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(n), y(n), expected, got(n, NAN);
  for (float& value : x) value = uniform(random);
  for (float& value : y) value = uniform(random);
  expected = y;
  const auto step = [&] {
    for (int i = 0; i < n; ++i) expected[i] = std::fmaf(a, x[i], expected[i]);
  };

  const Module module(compile_source({"saxpy", kSaxpy}, options_).image);
  const Stream stream(context_);
  const StreamHandle on = stream.handle();
  const size_t bytes = n * sizeof(float);
  const Memory device_x(context_, bytes), device_y(context_, bytes), before(context_, bytes);
  copy_to_device(*context_, device_x.data(), x.data(), bytes, on);
  copy_to_device(*context_, before.data(), y.data(), bytes, on);
  fill(*context_, device_y.data(), 0xff, bytes, on);
  copy_on_device(*context_, device_y.data(), before.data(), bytes, on);

  const unsigned shared = 100 << 10;  // more than a kernel may use without asking
  const FunctionHandle saxpy = module.function(*context_, "saxpy", static_cast<int>(shared));
  DevicePointer px = device_x.address(), py = device_y.address();
  float factor = a;
  int count = n;
  void* arguments[] = {&factor, &px, &py, &count};
  const Launch how = {{(n + 255u) / 256, 1, 1}, {256, 1, 1}, shared, on, false};
  const auto compare = [&](const char* what) {
    copy_to_host(*context_, got.data(), device_y.data(), bytes, on);
    stream.synchronise();
    for (int i = 0; i < n; ++i) ASSERT_EQ(got[i], expected[i]) << what << ", element " << i;
  };

  launch(*context_, saxpy, how, arguments);
  step();
  compare("launch");

  Capture capture(context_, on);
  launch(*context_, saxpy, how, arguments);
  launch(*context_, saxpy, how, arguments);
  const Graph graph = capture.finish();
  compare("a capture runs nothing");
  const Event start(context_), stop(context_);
  start.record(on);
  for (int replay = 0; replay < 3; ++replay) {
    graph.launch(on);
    step();
    step();
  }
  stop.record(on);
  stop.synchronise();
  compare("replay");
  EXPECT_GT(elapsed_ms(start, stop), 0);
  std::printf("three replays of two launches: %.3f ms\n", elapsed_ms(start, stop));

  Launch early = how;
  early.programmatic = true;
  launch(*context_, saxpy, early, arguments);
  step();
  compare("programmatic launch");
}

TEST_F(DeviceTest, an_abandoned_capture_leaves_the_stream_usable) {
  const Stream stream(context_);
  const Memory memory(context_, 64);
  { const Capture capture(context_, stream.handle()); }
  fill(*context_, memory.data(), 0x5a, 64, stream.handle());
  std::vector<unsigned char> host(64, 0);
  copy_to_host(*context_, host.data(), memory.data(), 64, stream.handle());
  stream.synchronise();
  EXPECT_EQ(host, std::vector<unsigned char>(64, 0x5a));
}

TEST_F(DeviceTest, leaves_the_current_context_as_it_was) {
  const auto use_everything = [&] {
    const Stream stream(context_);
    const Event event(context_);
    const Memory memory(context_, 1024);
    event.record(stream.handle());
    fill(*context_, memory.data(), 1, 1024, stream.handle());
    stream.synchronise();
  };
  // A new thread has no context; afterwards it has none either.
  std::thread([&] {
    EXPECT_EQ(current_context(), nullptr);
    use_everything();
    EXPECT_EQ(current_context(), nullptr);
    {
      const ContextGuard outer(*context_);
      EXPECT_EQ(current_context(), context_->handle());
      use_everything();
      const ContextGuard inner(*context_);
      EXPECT_EQ(current_context(), context_->handle());
    }
    EXPECT_EQ(current_context(), nullptr);
  }).join();
  if (device_count() < 2) return;
  std::thread([&] {
    const ContextPointer other = Context::retain(1);
    const ContextGuard guard(*other);
    use_everything();
    EXPECT_EQ(current_context(), other->handle());
  }).join();
}

TEST_F(DeviceTest, failures_carry_the_name_and_the_text_that_cuda_gives_them) {
  try {
    const Memory memory(context_, size_t{1} << 50);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_STREQ(error.where(), "[cuda] cuMemAlloc");
    EXPECT_STREQ(error.got(), "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  }
  // The driver may look at an image only when a kernel of it is asked for.
  EXPECT_THROW(Module("no cubin").function(*context_, "saxpy", 0), Error);
  const Module module(compile_source({"saxpy", kSaxpy}, options_).image);
  EXPECT_THROW(module.function(*context_, "another", 0), Error);
}

TEST_F(DeviceTest, a_cubin_keeps_its_report_where_nvrtc_has_a_cache_of_its_own) {
  for (int i = 0; i < 2; ++i) {
    Cache none({"", 0, ""});
    options_.cache = &none;
    const Cubin cubin = compile_source({"saxpy", kSaxpy}, options_);
    ASSERT_EQ(cubin.kernels.size(), 1u);
    EXPECT_GT(cubin.kernels[0].registers, 0);
  }
}

}  // namespace
}  // namespace coda::cuda
