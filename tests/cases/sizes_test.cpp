// SPDX-License-Identifier: Apache-2.0
// Sizes, strides and byte counts beyond 32 bits.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "cpu/grid.h"
#include "support/test_call.h"

namespace coda::test {
namespace {

/// Address space that costs no memory until it is touched.
class Reserved {
 public:
  explicit Reserved(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  Reserved(const Reserved&) = delete;
  ~Reserved() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  void* data() const { return data_ == MAP_FAILED ? nullptr : data_; }

 private:
  size_t bytes_;
  void* data_;
};

TEST(Sizes, a_stride_beyond_32_bits_is_followed) {
  // Rows 2^31 and 2^32 + 8 elements apart, in an input and in an output.
  for (int64_t stride : {int64_t{1} << 31, (int64_t{1} << 32) + 8}) {
    const size_t bytes = static_cast<size_t>(stride + 128) * 2;
    const Reserved in(bytes), out(bytes);
    if (!in.data() || !out.data()) GTEST_SKIP() << "no address space of " << bytes << " bytes";
    TestCall call(library("norm.coda", "residual_rms"), {2, 128, 32}, DType::bf16);
    call.view("residual") = matrix_view(in.data(), 2, 128, DType::bf16, stride);
    call.fill("residual", [](int64_t i, int64_t j) { return t(128 * i + j); });
    call.view("x") = matrix_view(out.data(), 2, 128, DType::bf16, stride);
    call.run();
  }
}

TEST(Sizes, sizes_whose_products_pass_32_bits_are_accepted) {
  // M K = 2^32, M N = 2^37: neither wraps into something small.
  TestCall call(library("linear.coda", "linear"), {1, 1, 1}, DType::bf16);
  const int64_t m = int64_t{1} << 17, n = int64_t{1} << 20, k = int64_t{1} << 15;
  call.products["a"] = {
      {matrix_view(nullptr, m, k, DType::bf16), {matrix_view(nullptr, n, k, DType::bf16)}}};
  call.view("y") = matrix_view(nullptr, m, n, DType::bf16);
  EXPECT_NO_THROW(call.compile().workspace_bytes(call.arguments()));
}

TEST(Sizes, workspaces_beyond_32_bits_are_counted) {
  // Unfused, the accumulator [M, N] of float32 lies in the workspace.
  TestCall call(library("linear.coda", "linear"), {1, 1, 1}, DType::bf16);
  call.fused = false;
  const int64_t m = int64_t{1} << 20, n = 128256, k = 16;
  call.products["a"] = {
      {matrix_view(nullptr, m, k, DType::bf16), {matrix_view(nullptr, n, k, DType::bf16)}}};
  call.view("y") = matrix_view(nullptr, m, n, DType::bf16);
  EXPECT_GE(call.compile().workspace_bytes(call.arguments()), static_cast<size_t>(m * n) * 4);
}

TEST(Sizes, every_tile_of_a_long_matrix_is_visited_once) {
  const Program program = library("linear.coda", "linear");
  const int64_t symbols[] = {128, int64_t{1} << 22};  // N, M
  const cpu::Grid grid = cpu::make_grid(program.ir(), symbols);
  int64_t row = 0;
  for (int64_t i = 0; i < grid.tiles_m; ++i) {
    int64_t column = 0;
    for (int64_t j = 0; j < grid.tiles_n; ++j) {
      const cpu::Tile tile = grid.tile(i, j);
      ASSERT_EQ(tile.row, row);
      ASSERT_EQ(tile.column, column);
      column += tile.columns;
    }
    ASSERT_EQ(column, 128);
    row += grid.tile(i, 0).rows;
  }
  EXPECT_EQ(row, int64_t{1} << 22);
}

TEST(Sizes, integer_sums_beyond_32_bits_are_exact) {
  // sum of i, each near 2^31, over 5 x 70 elements.
  const Program program = Program::parse(
      "coda 1\nprogram p(i: i32[m, n]) -> all: i64[], row: i64[m] {\n  all = sum[](i)\n  row = "
      "sum[m](i)\n}\n");
  TestCall call(program, {5, 70});
  call.fill("i", [](int64_t i, int64_t j) { return 2147483647.0 - double(70 * i + j); });
  call.run();
  int64_t all = 0;
  for (int64_t e = 0; e < 350; ++e) all += 2147483647 - e;
  EXPECT_EQ(call.at("all", 0), double(all));
}

}  // namespace
}  // namespace coda::test
