// SPDX-License-Identifier: Apache-2.0
// What bind() makes of good calls. Refused ones are in tests/refused.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>

#include "call/divisibility.h"
#include "support/test_call.h"

namespace coda::test {
namespace {

constexpr const char* kSum =
    "coda 1\nprogram add(a: acc, x: T[m, n], w: T[n]) -> y: T[m, n] {\n  y = a + x * w\n}\n";

BoundCall bound(const TestCall& call) { return bind(call.instance(), call.arguments(), {}); }

TEST(Bind, takes_m_n_and_k_from_the_product) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  const BoundCall result = bound(call);
  EXPECT_EQ(result.m, 5);
  EXPECT_EQ(result.n, 24);
  EXPECT_EQ(result.products[0][0].k, 7);
  EXPECT_EQ(result.symbols, (std::vector<int64_t>{24, 5}));
}

TEST(Bind, keeps_strides_of_padded_and_transposed_views) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.view("x") = call.matrix(5, 24, DType::f32, {}, 31);
  call.view("y") = transposed(call.matrix(24, 5, DType::f32, {}, 9));
  const BoundCall result = bound(call);
  EXPECT_EQ(result.inputs[1].segments[0].view.row_stride, 31);
  EXPECT_EQ(result.inputs[1].segments[0].view.column_stride, 1);
  EXPECT_EQ(result.outputs[0].segments[0].view.row_stride, 1);
  EXPECT_EQ(result.outputs[0].segments[0].view.column_stride, 9);
}

TEST(Bind, gives_a_vector_stride_0_along_the_dimension_it_lacks) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.view("w") = call.vector(24, DType::f32, {}, 3);
  const Binding w = bound(call).inputs[2];
  EXPECT_EQ(w.rows, 1);
  EXPECT_EQ(w.columns, 24);
  EXPECT_EQ(w.segments[0].view.row_stride, 0);
  EXPECT_EQ(w.segments[0].view.column_stride, 3);
}

TEST(Bind, allows_inputs_of_stride_zero_and_inputs_that_share_memory) {
  TestCall call(Program::parse(kSum), {24, 24, 24});
  call.view("x") = call.products["a"][0].a;
  call.products["a"][0].b = {call.products["a"][0].a};
  EXPECT_NO_THROW(bound(call));
  call.view("x").strides[0] = 0;
  EXPECT_NO_THROW(bound(call));
}

TEST(Bind, puts_weights_side_by_side_and_drops_the_empty_ones) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.products["a"][0].b = {call.matrix(16, 7, DType::f32, {}), call.matrix(0, 7, DType::f32, {}),
                             call.matrix(8, 7, DType::f32, {}, 50)};
  const BoundCall result = bound(call);
  const std::vector<Segment>& segments = result.products[0][0].b.segments;
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].begin, 0);
  EXPECT_EQ(segments[0].end, 16);
  EXPECT_EQ(segments[1].begin, 16);
  EXPECT_EQ(segments[1].end, 24);
  EXPECT_EQ(segments[1].view.row_stride, 50);
}

TEST(Bind, puts_tensors_side_by_side_along_rows_and_columns) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.tensors["x"] = {Axis::rows,
                       {call.matrix(2, 24, DType::f32, {}), call.matrix(3, 24, DType::f32, {})}};
  call.tensors["y"] = {Axis::columns,
                       {call.matrix(5, 10, DType::f32, {}), call.matrix(5, 14, DType::f32, {})}};
  const BoundCall result = bound(call);
  EXPECT_EQ(result.inputs[1].axis, Axis::rows);
  EXPECT_EQ(result.inputs[1].rows, 5);
  EXPECT_EQ(result.outputs[0].columns, 24);
  EXPECT_EQ(result.outputs[0].segments[1].begin, 10);
}

TEST(Bind, sums_products_of_different_k) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.products["a"].push_back(
      {call.matrix(5, 0, DType::f32, {}), {call.matrix(24, 0, DType::f32, {})}});
  call.products["a"].push_back(
      {call.matrix(5, 33, DType::f32, {}), {call.matrix(24, 33, DType::f32, {})}});
  const BoundCall result = bound(call);
  ASSERT_EQ(result.products[0].size(), 3u);
  EXPECT_EQ(result.products[0][1].k, 0);
  EXPECT_EQ(result.products[0][2].k, 33);
}

TEST(Bind, operands_may_have_another_type_than_t) {
  TestCall call(Program::parse(kSum), {5, 24, 7}, DType::bf16);
  call.products["a"] = {{call.matrix(5, 7, DType::f16, {}), {call.matrix(24, 7, DType::f16, {})}}};
  EXPECT_EQ(bound(call).products[0][0].a.segments[0].view.dtype, DType::f16);
}

TEST(Bind, an_output_tile_may_be_the_very_view_of_an_input_tile) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  call.view("y") = call.view("x");
  EXPECT_NO_THROW(bound(call));
  const TensorView left = call.matrix(5, 10, DType::f32, {}),
                   right = call.matrix(5, 14, DType::f32, {});
  call.tensors["x"] = call.tensors["y"] = {Axis::columns, {left, right}};
  EXPECT_NO_THROW(bound(call));
  call.tensors["y"].segments = {right, left};
  EXPECT_THROW(bound(call), Error);
}

TEST(Bind, slices_of_one_packed_matrix_may_be_input_and_output) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  const TensorView packed = call.matrix(5, 48, DType::f32, {});
  for (const char* name : {"x", "y"}) {
    call.view(name) = packed;
    call.view(name).shape[1] = 24;
  }
  call.view("y").data = static_cast<float*>(packed.data) + 24;
  EXPECT_NO_THROW(bound(call));
  call.view("y").data = static_cast<float*>(packed.data) + 23;
  EXPECT_THROW(bound(call), Error);
}

TEST(Bind, sizes_of_zero_are_calls_too) {
  for (const Sizes sizes : {Sizes{0, 24, 7}, Sizes{5, 0, 7}, Sizes{5, 24, 0}, Sizes{0, 0, 0}}) {
    TestCall call(Program::parse(kSum), sizes);
    for (auto& [name, tensor] : call.tensors)
      if (sizes.m * sizes.n == 0 && name != "w") tensor.segments[0].data = nullptr;
    const BoundCall result = bound(call);
    EXPECT_EQ(result.m, sizes.m);
    EXPECT_EQ(result.n, sizes.n);
  }
}

TEST(Bind, an_extent_that_nothing_varies_along_is_one) {
  const char* text = "coda 1\nprogram half(x: f32[m]) -> y: f32[m] {\n  y = x / 2\n}\n";
  TestCall call(Program::parse(text), {5, 1});
  const BoundCall result = bound(call);
  EXPECT_EQ(result.m, 5);
  EXPECT_EQ(result.n, 1);
}

TEST(Bind, sizes_tell_what_no_tensor_does) {
  const char* text = "coda 1\nprogram count() -> total: i64[] {\n  total = sum[](m - n)\n}\n";
  TestCall call(Program::parse(text), {1, 1});
  call.sizes = {5, 24};
  EXPECT_EQ(bound(call).n, 24);
}

TEST(Bind, numbers_are_rounded_as_the_program_sees_them) {
  const char* text =
      "coda 1\nprogram f(x: T[m, n], s: f32, i: i64) -> y: T[m, n] {\n  y = x * s + i\n}\n";
  TestCall call(Program::parse(text), {2, 2});
  call.scalars = {{"s", 0.1}, {"i", -9007199254740992.0}};
  const BoundCall result = bound(call);
  EXPECT_TRUE(std::isnan(result.scalars[0]));
  EXPECT_EQ(result.scalars[1], static_cast<double>(0.1f));
  EXPECT_EQ(result.scalars[2], -9007199254740992.0);
}

TEST(Bind, sizes_beyond_32_bits_are_exact) {
  // 2^17 x 2^15 products of K = 2^15: no size fits 32 bits when multiplied.
  TestCall call(Program::parse(kSum), {1, 1, 1});
  const int64_t m = int64_t{1} << 33, n = int64_t{1} << 17, k = int64_t{1} << 15;
  call.products["a"] = {
      {matrix_view(nullptr, m, k, DType::f32), {matrix_view(nullptr, n, k, DType::f32)}}};
  call.view("x") = call.view("y") = matrix_view(nullptr, m, n, DType::f32);
  call.view("w") = vector_view(nullptr, n, DType::f32);
  const BoundCall result = bind(call.instance(), call.arguments(), {}, Memory::may_be_null);
  EXPECT_EQ(result.m * result.n, int64_t{1} << 50);
  EXPECT_EQ(result.outputs[0].segments[0].view.row_stride, n);
}

TEST(Bind, reads_and_writes_no_memory) {
  TestCall call(Program::parse(kSum), {5, 24, 7});
  for (auto& [name, tensor] : call.tensors)
    tensor.segments[0].data = reinterpret_cast<void*>(0x1000 + 0x10000 * name[0]);
  EXPECT_NO_THROW(bound(call));
}

TEST(Bind, a_mean_over_a_repeating_place_has_as_many_columns_for_each) {
  const auto bind_with = [](const char* reduction, int64_t n) {
    const std::string text =
        "coda 1\nprogram p(x: f32[m, n]) -> y: f32[n % 4] {\n  y = " + std::string(reduction) +
        "[n % 4](x)\n}\n";
    TestCall call(Program::parse(text), {3, n});
    return bound(call).n;
  };
  EXPECT_EQ(bind_with("mean", 24), 24);
  EXPECT_THROW(bind_with("mean", 22), Error);
  EXPECT_EQ(bind_with("sum", 22), 22);
}

TEST(Seams, lie_between_groups_and_pairs_of_every_width) {
  const char* text = R"(coda 1
program p(both: T[m, 2n], scale: f32[m, n:8]) -> y: T[m, n], z: T[m, n/2] {
  g, u = split(both, 4)
  y = g * u * scale
  z, v = split(y, 2)
}
)";
  const auto with = [&](const char* name, Axis axis, std::vector<int64_t> widths) {
    TestCall call(Program::parse(text), {3, 32});
    std::vector<TensorView> segments;
    for (int64_t width : widths) segments.push_back(call.matrix(3, width, DType::f32, {}));
    call.tensors[name] = {axis, segments};
    return bound(call);
  };
  EXPECT_NO_THROW(with("both", Axis::columns, {16, 48}));     // 8 columns of N
  EXPECT_THROW(with("both", Axis::columns, {8, 56}), Error);  // inside a group of 8
  EXPECT_NO_THROW(with("scale", Axis::columns, {1, 3}));
  EXPECT_NO_THROW(with("z", Axis::columns, {4, 12}));  // 8 columns of N
  EXPECT_THROW(with("z", Axis::columns, {2, 14}), Error);
  EXPECT_THROW(with("y", Axis::columns, {4, 28}), Error);
}

}  // namespace
}  // namespace coda::test
