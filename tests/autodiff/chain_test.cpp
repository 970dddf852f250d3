// SPDX-License-Identifier: Apache-2.0
// The chain residual_rms -> {row_scale, rmsnorm_swiglu, rmsnorm_rope, lse_target}: the derived
// gradients at its ends equal the formulas written by hand, in float64, and cost no more than 1.2
// times their operations.
//
// Hand formulas (the gradient of RMSNorm through the row product z . dz): with z = r h W^T, h = x
// w,
//   s = (1/d) sum_n z dz,  xn = x r,  dh = dz W,  dx = dres + r (dh w - xn s),  dw = sum_m dh xn,
//   dW = dz^T (xn w).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "autodiff/differentiate.h"
#include "ir/simplify.h"
#include "language/library.h"
#include "language/parser.h"
#include "reference/reference.h"

namespace coda {
namespace {

using ir::Program;
using reference::Dense;

constexpr int64_t kM = 5, kD = 12, kK = 7, kN = 16, kHead = 8, kRot = 8;

Program from_library(const std::string& name) {
  for (const auto& file : language::library_files())
    for (Program& program : language::parse_file(file.text, file.name))
      if (program.name == name) return program;
  throw std::runtime_error("no program " + name);
}

struct Tensors : std::map<std::string, Dense> {
  std::mt19937_64 random{20240611};

  Dense& draw(const std::string& name, int64_t rows, int64_t columns, double scale = 1) {
    std::normal_distribution<double> normal;
    Dense tensor{rows, columns, {}, {}, {}};
    for (int64_t i = 0; i < rows * columns; ++i) tensor.value.push_back(normal(random) * scale);
    return (*this)[name] = tensor;
  }
};

/// Runs `program` on tensors by name and puts its outputs back under their names.
void run(const Program& program, std::vector<int64_t> symbols, Tensors& tensors) {
  std::vector<Dense> inputs;
  for (const ir::Input& input : program.inputs) {
    if (!tensors.count(input.name)) throw std::runtime_error("no tensor " + input.name);
    inputs.push_back(tensors.at(input.name));
  }
  const auto outputs = reference::evaluate(program, symbols, inputs,
                                           {.mode = reference::Mode::exact, .type = DType::f32});
  for (size_t i = 0; i < outputs.size(); ++i) tensors[program.outputs[i].name] = outputs[i];
}

/// sum_k a[i, k] b[k, j], with either operand transposed.
Dense product(const Dense& a, bool ta, const Dense& b, bool tb) {
  const int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns,
                n = tb ? b.rows : b.columns;
  Dense c{m, n, std::vector<double>(m * n), {}, {}};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p)
        c.value[i * n + j] += (ta ? a.value[p * m + i] : a.value[i * k + p]) *
                              (tb ? b.value[j * k + p] : b.value[p * n + j]);
  return c;
}

void expect_equal(const Dense& got, const Dense& want, const std::string& what) {
  ASSERT_EQ(got.rows * got.columns, want.rows * want.columns) << what;
  double largest = 0, worst = 0;
  for (size_t i = 0; i < want.value.size(); ++i) {
    largest = std::max(largest, std::abs(want.value[i]));
    worst = std::max(worst, std::abs(got.value[i] - want.value[i]));
  }
  EXPECT_GT(largest, 1e-3) << what << " tests nothing";
  EXPECT_LE(worst, 1e-12 * largest) << what;
}

/// Elementwise operations per element of a full-width tile.
double operations(const Program& program) {
  double count = 0;
  for (int i : ir::live_nodes(program)) {
    const auto& dims = program.info[i].dims;
    const auto& width = dims.columns.width;
    if (std::holds_alternative<ir::Elementwise>(program.nodes[i]) && dims.rows &&
        dims.columns.kind == ir::Columns::Kind::all)
      count += static_cast<double>(width.numerator) / static_cast<double>(width.denominator);
  }
  return count;
}

/// The gradients of the two products' outputs by hand: dz of each accumulator of the second
/// program.
using HandGradient = std::function<std::vector<Dense>(Tensors&)>;

struct Case {
  std::string second;
  std::vector<std::string> weights;   // accumulators of the second program
  std::vector<std::string> upstream;  // its outputs with a gradient
  HandGradient by_hand;
  std::string hand_text;  // the hand formulas as programs, to count their operations
};

const char* kHandNorm = R"(
program norm_bwd(dh: acc, x: T[m, n], w: T[n], rstd: f32[m], zdz: f32[m], dres: T[m, n])
    -> dx: T[m, n], h: T[m, n], dw: f32[n] {
  xn = x * rstd
  h = xn * w
  dx = dres + rstd * (dh * w - xn * zdz / N)
  dw = sum[n](dh * xn)
}
)";

void check_chain(const Case& test) {
  const Program first = from_library("residual_rms"), second = from_library(test.second);
  const auto chain = autodiff::differentiate_chain(first, second, {{}, test.upstream, {}});
  const std::vector<int64_t> at_first{kD, kM};
  std::vector<int64_t> at_second{kN, kM};
  for (size_t i = 2; i < second.symbols.size(); ++i)
    at_second.push_back(second.symbols[i] == "dh" ? kHead : kRot);

  Tensors t;
  const Dense a0 = t.draw("A", kM, kK), w0 = t.draw("W0", kD, kK, 0.4);
  t.draw("residual", kM, kD), t.draw("w", 1, kD);
  t["eps"] = Dense{1, 1, {1e-3}, {}, {}};
  t["a"] = product(a0, false, w0, true);
  t.draw("freq", 1, kHead / 2), t["pos"] = Dense{kM, 1, {}, {}, {3, 0, 11, 257, 1}};
  t["target"] = Dense{kM, 1, {}, {}, {2, 15, 0, 7, 7}};
  run(chain.first.forward, at_first, t);
  std::vector<Dense> weights;
  for (const std::string& name : test.weights) {
    weights.push_back(t.draw("W_" + name, kN, kD, 0.3));
    t[name] = product(t.at("h"), false, weights.back(), true);
  }
  run(chain.second.forward, at_second, t);
  for (const std::string& name : test.upstream)
    t.draw("d_" + name, t.at(name).rows, t.at(name).columns);
  t.draw("d_x", kM, kD);  // the residual stream's own upstream gradient

  // By hand, from the values the forward pass made.
  const std::vector<Dense> dz = test.by_hand(t);
  Dense dh{kM, kD, std::vector<double>(kM * kD), {}, {}};
  std::vector<double> zdz(kM);
  std::vector<Dense> hand_dw;
  Dense normalised = t.at("h");
  for (int64_t i = 0; i < kM * kD; ++i) normalised.value[i] *= t.at("rstd").value[i / kD];
  for (size_t j = 0; j < dz.size(); ++j) {
    const Dense part = product(dz[j], false, weights[j], false);
    for (int64_t i = 0; i < kM * kD; ++i) dh.value[i] += part.value[i];
    for (int64_t i = 0; i < kM * kN; ++i)
      zdz[i / kN] += t.at(test.weights[j]).value[i] * t.at("rstd").value[i / kN] * dz[j].value[i];
    hand_dw.push_back(product(dz[j], true, normalised, false));
  }
  Dense dx = t.at("d_x"), dw{1, kD, std::vector<double>(kD), {}, {}};
  for (int64_t i = 0; i < kM * kD; ++i) {
    const double r = t.at("rstd").value[i / kD], w = t.at("w").value[i % kD];
    const double xn = t.at("x").value[i] * r;
    dx.value[i] += r * (dh.value[i] * w - xn * zdz[i / kD] / kD);
    dw.value[i % kD] += dh.value[i] * xn;
  }
  const Dense hand_dw0 = product(dx, true, a0, false);

  // Derived.
  run(chain.second.backward, at_second, t);
  Dense d_h{kM, kD, std::vector<double>(kM * kD), {}, {}};
  for (size_t j = 0; j < test.weights.size(); ++j) {
    const Dense& d = t.at("d_" + test.weights[j]);
    const Dense part = product(d, false, weights[j], false);
    for (int64_t i = 0; i < kM * kD; ++i) d_h.value[i] += part.value[i];
    expect_equal(product(d, true, t.at("h"), false), hand_dw[j], "dW of " + test.weights[j]);
  }
  t["d_h"] = d_h;
  run(autodiff::into_accumulator(chain.first.backward, "d_h"), at_first, t);
  expect_equal(t.at("d_residual"), dx, "dX");
  expect_equal(t.at("d_w"), dw, "dw_norm");
  expect_equal(product(t.at("d_a"), true, a0, false), hand_dw0, "dW0");

  double by_hand = 0;
  for (const Program& p : language::parse_file("coda 1\n" + test.hand_text + kHandNorm, "hand"))
    by_hand += operations(p);
  const double derived = operations(chain.first.backward) + operations(chain.second.backward);
  ::testing::Test::RecordProperty("operations_by_hand", std::to_string(by_hand));
  ::testing::Test::RecordProperty("operations_derived", std::to_string(derived));
  EXPECT_LE(derived, 1.2 * by_hand) << test.second;
}

TEST(Chain, plain_product_after_the_norm) {
  check_chain({"row_scale",
               {"a"},
               {"y"},
               [](Tensors& t) { return std::vector<Dense>{t.at("d_y")}; },
               "program plain(dz: T[m, n], z: T[m, n]) -> zdz: f32[m] { zdz = sum[m](z * dz) }"});
}

TEST(Chain, swiglu_after_the_norm) {
  check_chain({"rmsnorm_swiglu",
               {"gate", "up"},
               {"y"},
               [](Tensors& t) {
                 Dense dg = t.at("d_y"), du = dg;
                 for (size_t i = 0; i < dg.value.size(); ++i) {
                   const double g = t.at("g").value[i], u = t.at("u").value[i];
                   const double dy = t.at("d_y").value[i], s = 1 / (1 + std::exp(-g));
                   du.value[i] = dy * g * s;
                   dg.value[i] = dy * u * (s + g * s * (1 - s));
                 }
                 return std::vector<Dense>{dg, du};
               },
               R"(program swiglu(dy: acc, g: T[m, n], u: T[m, n])
                      -> dg: T[m, n], du: T[m, n], y: T[m, n], zdz: f32[m] {
                    s = sigmoid(g)
                    y = g * s * u
                    du = dy * g * s
                    dg = dy * u * s * (1 + g * (1 - s))
                    zdz = sum[m](g*dg + u*du)
                  })"});
}

TEST(Chain, rope_after_the_norm) {
  check_chain({"rmsnorm_rope",
               {"a"},
               {"qkv"},
               [](Tensors& t) {
                 Dense dz = t.at("d_qkv");
                 const int64_t h = kHead / 2;
                 for (int64_t i = 0; i < kM; ++i)
                   for (int64_t j = 0; j < kRot; ++j)
                     if (j % kHead < h) {
                       double &dx = dz.value[i * kN + j], &dy = dz.value[i * kN + j + h];
                       const double angle =
                           static_cast<double>(t.at("pos").integer[i]) * t.at("freq").value[j % h];
                       const double c = std::cos(angle), s = std::sin(angle), x = dx, y = dy;
                       dx = x * c + y * s, dy = y * c - x * s;
                     }
                 return std::vector<Dense>{dz};
               },
               R"(program rope<dh, rot>(dy: T[m, n], y: T[m, n], pos: i32[m], freq: f32[n/2 % dh/2])
                      -> dz: T[m, n], zdz: f32[m] {
                    p, q = split(dy, dh/2)
                    t = pos * freq
                    dz = where(n < rot, join(p*cos(t) + q*sin(t), q*cos(t) - p*sin(t), dh/2), dy)
                    zdz = sum[m](y * dy)
                  })"});
}

TEST(Chain, log_sum_exp_after_the_norm) {
  check_chain({"lse_target",
               {"a"},
               {"lse", "hit"},
               [](Tensors& t) {
                 Dense dz{kM, kN, std::vector<double>(kM * kN), {}, {}};
                 for (int64_t i = 0; i < kM * kN; ++i) {
                   const int64_t row = i / kN;
                   const double z = t.at("a").value[i] * t.at("rstd").value[row];
                   dz.value[i] =
                       t.at("d_lse").value[row] * std::exp(z - t.at("lse").value[row]) +
                       (i % kN == t.at("target").integer[row] ? t.at("d_hit").value[row] : 0);
                 }
                 return std::vector<Dense>{dz};
               },
               R"(program lse(z: T[m, n], lse: f32[m], target: i64[m], d_lse: f32[m], d_hit: f32[m])
                      -> dz: T[m, n], zdz: f32[m] {
                    dz = d_lse * exp(z - lse) + where(n == target, d_hit, 0)
                    zdz = sum[m](z * dz)
                  })"});
}

}  // namespace
}  // namespace coda
