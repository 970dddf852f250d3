// SPDX-License-Identifier: Apache-2.0
// The suite against a driver whose kernels do what the test says: right, nothing, or wrong.
#include "cuda/check/large.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/convert.h"
#include "check/programs.h"
#include "cuda/runtime/library.h"
#include "fake_gpu.h"
#include "language/parser.h"

namespace coda::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kM = 296, kN = 512, kK = 200;

class Suite : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("CODA_CUDA_PATH", CODA_FAKE_GPU, 1); }

  void SetUp() override {
    try {
      nvrtc();
    } catch (const Error&) {
      GTEST_SKIP() << "NVRTC is not installed";
    }
    use("program p(a: acc, x: T[m, n], e: f32) -> y: T[m, n], r: f32[m], c: f32[n], all: f32[] {\n"
        "  y = a + x\n  r = sum[m](y*y)\n  c = sum[n](y)\n  all = max[](y)\n}");
    record().compute = [](void* user) { static_cast<Suite*>(user)->compute(); };
    record().user = this;
  }
  void TearDown() override {
    if (!IsSkipped()) record().compute = nullptr;
  }
  static FakeRecord& record() { return *driver().library.function<FakeRecord*()>("fake_record")(); }

  void use(const std::string& text, const std::string& layout = "NT") {
    const auto programs = language::parse_file("coda 1\n" + text, "test.coda");
    row_ = {"row", check::instance_of(programs.at(0), DType::bf16), {kM, kN, {kK, 64}, layout}};
  }

  /// Puts what float64 makes of the call where a kernel would.
  void compute() {
    ++launches_;
    const ir::Program& program = *row_.instance.program;
    if (expected_.empty())
      expected_ = reference::evaluate(program, call_.symbols, reference::inputs_of(program, call_),
                                      {.type = DType::bf16});
    for (size_t o = 0; o < expected_.size(); ++o) {
      const View& view = call_.outputs[o].segments[0].view;
      const auto width = static_cast<int64_t>(size_of(view.dtype));
      for (int64_t i = 0; i < expected_[o].size(); ++i)
        if (o > 0 || i != left_out_)
          store_element(view.data + i * width, view.dtype, expected_[o].value[i]);
    }
    if (spoil_) spoil_();
  }
  std::byte* at(size_t output, int64_t element) const {
    const View& view = call_.outputs[output].segments[0].view;
    return view.data + element * static_cast<int64_t>(size_of(view.dtype));
  }

  LargeResult run() {
    arena_ = std::make_unique<Arena>(Gpu::open(0), size_t{16} << 20);
    call_ = make_call(*arena_, row_.instance, row_.size);  // the one that the suite makes, too
    options_.counts.affordable = 0;
    options_.threads = 2;
    LargeResult result = verify(Gpu::open(0), *arena_, row_, options_);
    arena_.reset();
    return result;
  }

  std::function<void()> spoil_;
  int64_t left_out_ = -1;  // of the first output
  int launches_ = 0;
  BenchRow row_;
  LargeOptions options_;
  BoundCall call_;
  std::unique_ptr<Arena> arena_;
  std::vector<reference::Dense> expected_;
};

TEST_F(Suite, right_results_pass_and_what_was_not_compared_is_named) {
  const LargeResult result = run();
  EXPECT_TRUE(result.ok) << result.message;
  EXPECT_EQ(result.samples, 68u);
  EXPECT_LE(result.ratio, 1);
  EXPECT_THAT(result.uncovered, ElementsAre("all"));
  EXPECT_THAT(result.way, HasSubstr("fused pingpong"));
  EXPECT_GT(result.elements, 64 * 16 * 64);
}

TEST_F(Suite, operands_of_all_layouts_are_read_as_they_lie) {
  for (const char* layout : {"NN", "TN"}) {
    expected_.clear();
    use("program p(a: acc) -> y: T[m, n], c: f32[n] {\n  y = a\n  c = sum[n](a)\n}", layout);
    const LargeResult result = run();
    EXPECT_TRUE(result.ok) << layout << ": " << result.message;
    EXPECT_TRUE(result.uncovered.empty());
  }
}

TEST_F(Suite, a_kernel_that_writes_nothing_fails) {
  record().compute = nullptr;
  const LargeResult result = run();
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.message, HasSubstr("'y': 151552 of 151552 elements were not written"));
  EXPECT_THAT(result.message, HasSubstr("'all': 1 of 1 elements were not written"));
}

TEST_F(Suite, one_element_that_is_left_out_fails_wherever_it_lies) {
  left_out_ = 77777;
  const LargeResult result = run();
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.message, HasSubstr("'y': 1 of 151552 elements were not written"));
}

TEST_F(Suite, other_bits_and_nan_fail) {
  spoil_ = [&] { store_element(at(0, 77777), DType::bf16, launches_); };
  EXPECT_THAT(run().message, HasSubstr("'y': 1 of 151552 elements have other bits"));
  spoil_ = [&] { store_element(at(3, 0), DType::f32, std::numeric_limits<double>::quiet_NaN()); };
  EXPECT_THAT(run().message, HasSubstr("'all': 1 of 1 elements are NaN"));
}

TEST_F(Suite, a_wrong_element_of_a_sample_fails_and_is_named) {
  spoil_ = [&] { store_element(at(0, kN * (kM - 1) + kN - 1), DType::bf16, 1000); };
  const LargeResult result = run();
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.message, HasSubstr("'y': element [295, 511] is 1000, expected"));
  EXPECT_THAT(result.message, HasSubstr("of 68 samples are wrong"));
}

TEST_F(Suite, a_sum_that_lacks_a_tile_fails) {
  spoil_ = [&] {
    for (int64_t i = 0; i < kM; ++i)
      store_element(at(1, i), DType::f32, expected_[1].value[i] * 0.9);
    for (int64_t i = 0; i < kN; ++i)
      store_element(at(2, i), DType::f32, expected_[2].value[i] + 99);
  };
  const LargeResult result = run();
  EXPECT_THAT(result.message, HasSubstr("'r': element ["));
  EXPECT_THAT(result.message, HasSubstr("'c': element ["));
}

TEST_F(Suite, a_configuration_that_does_not_fit_fails) {
  options_.wish = parse_config("pingpong 192x256");
  const LargeResult result = run();
  EXPECT_FALSE(result.ok);
  EXPECT_FALSE(result.lost);
  EXPECT_FALSE(result.message.empty());
}

TEST(Arena, operands_of_a_call_differ) {
  setenv("CODA_CUDA_PATH", CODA_FAKE_GPU, 1);
  Arena arena(Gpu::open(0), size_t{1} << 24);
  const std::byte* const a = arena.tensor(1500000, DType::bf16, check::Source::normal, 1);
  const std::byte* const b = arena.tensor(1500000, DType::bf16, check::Source::normal, 1);
  EXPECT_NE(std::memcmp(a, b, 1000), 0);
  // Both go round the same pool of values.
  EXPECT_EQ(std::memcmp(a, a + 2 * 1000003, 2 * (1500000 - 1000003)), 0);
  EXPECT_EQ(std::memcmp(b, b + 2 * 1000003, 2 * (1500000 - 1000003)), 0);
}

}  // namespace
}  // namespace coda::cuda
