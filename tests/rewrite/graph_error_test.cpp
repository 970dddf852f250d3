// SPDX-License-Identifier: Apache-2.0
// What graphs refuse, and in which words: the op, what it expects, what it got.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "rewrite/blocks.h"
#include "rewrite/passes.h"

namespace coda::test {
namespace {

/// Inputs of the shapes that the mistakes below are made of.
struct Inputs {
  GraphBuilder g{"wrong"};
  Value x = g.activations("x", 32), wide = g.activations("wide", 48);
  Value ids = g.tokens("ids"), floats = g.token_scalars("floats"), number = g.scalar("number");
  Value v32 = g.vector("v32", 32), v48 = g.vector("v48", 48), v8 = g.vector("v8", 8);
  Value table = g.table("table", 4);
  Value w = g.weight("w", 48, 32);
};

struct Mistake {
  const char* name;
  ErrorKind kind;
  Value (*make)(Inputs&);
  const char* what;  // up to the fix
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr ErrorKind kShape = ErrorKind::shape, kProgram = ErrorKind::program,
                    kArgument = ErrorKind::argument;

Value attend(Value q, Value k, Value v, const AttentionOptions& options) {
  return attention(q, k, v, options);
}

const Mistake kMistakes[] = {
    {"matmul of a vector", kShape, [](Inputs& i) { return matmul(i.v32, i.w); },
     "[matmul]: expected an operand over tokens and columns, [M, K], got [32]"},
    {"matmul of ids", kShape, [](Inputs& i) { return matmul(i.ids, i.w); },
     "[matmul]: expected an operand over tokens and columns, [M, K], got [M]"},
    {"matmul of a weight", kShape, [](Inputs& i) { return matmul(i.w, i.w); },
     "[matmul]: expected an operand over tokens and columns, [M, K], got [48, 32]"},
    {"matmul with activations", kShape, [](Inputs& i) { return matmul(i.x, i.wide); },
     "[matmul]: expected a weight of shape [out, in], got [M, 48]"},
    {"matmul with another depth", kShape, [](Inputs& i) { return matmul(i.wide, i.w); },
     "[matmul]: expected weight of shape [48, 48], got [48, 32]"},
    {"matmul with a number", kProgram, [](Inputs& i) { return matmul(i.x, 2.0); },
     "[matmul]: expected values of one graph, got a number"},
    {"rms_norm with another width", kShape, [](Inputs& i) { return rms_norm(i.x, i.v48, 1e-5); },
     "[rms_norm]: expected weight of shape [32], got [48]"},
    {"rms_norm with a weight over tokens", kShape,
     [](Inputs& i) { return rms_norm(i.x, i.x, 1e-5); },
     "[rms_norm]: expected weight of shape [32], got [M, 32]"},
    {"rms_norm of a vector", kShape, [](Inputs& i) { return rms_norm(i.v32, i.v32, 1e-5); },
     "[rms_norm]: expected an input over tokens and columns, [M, K], got [32]"},
    {"layer_norm with another weight", kShape,
     [](Inputs& i) { return layer_norm(i.x, i.v48, i.v32, 1e-5); },
     "[layer_norm]: expected weight of shape [32], got [48]"},
    {"layer_norm with another bias", kShape,
     [](Inputs& i) { return layer_norm(i.x, i.v32, i.v48, 1e-5); },
     "[layer_norm]: expected bias of shape [32], got [48]"},
    {"swiglu of two widths", kShape, [](Inputs& i) { return swiglu(i.x, i.wide); },
     "[swiglu]: expected up of shape [M, 32], got [M, 48]"},
    {"geglu of two widths", kShape, [](Inputs& i) { return geglu(i.wide, i.x); },
     "[geglu]: expected up of shape [M, 48], got [M, 32]"},
    {"rope of heads that do not fill the width", kShape,
     [](Inputs& i) { return rope(i.x, i.ids, i.v48); },
     "[rope]: expected heads of 96 columns that fill the width, got 32 columns"},
    {"rope at float positions", kShape, [](Inputs& i) { return rope(i.x, i.floats, i.table); },
     "[rope]: expected positions of shape [M], integers, got [M], floats"},
    {"rope at positions over columns", kShape, [](Inputs& i) { return rope(i.x, i.x, i.table); },
     "[rope]: expected positions of shape [M], integers, got [M, 32], floats"},
    {"rope with frequencies over tokens", kShape,
     [](Inputs& i) { return rope(i.x, i.ids, i.g.activations("f", 4)); },
     "[rope]: expected frequencies of shape [4], got [M, 4]"},
    {"rope with one number for frequencies", kShape,
     [](Inputs& i) { return rope(i.x, i.ids, i.number); },
     "[rope]: expected frequencies of shape [1], got []"},
    {"head_norm of heads that do not fill the width", kShape,
     [](Inputs& i) { return head_norm(i.x, i.v48, 1e-5); },
     "[head_norm]: expected heads of 48 columns that fill the width, got 32 columns"},
    {"head_norm with a weight over tokens", kShape,
     [](Inputs& i) { return head_norm(i.x, i.x, 1e-5); },
     "[head_norm]: expected weight of shape [32], got [M, 32]"},
    {"softcap of zero", kArgument, [](Inputs& i) { return softcap(i.x, 0); },
     "[softcap] cap: expected a number above 0, got 0.000000"},
    {"softcap of no number", kArgument, [](Inputs& i) { return softcap(i.x, kNan); },
     "[softcap] cap: expected a number above 0, got nan"},
    {"embedding of floats", kShape, [](Inputs& i) { return embedding(i.floats, i.w); },
     "[embedding]: expected ids of shape [M], integers, got [M], floats"},
    {"embedding of a matrix", kShape, [](Inputs& i) { return embedding(i.x, i.w); },
     "[embedding]: expected ids of shape [M], integers, got [M, 32], floats"},
    {"embedding without a table", kShape, [](Inputs& i) { return embedding(i.ids, i.x); },
     "[embedding]: expected a weight of shape [out, in], got [M, 32]"},
    {"attention of other heads", kShape,
     [](Inputs& i) {
       return attend(i.x, i.x, i.x, {3, 2, 8, 1});
     },
     "[attention]: expected query heads that are a multiple of the key heads, got 3 and 2"},
    {"attention without heads", kShape,
     [](Inputs& i) {
       return attend(i.x, i.x, i.x, {0, 1, 8, 1});
     },
     "[attention]: expected query heads that are a multiple of the key heads, got 0 and 1"},
    {"attention of other queries", kShape,
     [](Inputs& i) {
       return attend(i.wide, i.x, i.x, {4, 4, 8, 1});
     },
     "[attention]: expected q of shape [M, 32], got [M, 48]"},
    {"attention of other keys", kShape,
     [](Inputs& i) {
       return attend(i.x, i.wide, i.x, {4, 4, 8, 1});
     },
     "[attention]: expected k of shape [M, 32], got [M, 48]"},
    {"attention of other values", kShape,
     [](Inputs& i) {
       return attend(i.x, i.x, i.wide, {4, 4, 8, 1});
     },
     "[attention]: expected v of shape [M, 32], got [M, 48]"},
    {"attention of widths that only add up", kShape,
     [](Inputs& i) {
       return attend(i.g.activations("q", 16), i.wide, i.x, {4, 4, 8, 1});
     },
     "[attention]: expected q of shape [M, 32], got [M, 16]"},
    {"attention of a vector", kShape,
     [](Inputs& i) {
       return attend(i.x, i.v32, i.x, {4, 4, 8, 1});
     },
     "[attention]: expected k over tokens and columns, [M, K], got [32]"},
    {"attention without a scale", kArgument,
     [](Inputs& i) {
       return attend(i.x, i.x, i.x, {4, 4, 8, kNan});
     },
     "[attention] scale: expected a finite number, got nan"},
    {"attention with a negative cap", kArgument,
     [](Inputs& i) {
       return attend(i.x, i.x, i.x, {4, 4, 8, 1, -1});
     },
     "[attention] softcap: expected 0 or a number above it, got -1.000000"},
    {"attention with a negative window", kArgument,
     [](Inputs& i) {
       return attend(i.x, i.x, i.x, {4, 4, 8, 1, 0, -2});
     },
     "[attention] window: expected 0 or a number above it, got -2"},
    {"cross_entropy of float labels", kShape,
     [](Inputs& i) { return cross_entropy(i.x, i.floats); },
     "[cross_entropy]: expected labels of shape [M], integers, got [M], floats"},
    {"cross_entropy of a vector", kShape, [](Inputs& i) { return cross_entropy(i.v32, i.ids); },
     "[cross_entropy]: expected an input over tokens and columns, [M, K], got [32]"},
    {"cross_entropy smoothed too much", kShape,
     [](Inputs& i) {
       return cross_entropy(i.x, i.ids, {-100, 1.5});
     },
     "[cross_entropy]: expected label smoothing in [0, 1], got 1.500000"},
    {"cross_entropy smoothed by no number", kShape,
     [](Inputs& i) {
       return cross_entropy(i.x, i.ids, {-100, kNan});
     },
     "[cross_entropy]: expected label smoothing in [0, 1], got nan"},
    {"z_loss of float labels", kShape, [](Inputs& i) { return z_loss(i.x, i.floats); },
     "[z_loss]: expected labels of shape [M], integers, got [M], floats"},
    {"total of a number", kProgram, [](Inputs&) { return total(1.0); },
     "[total]: expected a value of a graph, got a number"},
    {"sum of two widths", kProgram, [](Inputs& i) { return i.x + i.wide; },
     "+: expected operands of one width, got [m, 32] and [m, 48]"},
    {"a number times a weight", kProgram, [](Inputs& i) { return 2.0 * i.w; },
     "mul: expected operands that both vary over tokens, or two gradients of one weight, got a "
     "value over [] and 'w' over [32]"},
    {"exponential of a weight", kProgram, [](Inputs& i) { return exp(i.w); },
     "exp: expected values over tokens, got 'w' over [32], a weight"},
    {"total of a weight", kProgram, [](Inputs& i) { return total(i.w); },
     "sum[]: expected values over tokens, got 'w' over [32], a weight"},
};

TEST(GraphError, mistakes_are_named_with_what_was_expected_and_got) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.name);
    Inputs inputs;
    try {
      mistake.make(inputs);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.substr(0, what.find("; fix: ")), mistake.what);
      EXPECT_EQ(error.kind(), mistake.kind) << name_of(error.kind());
    }
  }
}

/// A builder goes on after a refusal, and what was refused leaves no trace.
TEST(GraphError, a_refused_value_leaves_the_graph_as_it_was) {
  for (const Mistake& mistake : kMistakes) {
    Inputs inputs;
    try {
      mistake.make(inputs);
    } catch (const Error&) {
    }
    inputs.g.output("y", matmul(inputs.x, inputs.w));
    EXPECT_NO_THROW(rewrite::rewrite(inputs.g.build().ir(), {})) << mistake.name;
  }
}

/// The Error that `f` throws, as text; a failure if it throws none.
template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "was taken";
  return {};
}

void expect_refusal(const std::string& what, const std::string& part) {
  EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks\n" << part;
}

TEST(GraphError, sizes_below_one) {
  GraphBuilder g("sizes");
  expect_refusal(refusal([&] { g.activations("x", 0); }), "'x': expected sizes above 0, got 0");
  expect_refusal(refusal([&] { g.weight("w", 0, 4); }), "'w': expected sizes above 0, got 0");
  expect_refusal(refusal([&] { g.weight("w", 4, -1); }), "'w': expected sizes above 0, got -1");
  expect_refusal(refusal([&] { g.vector("v", 0); }), "'v': expected sizes above 0, got 0");
  expect_refusal(refusal([&] { g.table("t", -3); }), "'t': expected sizes above 0, got -3");
}

TEST(GraphError, tokens_of_floats) {
  GraphBuilder g("floats");
  expect_refusal(refusal([&] { g.tokens("ids", DType::f32); }),
                 "'ids': expected i64, i32 or u8, got f32");
}

TEST(GraphError, names_are_given_once) {
  Inputs i;
  i.g.activations("x", 4);
  i.g.output("y", 2.0 * i.x);
  expect_refusal(refusal([&] { i.g.build(); }), "input 'x': expected each name once");
  Inputs j;
  j.g.output("x", 2.0 * j.x);
  expect_refusal(refusal([&] { j.g.build(); }), "output 'x'");
}

TEST(GraphError, a_graph_without_outputs) {
  Inputs i;
  expect_refusal(refusal([&] { i.g.build(); }), "expected at least one output, got none");
}

TEST(GraphError, values_of_two_builders) {
  Inputs i, j;
  expect_refusal(refusal([&] { matmul(i.x, j.w); }),
                 "[matmul]: expected values of one graph, got values of two builders");
  expect_refusal(refusal([&] { rms_norm(i.x, j.v32, 1e-5); }), "[rms_norm]");
  expect_refusal(refusal([&] { attend(i.x, i.x, j.x, {4, 4, 8, 1}); }), "[attention]");
  expect_refusal(refusal([&] { return i.x + j.x; }), "expected values of one builder");
  expect_refusal(refusal([&] { i.g.output("y", j.x); }), "expected values of one builder");
  expect_refusal(refusal([&] { i.g.name(j.x, "y"); }), "expected values of one builder");
}

/// Sums of weights are gradients; a graph takes weights as they are.
TEST(GraphError, weights_are_no_values_to_compute_with) {
  Inputs i;
  const Value other = i.g.weight("other", 48, 32);
  i.g.output("y", matmul(i.x, i.w + other));
  expect_refusal(refusal([&] { i.g.build(); }), "weight");
  Inputs j;
  expect_refusal(refusal([&] {
                   j.g.output("y", j.w);
                   j.g.build();
                 }),
                 "output 'y'");
}

rewrite::Plan rewritten(const std::vector<std::string>& of, const std::vector<std::string>& wrt) {
  Inputs i;
  i.g.output("y", matmul(rms_norm(i.x, i.v32, 1e-5), i.w));
  i.g.output("place", i.ids + 1);
  rewrite::Options options;
  options.of = of, options.wrt = wrt;
  return rewrite::rewrite(i.g.build().ir(), options);
}

TEST(GraphError, unknown_names) {
  EXPECT_NO_THROW(rewritten({"y"}, {"x", "w", "v32"}));
  expect_refusal(refusal([] { rewritten({"z"}, {"x"}); }), "of to name float outputs, got 'z'");
  expect_refusal(refusal([] { rewritten({"place"}, {"x"}); }),
                 "of to name float outputs, got 'place'");
  expect_refusal(refusal([] { rewritten({"y"}, {"X"}); }), "float tensors, got 'X'");
  expect_refusal(refusal([] { rewritten({"y"}, {"ids"}); }), "float tensors, got 'ids'");
  // An input that the output does not depend on has no gradient to write.
  expect_refusal(refusal([] { rewritten({"y"}, {"v48"}); }),
                 "expected outputs that depend on 'v48', got none does");
}

/// Gradients of gradients are refused, never wrong: of products, of their weights, of attention and
/// of embeddings.
TEST(GraphError, second_derivatives) {
  GraphBuilder g("twice");
  Parts p{g, {}};
  const Value x = g.activations("x", p.w.d);
  const Value h = x + embedding(g.tokens("ids"), g.weight("table", 40, p.w.d));
  const auto qkv = p.qkv(h, g.tokens("positions"), g.table("frequencies", p.w.head_size / 2));
  g.output("y", attention(qkv.q, qkv.k, qkv.v, p.heads()));
  rewrite::Options options;
  options.of = {"y"};
  options.wrt = {"x", "wq", "table"};
  const rewrite::Joint once = rewrite::differentiate(rewrite::expand(g.build().ir()), options);
  for (const char* name : {"d_x", "d_wq", "d_table"}) {
    for (const char* by : {"x", "d_y"}) {
      rewrite::Options again;
      again.of = {name};
      again.wrt = {by};
      expect_refusal(refusal([&] { rewrite::differentiate(once.graph, again); }),
                     "expected ops that have a derivative");
    }
  }
}

}  // namespace
}  // namespace coda::test
