// SPDX-License-Identifier: Apache-2.0
// What a launch hands to the driver: kernels, tensor maps, geometry and numbers, against a driver
// that records them (fake_gpu.cpp).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "check/programs.h"
#include "cuda/backend/kernel.h"
#include "cuda/runtime/library.h"
#include "fake_gpu.h"
#include "language/parser.h"

namespace coda::cuda {
namespace {

const Device kGpu{Device::Kind::cuda, 0};
constexpr int64_t kM = 300, kN = 512, kK = 200;

std::byte* at(int64_t tensor) { return reinterpret_cast<std::byte*>((16 + tensor) << 28); }

TensorView matrix(int tensor, int64_t rows, int64_t columns, DType type = DType::bf16) {
  return matrix_view(at(tensor), rows, columns, type, 0, kGpu);
}

class Launches : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("CODA_CUDA_PATH", CODA_FAKE_GPU, 1); }

  void SetUp() override {
    try {
      nvrtc();
    } catch (const Error&) {
      GTEST_SKIP() << "NVRTC is not installed";
    }
    record().launches.clear(), record().maps_made = 0;
  }
  static FakeRecord& record() { return *driver().library.function<FakeRecord*()>("fake_record")(); }

  void use(const std::string& text, const KernelOptions& options = {}) {
    const auto programs = language::parse_file("coda 1\n" + text, "test.coda");
    instance_ = check::instance_of(programs.at(0), DType::bf16);
    kernel_ = std::make_unique<CudaKernel>(instance_, Gpu::open(0), options);
  }
  void launch(const Arguments& arguments) {
    const BoundCall call = bind(instance_, arguments, kGpu);
    workspace_ = kernel_->workspace_bytes(call);
    kernel_->launch(nullptr, call, at(100));
  }
  static FakeMap map(const FakeLaunch& launch, size_t index) {
    FakeMap result;
    std::memcpy(&result, launch.argument + 128 * index, sizeof result);
    return result;
  }
  template <class T>
  static T read(const FakeLaunch& launch, size_t offset) {
    T result;
    std::memcpy(&result, launch.argument + offset, sizeof result);
    return result;
  }

  Instance instance_;
  std::unique_ptr<CudaKernel> kernel_;
  size_t workspace_ = 0;
};

class Norm : public Launches {
 protected:
  void SetUp() override {
    Launches::SetUp();
    if (IsSkipped()) return;
    use("program norm(a: acc, x: T[m, n], w: T[n], eps: f32) -> y: T[m, n], r: f32[m] {\n"
        "  y = (a + x) * w\n  r = rsqrt(mean[m](y*y) + eps)\n}");
    arguments_.product("a", matrix(0, kM, kK), matrix(1, kN, kK));
    arguments_.tensor("x", matrix(2, kM, kN)).tensor("y", matrix(3, kM, kN));
    arguments_.tensor("w", vector_view(at(4), kN, DType::bf16, kGpu)).scalar("eps", 0.125);
    arguments_.tensor("r", vector_view(at(5), kM, DType::f32, kGpu));
  }
  Arguments arguments_;
};

TEST_F(Norm, a_fused_call_is_one_kernel_and_one_pass_over_its_partials) {
  launch(arguments_);
  ASSERT_EQ(record().launches.size(), 2u);
  const FakeLaunch& main = record().launches[0];
  EXPECT_EQ(main.kernel, "coda_norm");
  EXPECT_EQ(main.threads, 384u);
  EXPECT_LE(main.shared_bytes, 232448u);
  EXPECT_EQ(record().launches[1].kernel, "coda_norm_finish_0");
  const FakeMap a = map(main, 0), b = map(main, 1);
  EXPECT_EQ(a.base, at(0));
  EXPECT_EQ(a.columns, static_cast<uint64_t>(kK));
  EXPECT_EQ(a.rows, static_cast<uint64_t>(kM));
  EXPECT_EQ(a.pitch_bytes, static_cast<uint64_t>(2 * kK));
  EXPECT_EQ(a.box_columns, 64u);
  EXPECT_EQ(a.swizzle, kSwizzle128);
  EXPECT_EQ(b.base, at(1));
  EXPECT_EQ(b.rows, static_cast<uint64_t>(kN));
  EXPECT_EQ(map(main, 2).base, at(2));
  EXPECT_EQ(map(main, 2).box_rows, 16u);
  EXPECT_EQ(map(main, 3).base, at(3));
  // Behind four maps stand the ports: x, w, y and the partials of the mean.
  const auto w = read<device::PortArg>(main, 4 * 128 + 24);
  EXPECT_EQ(w.data, at(4));
  EXPECT_EQ(w.count, 1);
  const auto partial = read<device::PortArg>(main, 4 * 128 + 3 * 24);
  EXPECT_EQ(partial.data, at(100));
  EXPECT_EQ(partial.ld, kM);
  const auto geometry = read<device::Geometry>(main, 4 * 128 + 4 * 24);
  EXPECT_EQ(geometry.m, kM);
  EXPECT_EQ(geometry.n, kN);
  EXPECT_EQ(geometry.k_blocks[0], 4);
  EXPECT_EQ(geometry.total_blocks, 4);
  // The pass reads eps, the fourth input.
  EXPECT_EQ(read<int64_t>(record().launches[1], 0), kM);
  EXPECT_EQ(read<float>(record().launches[1], 32 + 3 * 8), 0.125f);
}

TEST_F(Norm, a_second_call_makes_no_maps_and_takes_its_own_numbers) {
  launch(arguments_);
  const int maps = record().maps_made;
  arguments_.scalar("eps", 0.5);
  launch(arguments_);
  EXPECT_EQ(record().maps_made, maps);
  EXPECT_EQ(read<float>(record().launches.back(), 32 + 3 * 8), 0.5f);
  arguments_.tensor("y", matrix(7, kM, kN));
  launch(arguments_);
  EXPECT_EQ(map(record().launches[4], 3).base, at(7));
}

TEST_F(Norm, vectors_that_are_not_contiguous_are_copied_first) {
  arguments_.tensor("w", TensorView{at(4), 1, {kN, 1}, {2, 0}, DType::bf16, kGpu});
  launch(arguments_);
  ASSERT_EQ(record().launches.size(), 3u);
  EXPECT_EQ(record().launches[0].kernel, "coda_copy_2");
  EXPECT_GE(workspace_, static_cast<size_t>(2 * kN + 4 * kM));
}

TEST_F(Launches, parts_have_maps_of_their_own) {
  use("program linear(a: acc) -> y: T[m, n] { y = a }");
  const TensorView weights[] = {matrix(1, 128, kK), matrix(2, kN - 128, kK)};
  const TensorView outputs[] = {matrix(3, 256, kN), matrix(4, kM - 256, kN)};
  Arguments arguments;
  arguments.product("a", matrix(0, kM, kK), weights).tensor("y", Axis::rows, outputs);
  launch(arguments);
  ASSERT_EQ(record().launches.size(), 1u);
  const FakeLaunch& main = record().launches[0];
  EXPECT_EQ(map(main, 0).base, at(0));
  EXPECT_EQ(map(main, 0).rows, 256u);
  EXPECT_EQ(map(main, 1).base, at(0) + 256 * kK * 2);
  EXPECT_EQ(map(main, 1).rows, static_cast<uint64_t>(kM - 256));
  EXPECT_EQ(map(main, 2).base, at(1));
  EXPECT_EQ(map(main, 3).base, at(2));
  EXPECT_EQ(map(main, 4).base, at(3));
  EXPECT_EQ(map(main, 5).base, at(4));
  const auto geometry = read<device::Geometry>(main, 6 * 128 + 24);
  EXPECT_EQ(geometry.a_begin[1], 256);
  EXPECT_EQ(geometry.b_begin[1], 128);
}

TEST_F(Launches, a_split_product_is_summed_in_a_second_kernel) {
  KernelOptions options;
  options.wish = parse_config("cooperative 128x256 2x1 split=3");
  use("program add(a: acc, old: T[m, n]) -> y: T[m, n] { y = old + a }", options);
  Arguments arguments;
  constexpr int64_t kDeep = 640;  // 10 blocks: ranges of 4, 4 and 2
  arguments.product("a", matrix(0, kM, kDeep), matrix(1, kN, kDeep));
  arguments.tensor("old", matrix(2, kM, kN)).tensor("y", matrix(3, kM, kN));
  launch(arguments);
  ASSERT_EQ(record().launches.size(), 2u);
  const FakeLaunch& main = record().launches[0];
  const FakeLaunch& sum = record().launches[1];
  const auto geometry = read<device::Geometry>(main, 3 * 128 + 24);
  EXPECT_EQ(geometry.splits, 3);
  EXPECT_EQ(geometry.blocks_per_split, 4);
  EXPECT_EQ(geometry.total_blocks, 10);
  EXPECT_EQ(geometry.split_rows, 512);
  EXPECT_EQ(map(main, 2).base, at(100));
  EXPECT_EQ(map(main, 2).rows, 3u * 512);
  EXPECT_EQ(map(main, 2).pitch_bytes, 4u * kN);
  EXPECT_GE(workspace_, 3u * 512 * kN * 4);
  EXPECT_EQ(sum.kernel, "coda_add_sum");
  EXPECT_EQ(read<void*>(sum, 0), at(100));
  EXPECT_EQ(read<int64_t>(sum, 8), kN);
  EXPECT_EQ(read<int64_t>(sum, 16), 512 * kN);
  EXPECT_EQ(read<void*>(sum, 24), at(2));
  EXPECT_EQ(read<int64_t>(sum, 32), kN);
  EXPECT_EQ(read<void*>(sum, 40), at(3));
  EXPECT_EQ(read<int64_t>(sum, 48), kN);
  EXPECT_EQ(read<int>(sum, 56), 3);
  EXPECT_EQ(read<int>(sum, 60), kM);
  EXPECT_EQ(read<int>(sum, 64), kN);
}

TEST_F(Launches, a_split_product_writes_an_output_in_parts) {
  KernelOptions options;
  options.wish = parse_config("pingpong 128x128 1x1 split=2");
  use("program linear(a: acc) -> y: T[m, n] { y = a }", options);
  const TensorView outputs[] = {matrix(3, 256, kN), matrix(4, kM - 256, kN)};
  Arguments arguments;
  arguments.product("a", matrix(0, kM, kK), matrix(1, kN, kK)).tensor("y", Axis::rows, outputs);
  launch(arguments);
  ASSERT_EQ(record().launches.size(), 3u);
  EXPECT_EQ(read<void*>(record().launches[1], 40), at(3));
  EXPECT_EQ(read<int>(record().launches[1], 60), 256);
  EXPECT_EQ(read<void*>(record().launches[2], 0), at(100) + 256 * kN * 4);
  EXPECT_EQ(read<void*>(record().launches[2], 40), at(4));
  EXPECT_EQ(read<int>(record().launches[2], 60), kM - 256);
}

TEST_F(Launches, turned_operands_have_boxes_along_m_and_n) {
  use("program linear(a: acc) -> y: T[m, n] { y = a }");
  Arguments arguments;
  arguments.product("a", transposed(matrix(0, kK, 304)), transposed(matrix(1, kK, kN)));
  arguments.tensor("y", matrix(2, 304, kN));
  launch(arguments);
  const FakeMap a = map(record().launches.at(0), 0);
  EXPECT_EQ(a.columns, 304u);
  EXPECT_EQ(a.rows, static_cast<uint64_t>(kK));
  EXPECT_EQ(a.box_columns, 64u);
}

TEST_F(Launches, a_program_without_an_accumulator_is_its_passes) {
  use("program scale(x: T[m, n], s: f32) -> y: T[m, n] { y = x * s }");
  Arguments arguments;
  arguments.tensor("x", matrix(0, kM, kN)).tensor("y", matrix(0, kM, kN)).scalar("s", 2);
  launch(arguments);
  ASSERT_EQ(record().launches.size(), 1u);  // in place, without a copy
  EXPECT_EQ(workspace_, 0u);
}

TEST_F(Launches, pairs_updated_in_place_go_through_the_workspace) {
  use("program turn(x: T[m, n]) -> y: T[m, n] {\n  a, b = split(x, 1)\n  y = join(b, a, 1)\n}");
  Arguments arguments;
  arguments.tensor("x", matrix(0, kM, kN)).tensor("y", matrix(0, kM, kN));
  launch(arguments);
  ASSERT_EQ(record().launches.size(), 2u);
  EXPECT_EQ(record().launches[1].kernel, "coda_copy_2");
  EXPECT_EQ(read<void*>(record().launches[1], 8), at(0));
}

TEST_F(Launches, the_callers_context_stays_current) {
  use("program scale(x: T[m, n], s: f32) -> y: T[m, n] { y = x * s }");
  Arguments arguments;
  arguments.tensor("x", matrix(0, kM, kN)).tensor("y", matrix(1, kM, kN)).scalar("s", 2);
  launch(arguments);
  ContextHandle current = nullptr;
  driver().cuCtxGetCurrent(&current);
  EXPECT_EQ(current, nullptr);
}

}  // namespace
}  // namespace coda::cuda
