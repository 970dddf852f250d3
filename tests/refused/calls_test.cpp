// SPDX-License-Identifier: Apache-2.0
// Calls that bind() refuses, each with its whole message. Every row spoils one thing of a good
// call; that the unspoilt calls are good is a test of its own.
#include <coda/error.h>
#include <gtest/gtest.h>

#include "support/test_call.h"

namespace coda::test {
namespace {

constexpr const char* kPrograms = R"(coda 1
program norm(a: acc, residual: T[m, n], w: T[n], eps: f32) -> x: T[m, n], h: T[m, n], rstd: f32[m] {
  x = a + residual
  h = x * w
  rstd = rsqrt(mean[m](x*x) + eps)
}
program rotate<dh>(a: acc, pos: i32[m], freq: f32[n/2 % dh/2]) -> q: T[m, n], amax: f32[m, n:dh] {
  x, y = split(a, dh/2)
  t = pos * freq
  q = join(x*cos(t) - y*sin(t), y*cos(t) + x*sin(t), dh/2)
  amax = max[m, n:dh](abs(a))
}
program gated(gate: acc, up: acc, both: T[m, 2n]) -> y: T[m, n], z: T[m, n/2] {
  g, u = split(both, 1)
  y = gate * up + g * u
  z, v = split(y, 1)
}
program update(p: f32[m, n], g: f32[m, n], step: i32) -> p_new: f32[m, n], total: f32[] {
  p_new = p - g * step
  total = sum[](g)
}
program turn<dh>(a: acc) -> q: T[m, n] {
  x, y = split(a, dh/2)
  q = join(x, -y, dh/2)
}
program halve() -> total: f32[] {
  x, y = split(n, 1)
  total = sum[](x * y)
}
program count() -> total: f32[] {
  total = sum[](m + n)
}
program constant() -> y: f32[m, n] {
  y = m + n
}
)";

struct Refused {
  const char* name;
  const char* program;
  std::function<void(TestCall&)> spoil;
  ErrorKind kind;
  const char* what;
};

void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }

/// M = 5, N = 24, K = 7, dh = 8, T = bf16.
std::unique_ptr<TestCall> good_call(const std::string& program) {
  std::vector<std::pair<std::string, int64_t>> parameters;
  if (program == "rotate" || program == "turn") parameters = {{"dh", 8}};
  auto call = std::make_unique<TestCall>(Program::parse(kPrograms, program), Sizes{5, 24, 7},
                                         DType::bf16, parameters);
  for (auto& [name, terms] : call->products)
    for (TestCall::Term& term : terms) {
      const auto zero = [](int64_t, int64_t) { return 0.25; };
      term.a = call->matrix(5, 7, DType::bf16, zero);
      term.b = {call->matrix(24, 7, DType::bf16, zero)};
    }
  if (program == "update") call->scalars["step"] = 3;
  if (call->products.empty() && program != "update") call->sizes = {5, 24};
  return call;
}

/// Replaces the tensor by one of that shape.
void reshape(TestCall& call, const char* name, int64_t rows, int64_t columns,
             DType type = DType::bf16) {
  call.tensors[name] = {Axis::columns, {call.matrix(rows, columns, type, {})}};
}

void resize(TestCall& call, const char* name, int64_t size, DType type) {
  call.tensors[name] = {Axis::columns, {call.vector(size, type, {})}};
}

/// Cuts the tensor into pieces of those columns.
void cut(TestCall& call, const char* name, std::vector<int64_t> columns) {
  const TensorView whole = call.view(name);
  std::vector<TensorView> pieces;
  int64_t begin = 0;
  for (int64_t width : columns) {
    TensorView piece = whole;
    piece.shape[1] = width;
    piece.data = static_cast<std::byte*>(whole.data) +
                 begin * whole.strides[1] * static_cast<int64_t>(size_of(whole.dtype));
    pieces.push_back(piece);
    begin += width;
  }
  call.tensors[name].segments = pieces;
}

constexpr int64_t kHuge = int64_t{1} << 61;

const Refused kRefused[] = {
    {"a_missing_tensor", "norm", [](TestCall& c) { c.tensors.erase("w"); }, ErrorKind::argument,
     "[norm] argument 'w': expected a tensor T[n], got none; fix: pass it with tensor(\"w\", "
     "view)"},
    {"a_missing_output", "norm", [](TestCall& c) { c.tensors.erase("rstd"); }, ErrorKind::argument,
     "[norm] argument 'rstd': expected a tensor f32[m], got none; fix: pass it with "
     "tensor(\"rstd\", view)"},
    {"a_missing_number", "norm", [](TestCall& c) { c.scalars.erase("eps"); }, ErrorKind::argument,
     "[norm] argument 'eps': expected a number f32, got none; fix: pass it with scalar(\"eps\", "
     "value)"},
    {"a_missing_product", "norm", [](TestCall& c) { c.products.erase("a"); }, ErrorKind::argument,
     "[norm] argument 'a': expected a product of matrices, got none; fix: pass it with "
     "product(\"a\", a, b)"},
    {"a_misspelt_tensor", "norm", [](TestCall& c) { c.tensors["residul"] = c.tensors["residual"]; },
     ErrorKind::argument,
     "[norm] argument 'residul': expected the name of an argument, got an unknown name; fix: did "
     "you mean 'residual'?"},
    {"a_name_like_no_other", "norm", [](TestCall& c) { c.scalars["temperature"] = 1; },
     ErrorKind::argument,
     "[norm] argument 'temperature': expected the name of an argument, got an unknown name; fix: "
     "the names are a, residual, w, eps, x, h, rstd"},
    {"a_tensor_given_as_a_number", "norm", [](TestCall& c) { c.scalars["w"] = 1; },
     ErrorKind::argument,
     "[norm] argument 'w': expected a tensor, got a number; fix: pass it with tensor(\"w\", view)"},
    {"a_number_given_as_a_tensor", "norm",
     [](TestCall& c) { c.tensors["eps"] = c.tensors["rstd"]; }, ErrorKind::argument,
     "[norm] argument 'eps': expected a number, got a tensor; fix: pass it with scalar(\"eps\", "
     "value)"},
    {"an_output_given_as_a_product", "norm", [](TestCall& c) { c.products["x"] = c.products["a"]; },
     ErrorKind::argument,
     "[norm] argument 'x': expected a tensor, got a product; fix: pass it with tensor(\"x\", "
     "view)"},
    {"a_vector_for_a_matrix", "norm", [](TestCall& c) { resize(c, "residual", 120, DType::bf16); },
     ErrorKind::shape,
     "[norm] argument 'residual': expected a matrix (rank 2), got rank 1; fix: pass a view of that "
     "rank"},
    {"a_matrix_for_a_number_in_memory", "update",
     [](TestCall& c) { reshape(c, "total", 1, 1, DType::f32); }, ErrorKind::shape,
     "[update] argument 'total': expected a number in memory (rank 0), got rank 2; fix: pass a "
     "view of that rank"},
    {"other_rows_than_the_product", "norm", [](TestCall& c) { reshape(c, "residual", 6, 24); },
     ErrorKind::shape,
     "[norm] argument 'residual': expected M = 5 as 'a' tells, got M = 6; fix: make the shapes of "
     "the arguments agree"},
    {"other_columns_than_the_product", "norm", [](TestCall& c) { resize(c, "w", 25, DType::bf16); },
     ErrorKind::shape,
     "[norm] argument 'w': expected N = 24 as 'a' tells, got N = 25; fix: make the shapes of the "
     "arguments agree"},
    {"other_columns_of_half_width", "gated", [](TestCall& c) { reshape(c, "z", 5, 13); },
     ErrorKind::shape,
     "[gated] argument 'z': expected N = 24 as 'gate' tells, got N = 26, told by 13 columns; fix: "
     "make the shapes of the arguments agree"},
    {"odd_columns_of_double_width", "gated", [](TestCall& c) { reshape(c, "both", 5, 47); },
     ErrorKind::shape,
     "[gated] argument 'both': expected an even number of columns, 2n, got 47; fix: pass both "
     "halves"},
    {"a_table_of_another_period", "rotate", [](TestCall& c) { resize(c, "freq", 12, DType::f32); },
     ErrorKind::shape,
     "[rotate] argument 'freq': expected 4 elements (dh/2), got 12; fix: pass one period of the "
     "repeating table"},
    {"another_number_of_groups", "rotate",
     [](TestCall& c) { reshape(c, "amax", 5, 4, DType::f32); }, ErrorKind::shape,
     "[rotate] argument 'amax': expected N = 24 as 'a' tells, got N = 32, told by 4 columns; fix: "
     "make the shapes of the arguments agree"},
    {"columns_that_pairs_do_not_divide", "turn",
     [](TestCall& c) {
       c.products["a"][0].b = {c.matrix(20, 7, DType::bf16, {})};
       reshape(c, "q", 5, 20);
     },
     ErrorKind::shape,
     "[turn]: expected n a multiple of 8, as split(..., dh/2) needs, got 20 columns; fix: choose "
     "sizes that divide the columns exactly"},
    {"odd_columns_where_halves_occur", "halve",
     [](TestCall& c) {
       c.sizes = {5, 23};
     },
     ErrorKind::shape,
     "[halve]: expected an even N, since values of width n/2 occur, got N = 23; fix: choose a "
     "number of columns that 2 divides"},
    {"sizes_that_disagree", "constant",
     [](TestCall& c) {
       c.sizes = {5, 25};
     },
     ErrorKind::shape,
     "[constant] argument 'y': expected N = 25 as sizes() tells, got N = 24; fix: make the shapes "
     "of the arguments agree"},
    {"sizes_below_zero", "constant",
     [](TestCall& c) {
       c.sizes = {-5, 24};
     },
     ErrorKind::shape,
     "[constant]: expected sizes of at least 0, got sizes(-5, 24); fix: pass the real sizes"},
    {"another_type_than_declared", "norm", [](TestCall& c) { resize(c, "rstd", 5, DType::bf16); },
     ErrorKind::dtype,
     "[norm] argument 'rstd': expected f32, got bf16; fix: convert the tensor, or change the "
     "declaration"},
    {"another_type_than_t", "norm", [](TestCall& c) { resize(c, "w", 24, DType::f32); },
     ErrorKind::dtype,
     "[norm] argument 'w': expected bf16, got f32; fix: convert the tensor, or compile with "
     "another type T"},
    {"wide_positions", "rotate", [](TestCall& c) { resize(c, "pos", 5, DType::i64); },
     ErrorKind::dtype,
     "[rotate] argument 'pos': expected i32, got i64; fix: convert the tensor, or change the "
     "declaration"},
    {"operands_of_an_integer_type", "norm",
     [](TestCall& c) { c.products["a"][0].a = c.matrix(5, 7, DType::i32, {}); }, ErrorKind::dtype,
     "[norm] argument 'a', product 0, operand A: expected f32, bf16 or f16, got i32; fix: convert "
     "the operands"},
    {"operands_of_two_types", "norm",
     [](TestCall& c) { c.products["a"][0].b = {c.matrix(24, 7, DType::f32, {})}; },
     ErrorKind::dtype,
     "[norm] argument 'a', product 0, operand B: expected bf16, got f32; fix: convert it to the "
     "type of the first operand A"},
    {"products_of_two_types", "norm",
     [](TestCall& c) {
       c.products["a"].push_back(
           {c.matrix(5, 3, DType::f16, {}), {c.matrix(24, 3, DType::f16, {})}});
     },
     ErrorKind::dtype,
     "[norm] argument 'a', product 1, operand A: expected bf16, got f16; fix: convert it to the "
     "type of the first operand A"},
    {"operands_of_another_k", "norm",
     [](TestCall& c) { c.products["a"][0].b = {c.matrix(24, 8, DType::bf16, {})}; },
     ErrorKind::shape,
     "[norm] argument 'a', product 0, operand B: expected K = 7 columns as operand A has, got 8; "
     "fix: pass B as [N, K]; transposed(view) exchanges the two"},
    {"a_second_product_of_other_rows", "norm",
     [](TestCall& c) {
       c.products["a"].push_back(
           {c.matrix(4, 3, DType::bf16, {}), {c.matrix(24, 3, DType::bf16, {})}});
     },
     ErrorKind::shape,
     "[norm] argument 'a', product 1, operand A: expected M = 5 as 'a' tells, got M = 4; fix: make "
     "the shapes of the arguments agree"},
    {"weights_that_do_not_fill_n", "norm",
     [](TestCall& c) {
       c.products["a"][0].b = {c.matrix(16, 7, DType::bf16, {}), c.matrix(7, 7, DType::bf16, {})};
     },
     ErrorKind::shape,
     "[norm] argument 'residual': expected N = 23 as 'a' tells, got N = 24; fix: make the shapes "
     "of the arguments agree"},
    {"weights_of_two_k", "norm",
     [](TestCall& c) {
       c.products["a"][0].b = {c.matrix(16, 7, DType::bf16, {}), c.matrix(8, 6, DType::bf16, {})};
     },
     ErrorKind::shape,
     "[norm] argument 'a', product 0, operand B, segment 1: expected 7 columns as in segment 0, "
     "got 6; fix: give segments of one height or width"},
    {"two_accumulators_of_two_widths", "gated",
     [](TestCall& c) { c.products["up"][0].b = {c.matrix(26, 7, DType::bf16, {})}; },
     ErrorKind::shape,
     "[gated] argument 'up', product 0, operand B: expected N = 24 as 'gate' tells, got N = 26; "
     "fix: make the shapes of the arguments agree"},
    {"no_weight_at_all", "norm", [](TestCall& c) { c.products["a"][0].b.clear(); },
     ErrorKind::argument,
     "[norm] argument 'a', product 0, operand B: expected at least one segment, got none; fix: "
     "pass the tensors side by side"},
    {"weights_cut_inside_a_pair", "rotate",
     [](TestCall& c) {
       c.products["a"][0].b = {c.matrix(12, 7, DType::bf16, {}), c.matrix(12, 7, DType::bf16, {})};
     },
     ErrorKind::shape,
     "[rotate] argument 'a', segment 1: expected segments that split(..., dh/2) does not reach "
     "across (8 columns belong together), got a seam at column 12; fix: cut the segments at "
     "multiples of it"},
    {"an_output_cut_inside_a_group", "rotate",
     [](TestCall& c) {
       cut(c, "q", {16, 4, 4});
     },
     ErrorKind::shape,
     "[rotate] argument 'q', segment 2: expected segments that split(..., dh/2) does not reach "
     "across (8 columns belong together), got a seam at column 20; fix: cut the segments at "
     "multiples of it"},
    {"a_double_width_tensor_cut_at_an_odd_column", "gated",
     [](TestCall& c) {
       cut(c, "both", {23, 25});
     },
     ErrorKind::shape,
     "[gated] argument 'both', segment 1: expected segments of an even width, got a seam at column "
     "23; fix: cut between whole columns of N"},
    {"segments_of_two_heights", "norm",
     [](TestCall& c) {
       c.tensors["residual"] = {
           Axis::columns, {c.matrix(5, 12, DType::bf16, {}), c.matrix(4, 12, DType::bf16, {})}};
     },
     ErrorKind::shape,
     "[norm] argument 'residual', segment 1: expected 5 rows as in segment 0, got 4; fix: give "
     "segments of one height or width"},
    {"a_row_vector_cut_along_rows", "norm",
     [](TestCall& c) {
       c.tensors["w"] = {Axis::rows,
                         {c.vector(12, DType::bf16, {}), c.vector(12, DType::bf16, {})}};
     },
     ErrorKind::shape,
     "[norm] argument 'w': expected one tensor, since it has no rows to cut, got 2 segments; fix: "
     "pass one tensor, or name the other axis"},
    {"an_extent_below_zero", "norm", [](TestCall& c) { c.view("residual").shape[0] = -5; },
     ErrorKind::shape,
     "[norm] argument 'residual': expected extents of at least 0, got -5; fix: pass the real "
     "shape"},
    {"a_stride_below_zero", "norm", [](TestCall& c) { c.view("residual").strides[0] = -24; },
     ErrorKind::shape,
     "[norm] argument 'residual': expected strides of at least 0, got -24; fix: copy the tensor "
     "into ascending order"},
    {"a_null_pointer", "norm", [](TestCall& c) { c.view("w").data = nullptr; }, ErrorKind::argument,
     "[norm] argument 'w': expected memory, got a null pointer; fix: pass the tensor's data"},
    {"an_address_inside_an_element", "norm",
     [](TestCall& c) { c.view("w").data = static_cast<std::byte*>(c.view("w").data) + 1; },
     ErrorKind::argument,
     "[norm] argument 'w': expected an address that is a multiple of 2, the size of bf16, got 1 "
     "bytes beyond one; fix: start the tensor at a whole element"},
    {"memory_of_another_device", "norm",
     [](TestCall& c) {
       c.view("w").device = {Device::Kind::cuda, 1};
     },
     ErrorKind::argument,
     "[norm] argument 'w': expected memory of cpu, got memory of cuda:1; fix: copy the tensor to "
     "the kernel's device"},
    {"a_view_beyond_64_bits", "norm", [](TestCall& c) { c.view("residual").strides[0] = kHuge; },
     ErrorKind::shape,
     "[norm] argument 'residual': expected a view that ends below 2^63 bytes, got 5 x 24 elements "
     "of strides 2305843009213693952, 1; fix: use smaller sizes or strides"},
    {"a_volume_beyond_64_bits", "constant",
     [](TestCall& c) {
       c.sizes = {kHuge, kHuge};
       c.view("y").shape[0] = kHuge, c.view("y").shape[1] = kHuge;
       c.view("y").strides[0] = 0, c.view("y").strides[1] = 0;
     },
     ErrorKind::shape,
     "[constant]: expected M * N below 2^59 elements, got 2305843009213693952 * "
     "2305843009213693952; fix: use smaller sizes"},
    {"an_output_of_stride_zero", "norm", [](TestCall& c) { c.view("x").strides[0] = 0; },
     ErrorKind::argument,
     "[norm] argument 'x': expected an address of its own for each element of an output, got "
     "strides 0, 1 that repeat addresses; fix: pass a view whose elements do not share memory"},
    {"an_output_whose_rows_overlap", "norm", [](TestCall& c) { c.view("x").strides[0] = 23; },
     ErrorKind::argument,
     "[norm] argument 'x': expected an address of its own for each element of an output, got "
     "strides 23, 1 that repeat addresses; fix: pass a view whose elements do not share memory"},
    {"two_outputs_of_one_memory", "norm", [](TestCall& c) { c.view("h") = c.view("x"); },
     ErrorKind::argument,
     "[norm] argument 'h': expected memory that nothing else of the call uses, got memory shared "
     "with output 'x'; fix: give it its own memory"},
    {"an_output_over_an_operand", "norm",
     [](TestCall& c) { c.products["a"][0].a.data = c.view("x").data; }, ErrorKind::argument,
     "[norm] argument 'x': expected memory that nothing else of the call uses, got memory shared "
     "with input 'a'; fix: give it its own memory"},
    {"an_output_shifted_against_its_input", "norm",
     [](TestCall& c) { c.view("x").data = static_cast<std::byte*>(c.view("residual").data) + 48; },
     ErrorKind::argument,
     "[norm] argument 'x': expected memory that nothing else of the call uses, got memory shared "
     "with input 'residual'; fix: give it its own memory, or the very view of one input tile (an "
     "update in place)"},
    {"an_update_with_another_pitch", "update",
     [](TestCall& c) {
       c.tensors["p"] = {Axis::columns, {c.matrix(5, 24, DType::f32, {}, 48)}};
       c.view("p_new").data = c.view("p").data;
     },
     ErrorKind::argument,
     "[update] argument 'p_new': expected memory that nothing else of the call uses, got memory "
     "shared with input 'p'; fix: give it its own memory, or the very view of one input tile (an "
     "update in place)"},
    {"an_update_of_two_inputs_at_once", "update",
     [](TestCall& c) {
       c.view("g") = c.view("p");
       c.view("p_new") = c.view("p");
     },
     ErrorKind::argument,
     "[update] argument 'p_new': expected memory that nothing else of the call uses, got memory "
     "shared with input 'g'; fix: give it its own memory, or the very view of one input tile (an "
     "update in place)"},
    {"a_vector_output_over_its_input", "norm",
     [](TestCall& c) {
       c.view("residual").data = c.allocate(4096);
       c.view("rstd").data = c.view("residual").data;
     },
     ErrorKind::argument,
     "[norm] argument 'rstd': expected memory that nothing else of the call uses, got memory "
     "shared with input 'residual'; fix: give it its own memory"},
    {"a_fraction_for_an_integer", "update", [](TestCall& c) { c.scalars["step"] = 1.5; },
     ErrorKind::argument,
     "[update] argument 'step': expected an integer that i32 holds, got 1.5; fix: pass a whole "
     "number in range"},
    {"an_integer_out_of_range", "update", [](TestCall& c) { c.scalars["step"] = 3e9; },
     ErrorKind::argument,
     "[update] argument 'step': expected an integer that i32 holds, got 3000000000; fix: pass a "
     "whole number in range"},
    {"sizes_that_nothing_tells", "count", [](TestCall& c) { c.sizes.reset(); }, ErrorKind::argument,
     "[count]: expected arguments that tell M, the number of rows, got none that does; fix: give "
     "both with sizes(M, N)"},
};

class RefusedCalls : public testing::TestWithParam<Refused> {};

TEST_P(RefusedCalls, says_what_was_expected_and_how_to_fix_it) {
  const Refused& row = GetParam();
  const auto call = good_call(row.program);
  row.spoil(*call);
  try {
    bind(call->instance(), call->arguments(), {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), row.what);
    EXPECT_STREQ(name_of(error.kind()), name_of(row.kind));
    EXPECT_STRNE(error.fix(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, RefusedCalls, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GoodCalls, are_accepted_before_they_are_spoilt) {
  for (const char* program :
       {"norm", "rotate", "gated", "update", "turn", "halve", "count", "constant"}) {
    const auto call = good_call(program);
    const BoundCall bound = bind(call->instance(), call->arguments(), {});
    EXPECT_EQ(bound.m, 5) << program;
    EXPECT_EQ(bound.n, 24) << program;
  }
}

}  // namespace
}  // namespace coda::test
