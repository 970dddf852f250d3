// SPDX-License-Identifier: Apache-2.0
// The CPU backend against plain float64 loops, the float64 reference, and itself: other numbers of
// threads, instruction sets, mainloops, fused and unfused.
#include <cmath>
#include <limits>
#include <random>

#include "base/convert.h"
#include "cpu/variants.h"

namespace coda::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Program parse(const std::string& body) { return Program::parse("coda 1\n" + body + "\n"); }

/// Values that no instruction set or order of sums rounds: products of small integers.
double small_integer(int64_t i, int64_t j) { return static_cast<double>((5 * i + 3 * j) % 7 - 3); }

/// |got - expected| within one ulp of bf16 and float32 noise.
void expect_close(double got, double expected, DType type, const std::string& what) {
  const double ulp = type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : 0x1p-20;
  EXPECT_NEAR(got, expected, ulp * std::abs(expected) + 1e-5) << what;
}

TEST(CpuBackend, residual_rms_is_what_plain_loops_give) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const int64_t m = 133, n = 300, k = 70;
    TestCall call(library("norm.coda", "residual_rms"), {m, n, k}, type);
    call.scalars["eps"] = 1e-3;
    call.run();
    const auto& product = call.products.at("a")[0];
    for (int64_t i = 0; i < m; i += 11) {
      double squares = 0;
      for (int64_t j = 0; j < n; ++j) {
        double x = load(call.view("residual"), i, j);
        for (int64_t l = 0; l < k; ++l) x += load(product.a, i, l) * load(product.b[0], j, l);
        squares += x * x;
        expect_close(call.at("x", i, j), x, type, "x");
        expect_close(call.at("h", i, j), x * load(call.view("w"), j, 0), type, "h");
      }
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-3);
      EXPECT_NEAR(call.at("rstd", i), rstd, 1e-5 * rstd);
    }
  }
}

TEST(CpuBackend, swiglu_is_what_plain_loops_give) {
  const int64_t m = 65, n = 130, k = 33;
  TestCall call(library("activation.coda", "rmsnorm_swiglu"), {m, n, k}, DType::f32);
  call.run();
  const auto dot = [&](const char* name, int64_t i, int64_t j) {
    const auto& product = call.products.at(name)[0];
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) sum += load(product.a, i, l) * load(product.b[0], j, l);
    return sum * load(call.view("rstd"), i, 0);
  };
  for (int64_t i = 0; i < m; i += 7)
    for (int64_t j = 0; j < n; ++j) {
      const double g = dot("gate", i, j), u = dot("up", i, j);
      expect_close(call.at("y", i, j), g / (1 + std::exp(-g)) * u, DType::f32, "y");
    }
}

TEST(CpuBackend, rope_is_what_plain_loops_give_at_large_positions) {
  const int64_t m = 9, n = 192, k = 16, dh = 32, rot = 128;
  TestCall call(library("rope.coda", "rope"), {m, n, k}, DType::f32, {{"dh", dh}, {"rot", rot}});
  call.fill("pos",
            [](int64_t i, int64_t) { return static_cast<double>((int64_t{1} << 20) - 3 * i); });
  call.fill("freq",
            [](int64_t j, int64_t) { return std::pow(10000.0, -static_cast<double>(j) / 16); });
  call.run();
  const auto& product = call.products.at("a")[0];
  const auto a = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) sum += load(product.a, i, l) * load(product.b[0], j, l);
    return sum;
  };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t head = 0; head < n / dh; ++head)
      for (int64_t j = 0; j < dh / 2; ++j) {
        const int64_t left = head * dh + j, right = left + dh / 2;
        double x = a(i, left), y = a(i, right);
        if (left < rot) {
          const double angle = load(call.view("pos"), i, 0) * load(call.view("freq"), j, 0);
          const double turned = x * std::cos(angle) - y * std::sin(angle);
          y = y * std::cos(angle) + x * std::sin(angle), x = turned;
        }
        EXPECT_NEAR(call.at("qkv", i, left), x, 2e-5);
        EXPECT_NEAR(call.at("qkv", i, right), y, 2e-5);
      }
}

TEST(CpuBackend, every_kept_set_of_a_sum_is_what_plain_loops_give) {
  const int64_t m = 141, n = 384, group = 32, period = 48;
  TestCall call(
      parse("program p(x: f32[m, n]) -> a: f32[m], b: f32[n], c: f32[n:32], d: f32[n % 48],\n"
            "    e: f32[m, n % 48], f: f32[m, n:32], g: f32[], h: f32[n] {\n"
            "  a = sum[m](x); b = sum[n](x); c = sum[n:32](x); d = sum[n % 48](x)\n"
            "  e = sum[m, n % 48](x); f = sum[m, n:32](x); g = sum[](x); h = max[n](x)\n}"),
      {m, n}, DType::f32);
  call.run();
  std::vector<double> a(m), b(n), c(n / group), d(period), e(m * period), f(m * n / group),
      h(n, -kInfinity);
  double g = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double x = load(call.view("x"), i, j);
      a[i] += x, b[j] += x, c[j / group] += x, d[j % period] += x, e[i * period + j % period] += x;
      f[i * (n / group) + j / group] += x, g += x, h[j] = std::max(h[j], x);
    }
  for (int64_t i = 0; i < m; ++i) EXPECT_FLOAT_EQ(call.at("a", i), a[i]);
  for (int64_t j = 0; j < n; ++j) EXPECT_FLOAT_EQ(call.at("b", j), b[j]);
  for (int64_t j = 0; j < n; ++j) EXPECT_FLOAT_EQ(call.at("h", j), h[j]);
  for (int64_t j = 0; j < n / group; ++j) EXPECT_FLOAT_EQ(call.at("c", j), c[j]);
  for (int64_t j = 0; j < period; ++j) EXPECT_FLOAT_EQ(call.at("d", j), d[j]);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < period; ++j) EXPECT_FLOAT_EQ(call.at("e", i, j), e[i * period + j]);
    for (int64_t j = 0; j < n / group; ++j)
      EXPECT_FLOAT_EQ(call.at("f", i, j), f[i * (n / group) + j]);
  }
  EXPECT_FLOAT_EQ(call.at("g", 0), g);
}

TEST(CpuBackend, every_reduction_of_every_kept_set_agrees_with_the_reference) {
  for (const char* op : {"sum", "max", "min", "mean", "logsumexp", "argmax", "moments"}) {
    const bool index = std::string(op) == "argmax", two = std::string(op) == "moments";
    for (const char* kept : {"m", "n", "n:16", "n % 24", "m, n % 24", "m, n:16", ""}) {
      const std::string type = index ? "i64[" : "f32[", dims = std::string("[") + kept + "]";
      std::string text = "program p(a: acc, x: T[m, n]) -> r: " + type + kept + "]";
      if (two) text += ", s: f32[" + std::string(kept) + "]";
      text += std::string(" {\n  r") + (two ? ", s" : "") + " = " + op + dims + "(a - 2 * x)\n}";
      for (const Sizes& sizes : {Sizes{131, 336, 5}, Sizes{1, 48, 3}, Sizes{5, 1056, 2}}) {
        SCOPED_TRACE(text);
        TestCall call(parse(text), sizes, DType::bf16);
        call.run();
        call.fused = false, call.threads = 2;
        call.run();
      }
    }
  }
}

TEST(CpuBackend, integers_reduce_exactly) {
  TestCall call(
      parse("program p(t: i64[m, n]) -> s: i64[m], l: i64[n], h: i64[], at: i64[m], c: i32[n:8] {\n"
            "  s = sum[m](t); l = min[n](t); h = max[](t); at = argmax[m](t); c = sum[n:8](t % 7 > "
            "3)\n}"),
      {37, 272});
  std::mt19937_64 random(5);
  call.fill("t", [](int64_t, int64_t) { return 0.0; });
  for (int64_t i = 0; i < 37; ++i)
    for (int64_t j = 0; j < 272; ++j)
      static_cast<int64_t*>(call.view("t").data)[i * 272 + j] =
          static_cast<int64_t>(random() >> 10);
  launch(call, {});
  for (int64_t i = 0; i < 37; ++i) {
    const int64_t* row = static_cast<int64_t*>(call.view("t").data) + i * 272;
    int64_t sum = 0, top = 0;
    for (int64_t j = 0; j < 272; ++j) sum += row[j], top = row[j] > row[top] ? j : top;
    EXPECT_EQ(static_cast<int64_t*>(call.view("s").data)[i], sum);
    EXPECT_EQ(static_cast<int64_t*>(call.view("at").data)[i], top);
  }
}

TEST(CpuBackend, values_that_lack_rows_or_columns_reduce_over_the_elements_they_have) {
  TestCall call(
      parse("program p(x: T[m, n], v: f32[m], w: f32[n], t: f32[n % 4]) -> y: T[m, n], a: f32[],\n"
            "    b: f32[], c: f32[], d: f32[n], e: f32[m] {\n"
            "  y = x; a = sum[](v); b = sum[](w); c = sum[](t); d = sum[n](v)\n"
            "  e = mean[m](v * t)\n}"),
      {300, 520}, DType::bf16);
  call.run();
}

TEST(CpuBackend, reductions_of_nothing_have_their_values) {
  const Program program = parse(
      "program p(a: acc) -> y: f32[m, n], s: f32[n], h: f32[n], l: f32[n], z: f32[n], k: f32[n], "
      "i: i64[n],\n"
      "    mu: f32[n], v: f32[n] {\n"
      "  y = a; s = sum[n](a); h = max[n](a); l = min[n](a); z = logsumexp[n](a); k = mean[n](a)\n"
      "  i = argmax[n](a); mu, v = moments[n](a)\n}");
  TestCall call(program, {0, 40, 8});
  call.run();
  EXPECT_EQ(call.at("s", 0), 0);
  EXPECT_EQ(call.at("h", 39), -kInfinity);
  EXPECT_EQ(call.at("l", 3), kInfinity);
  EXPECT_EQ(call.at("z", 3), -kInfinity);
  EXPECT_TRUE(std::isnan(call.at("k", 3)));
  EXPECT_TRUE(std::isnan(call.at("mu", 3)) && std::isnan(call.at("v", 3)));
  EXPECT_EQ(call.at("i", 3), -1);
}

TEST(CpuBackend, special_values_pass_through_reductions) {
  TestCall call(
      parse("program p(x: f32[m, n]) -> z: f32[m], h: f32[m], l: f32[m], i: i64[m], c: f32[n] {\n"
            "  z = logsumexp[m](x); h = max[m](x); l = min[m](x); i = argmax[m](x); c = "
            "logsumexp[n](x)\n}"),
      {4, 40});
  call.fill("x", [](int64_t i, int64_t j) {
    if (i == 0) return -kInfinity;
    if (i == 1) return j == 7 ? kInfinity : 0.0;
    if (i == 2) return j == 9 || j == 20 ? std::nan("") : j == 3 ? kInfinity : 1.0;
    return 1000.0 - static_cast<double>(j);
  });
  call.run();
  EXPECT_EQ(call.at("z", 0), -kInfinity);
  EXPECT_EQ(call.at("z", 1), kInfinity);
  EXPECT_TRUE(std::isnan(call.at("z", 2)) && std::isnan(call.at("h", 2)) &&
              std::isnan(call.at("l", 2)));
  EXPECT_EQ(call.at("i", 0), 0);
  EXPECT_EQ(call.at("i", 1), 7);
  EXPECT_EQ(call.at("i", 2), 9);
}

TEST(CpuBackend, a_sum_does_not_overflow_before_its_result_does) {
  TestCall call(
      parse(
          "program p(x: f32[m, n]) -> r: f32[m], c: f32[n] {\n  r = mean[m](x); c = mean[n](x)\n}"),
      {40, 300});
  call.fill("x", [](int64_t, int64_t) { return 3e38; });
  launch(call, {});
  EXPECT_FLOAT_EQ(call.at("r", 3), 3e38f);
  EXPECT_FLOAT_EQ(call.at("c", 3), 3e38f);
}

TEST(CpuBackend, odd_and_empty_shapes_agree_with_the_reference) {
  for (const int64_t m : {0, 1, 2, 127, 128, 129, 257})
    for (const int64_t n : {0, 1, 3, 255, 257, 513})
      for (const int64_t k : {0, 1, 17}) {
        SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
        TestCall call(library("norm.coda", "residual_rms"), {m, n, k}, DType::bf16);
        call.threads = 2;
        call.run();
      }
}

TEST(CpuBackend, every_library_program_agrees_with_the_reference) {
  struct Named {
    const char *file, *name;
    std::vector<std::pair<std::string, int64_t>> sizes;
  };
  const Named programs[] = {
      {"activation.coda", "geglu", {}},
      {"activation.coda", "bias_gelu", {}},
      {"activation.coda", "relu_squared", {}},
      {"linear.coda", "linear", {}},
      {"linear.coda", "scalar_scale", {}},
      {"linear.coda", "dropout_residual", {}},
      {"loss.coda", "lse_target_logits", {}},
      {"loss.coda", "softcap_lse", {}},
      {"loss.coda", "cross_entropy_grad_zdz", {}},
      {"loss.coda", "greedy", {}},
      {"norm.coda", "layernorm_stats", {}},
      {"norm.coda", "layernorm_apply", {}},
      {"quantise.coda", "store_fp8_wide", {}},
      {"quantise.coda", "add_fp8", {}},
      {"quantise.coda", "quant_1x128", {}},
      {"quantise.coda", "dequant_1x128", {}},
      {"optimizer.coda", "adamw", {}},
      {"optimizer.coda", "sum_squares", {}},
      {"rope.coda", "rope", {{"dh", 64}, {"rot", 128}}},
      {"rope.coda", "rope_interleaved", {{"dh", 16}, {"rot", 128}}},
      {"rope.coda", "rope_partial", {{"dh", 128}, {"part", 32}, {"rot", 256}}},
      {"rope.coda", "qk_norm_rope", {{"dh", 64}, {"nq", 3}, {"nk", 1}}}};
  for (const Named& named : programs)
    for (const DType type : {DType::f32, DType::bf16})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(named.name);
        TestCall call(library(named.file, named.name), {130, 384, 48}, type, named.sizes);
        for (const ir::Input& input : call.instance().program->inputs)
          if (input.name == "var")
            call.fill("var", [](int64_t i, int64_t j) { return 0.5 + std::abs(t(i + j)); });
        call.fused = fused, call.threads = 2;
        call.run();
      }
}

TEST(CpuBackend, every_storage_type_is_loaded_and_stored) {
  for (const char* type : {"f32", "bf16", "f16", "e4m3", "e5m2", "i64", "i32", "u8"}) {
    SCOPED_TRACE(type);
    const std::string text = std::string("program p(x: ") + type + "[m, n], v: " + type +
                             "[n], u: " + type + "[m]) -> a: " + type +
                             "[m, n], b: f32[m, n], c: bf16[m], d: " + type + "[n] {\n" +
                             "  a = x + v - u; b = x * v; c = u; d = v\n}";
    TestCall call(parse(text), {67, 130});
    call.run();
  }
}

TEST(CpuBackend, integers_stored_as_floats_are_rounded_once) {
  TestCall call(
      parse("program p(x: i64[m, n]) -> a: bf16[m, n], b: f32[m, n] {\n  a = x; b = x\n}"),
      {3, 40});
  for (int64_t i = 0; i < 120; ++i)
    static_cast<int64_t*>(call.view("x").data)[i] =
        (int64_t{257} << 40) + (i % 2 ? 1 : -1) * (int64_t{1} << (i % 30));
  launch(call, {});
  for (int64_t i = 0; i < 40; ++i) {
    // Halfway between two bf16 numbers, and a little to one side.
    EXPECT_EQ(call.at("a", 0, i), i % 2 ? std::ldexp(258, 40) : std::ldexp(256, 40)) << i;
  }
}

TEST(CpuBackend, strided_repeated_and_transposed_views_are_read_and_written) {
  const int64_t m = 71, n = 260, k = 40;
  for (const DType type : {DType::f32, DType::bf16}) {
    TestCall call(library("norm.coda", "residual_rms"), {m, n, k}, type);
    const auto value = [](int64_t i, int64_t j) { return t(i * 300 + j); };
    // Residual: every other column; one row for all; column-major.
    call.view("residual") = call.matrix(m, n, type, value, 2 * n + 6, 2);
    call.run();
    call.view("residual") = call.matrix(1, n, type, value);
    call.view("residual").shape[0] = m, call.view("residual").strides[0] = 0;
    call.run();
    call.view("residual") = transposed(call.matrix(n, m, type, value));
    call.view("x") = transposed(call.matrix(n, m, type, {}));
    call.view("h") = call.matrix(m, n, type, {}, n + 24);
    call.run();
    call.view("w") = call.vector(
        n, type, [](int64_t j, int64_t) { return t(j); }, 3);
    call.view("rstd") = call.vector(m, DType::f32, {}, 2);
    call.run();
  }
}

TEST(CpuBackend, operands_of_the_product_may_lie_in_any_way) {
  const int64_t m = 150, n = 290, k = 45;
  const auto value = [](int64_t i, int64_t j) { return t(i * 77 + j); };
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (int way_a = 0; way_a < 4; ++way_a)
      for (int way_b = 0; way_b < 4; ++way_b)
        for (const bool plain : {false, true}) {
          TestCall call(library("linear.coda", "linear"), {m, n, k}, type);
          const auto operand = [&](int64_t rows, int way) {
            if (way == 1) return transposed(call.matrix(k, rows, type, value, rows + 5));
            if (way == 2) return call.matrix(rows, k, type, value, 2 * k + 3, 2);
            TensorView view = call.matrix(way == 3 ? 1 : rows, k, type, value, k + 1);
            if (way == 3) view.shape[0] = rows, view.strides[0] = 0;
            return view;
          };
          call.products["a"] = {{operand(m, way_a), {operand(n, way_b)}}};
          SCOPED_TRACE(std::string(name_of(type)) + " A " + std::to_string(way_a) + " B " +
                       std::to_string(way_b));
          check(call, {.threads = 2, .plain_mainloop = plain});
        }
}

TEST(CpuBackend, products_add_up_and_weights_lie_side_by_side) {
  const int64_t m = 140, n = 300;
  const auto value = [](int64_t i, int64_t j) { return t(i * 53 + j); };
  for (const DType type : {DType::f32, DType::bf16})
    for (const std::vector<int64_t>& widths :
         {std::vector<int64_t>{300}, {256, 44}, {100, 1, 199}, {128, 128, 44}}) {
      TestCall call(library("activation.coda", "swiglu"), {m, n, 8}, type);
      for (const char* name : {"gate", "up"}) {
        auto& terms = call.products[name];
        terms.clear();
        for (const int64_t k : {40, 7, 96}) {
          TestCall::Term term{call.matrix(m, k, type, value), {}};
          for (const int64_t width : widths)
            term.b.push_back(call.matrix(width, k, type, value, k + 3));
          terms.push_back(term);
        }
      }
      call.products["up"][0].a = call.products["gate"][0].a;
      for (const bool fused : {true, false}) {
        call.fused = fused;
        call.run();
      }
      check(call, {.threads = 2, .plain_mainloop = true});
    }
}

TEST(CpuBackend, tensors_lie_in_segments_along_rows_or_columns) {
  const int64_t m = 260, n = 330, k = 24;
  const auto value = [](int64_t i, int64_t j) { return t(i * 53 + j); };
  TestCall call(library("norm.coda", "residual_rms"), {m, n, k}, DType::bf16);
  for (const Axis axis : {Axis::columns, Axis::rows}) {
    const auto cut = [&](const TestCall::Fill& fill) {
      TestCall::Tensor tensor{axis, {}};
      const int64_t whole = axis == Axis::rows ? m : n;
      for (const auto& [begin, end] :
           {std::pair<int64_t, int64_t>{0, 37}, {37, 128}, {128, whole}}) {
        const int64_t size = end - begin;
        tensor.segments.push_back(axis == Axis::rows
                                      ? call.matrix(size, n, DType::bf16, fill, n + size % 5)
                                      : call.matrix(m, size, DType::bf16, fill, size + 8));
      }
      return tensor;
    };
    call.tensors["residual"] = cut(value);
    call.tensors["x"] = cut({});
    call.run();
  }
}

TEST(CpuBackend, an_output_may_replace_an_input) {
  const auto value = [](int64_t i, int64_t j) { return t(3 * i + 5 * j); };
  TestCall call(
      parse("program p<h>(a: acc, x: T[m, n], z: T[m, n]) -> y: T[m, n], w: T[m, n], s: f32[m] {\n"
            "  p, q = split(x, h); y = a + join(q, p, h); w = x + z; s = sum[m](x * z)\n}"),
      {200, 320, 16}, DType::f32, {{"h", 16}});
  for (const DType type : {DType::f32}) {
    call.fill("x", value);
    launch(call, {.threads = 2});
    const std::vector<std::byte> y = call.bytes("y"), w = call.bytes("w"), s = call.bytes("s");
    call.view("y") = call.view("x");
    call.view("w") = call.view("z");
    launch(call, {.threads = 2});
    EXPECT_EQ(call.bytes("y"), y) << name_of(type);
    EXPECT_EQ(call.bytes("w"), w) << name_of(type);
    EXPECT_EQ(call.bytes("s"), s) << name_of(type);
  }
}

TEST(CpuBackend, an_input_is_read_before_an_earlier_output_replaces_it) {
  TestCall call(parse("program p(a: acc, x: f32[m, n]) -> y: f32[m, n], z: f16[m, n] {\n"
                      "  y = a; z = x\n}"),
                {33, 48, 16}, DType::f32, {});
  call.fill("x", [](int64_t i, int64_t j) { return t(3 * i + 5 * j); });
  launch(call, {.threads = 2});
  const std::vector<std::byte> y = call.bytes("y"), z = call.bytes("z");
  call.view("y") = call.view("x");
  launch(call, {.threads = 2});
  EXPECT_EQ(call.bytes("y"), y);
  EXPECT_EQ(call.bytes("z"), z);
}

/// A program that touches every kernel: all operations, pairs, groups, periods, integers,
/// reductions.
Program everything() {
  return parse(
      "program p(a: acc, x: T[m, n], w: f32[n % 24], v: f32[m], pos: i64[m], q: e4m3[m, n]) -> y: "
      "f32[m, n],\n"
      "    z: bf16[m, n], k: i64[m, n], c: f32[n], e: f32[n], r: f32[m], l: f32[m], i: i64[m], g: "
      "f16[m, n:16],\n"
      "    mu: f32[n:8], va: f32[n:8], t: f32[m, n % 24] {\n"
      "  b = a * 0.25 + x / (1.5 + abs(v)) - w\n"
      "  u = exp(-abs(b)) + log(1 + b * b) + tanh(b) + erf(b) + sigmoid(b) + sqrt(abs(b)) + "
      "rsqrt(1 + abs(b))\n"
      "  o = sin(b) + cos(pos * w) + sin(pos * v)\n"
      "  d, f = split(u, 4)\n"
      "  y = swap(join(min(d, f), max(d, 0.5), 4), 2, 8) + clamp(o, -1.2, b) + where(b < x, b, "
      "round(q, bf16))\n"
      "  z = y * max[m, n:16](abs(u))\n"
      "  k = (n * 3 + m * 5 - pos) % 7 + (b >= 0) * 10\n"
      "  c = sum[n](u); e = logsumexp[n](b); r = mean[m](u * u); l = logsumexp[m](b * 3); i = "
      "argmax[m](u)\n"
      "  g = sum[m, n:16](b); mu, va = moments[n:8](b); t = max[m, n % 24](b)\n}");
}

TestCall& exact_products(TestCall& call, int64_t m, int64_t n, int64_t k, DType type) {
  call.products["a"] = {
      {call.matrix(m, k, type, small_integer), {call.matrix(n, k, type, small_integer)}}};
  return call;
}

TEST(CpuBackend, instruction_sets_mainloops_and_threads_give_the_same_bits) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    TestCall call(everything(), {271, 1056, 36}, type);
    exact_products(call, 271, 1056, 36, type);
    check(call, {.threads = 1});
    const auto expected = outputs_of(call, {.threads = 1});
    for (const bool fused : {true, false})
      for (const bool plain : {true, false})
        for (const cpu::Isa isa : {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512})
          for (const int threads : {1, 3}) {
            if (!cpu::supports(isa)) continue;
            for (const ir::Output& output : call.instance().program->outputs)
              call.fill(output.name, [](int64_t, int64_t) { return -77.0; });
            const auto got = outputs_of(call, {fused, threads, isa, plain});
            for (size_t o = 0; o < got.size(); ++o)
              EXPECT_TRUE(got[o] == expected[o])
                  << call.instance().program->outputs[o].name << ", fused " << fused << ", plain "
                  << plain << ", instruction set " << static_cast<int>(isa) << ", threads "
                  << threads;
          }
  }
}

TEST(CpuBackend, fused_and_unfused_give_the_same_bits) {
  TestCall call(library("norm.coda", "residual_rms"), {300, 700, 129}, DType::bf16);
  EXPECT_TRUE(outputs_of(call, {.fused = true}) == outputs_of(call, {.fused = false}));
}

TEST(CpuBackend, the_plain_mainloop_agrees_with_the_reference) {
  for (const cpu::Isa isa : {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (!cpu::supports(isa)) continue;
    for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{13, 33, 257}, Sizes{131, 300, 600}}) {
      TestCall call(library("linear.coda", "linear"), sizes, DType::f32);
      check(call, {.threads = 1, .isa = isa, .plain_mainloop = true});
    }
  }
}

TEST(CpuBackend, groups_wider_than_a_tile_make_the_tile_wider) {
  TestCall call(parse("program p(a: acc) -> y: T[m, n], s: f32[m, n:1536] {\n"
                      "  s = max[m, n:1536](abs(a)); y = a / s\n}"),
                {70, 3072, 8}, DType::bf16);
  call.run();
  TestCall halves(
      parse(
          "program p<h>(x: T[m, 2n], z: f32[m, n]) -> y: T[m, n], s: T[m, 2n], r: f32[m, 2n:6] {\n"
          "  p, q = split(x, h); y = p * q + z; s = join(y, p, h); r = sum[m, 2n:6](x)\n}"),
      {70, 270}, DType::f16, {{"h", 5}});
  halves.run();
}

}  // namespace
}  // namespace coda::test
