// SPDX-License-Identifier: Apache-2.0
// What the grammar accepts and what it means. What it refuses is in tests/refused.
#include "language/parser.h"

#include <coda/error.h>
#include <coda/program.h>

#include <fstream>
#include <thread>

#include "round_trip.h"

namespace coda::language {
namespace {

/// The nodes of y = `expression` over inputs of every kind.
std::string nodes(const std::string& expression, const std::string& fns = {}) {
  return canonical(
      parse_one("coda 1\n" + fns +
                "\nprogram p<dh, k>(a: acc, x: T[m, n], w: f32[n], r: f32[m], i: i32[m], "
                "s: f32) -> y: f32[m, n] {\n  y = " +
                expression + "\n}\n"));
}

std::string message(const std::string& text) {
  try {
    parse_file(text, "f.coda");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Parser, products_bind_tighter_than_sums_and_both_group_to_the_left) {
  EXPECT_EQ(nodes("a + x * w"), nodes("a + (x * w)"));
  EXPECT_NE(nodes("a + x * w"), nodes("(a + x) * w"));
  EXPECT_EQ(nodes("a - x - w"), nodes("(a - x) - w"));
  EXPECT_NE(nodes("a - x - w"), nodes("a - (x - w)"));
  EXPECT_EQ(nodes("a / x * w"), nodes("(a / x) * w"));
  EXPECT_EQ(nodes("n % 3 * i"), nodes("(n % 3) * i"));
  EXPECT_EQ(nodes("-a * x"), nodes("(-a) * x"));
  EXPECT_NE(nodes("-a * x"), nodes("-(a * x)"));
  EXPECT_EQ(nodes("a + x < w * r"), nodes("(a + x) < (w * r)"));
  EXPECT_EQ(nodes("neg(a)"), nodes("-a"));
}

TEST(Parser, a_minus_before_a_number_makes_a_negative_constant) {
  EXPECT_NE(nodes("a * -2.0").find("real -2"), std::string::npos);
  EXPECT_NE(nodes("a - 2.0").find("real 2"), std::string::npos);
  EXPECT_NE(nodes("a * -(2.0)").find("neg"), std::string::npos);
  EXPECT_EQ(nodes("a * -2.0").find("neg"), std::string::npos);
  EXPECT_NE(nodes("i * -9223372036854775808").find("integer -9223372036854775808"),
            std::string::npos);
  EXPECT_NE(nodes("a * -0.0").find("real -0"), std::string::npos);
  EXPECT_NE(nodes("max(a, -inf)").find("real -inf"), std::string::npos);
}

TEST(Parser, literals_without_point_or_exponent_are_integers) {
  EXPECT_NE(nodes("i + 3"), nodes("i + 3.0"));
  EXPECT_EQ(nodes("a * 1e3"), nodes("a * 1000.0"));
  EXPECT_EQ(nodes("a * 1.5E-2"), nodes("a * 0.015"));
  EXPECT_NE(nodes("a * 0.1").find("0.10000000000000001"), std::string::npos);
}

TEST(Parser, newlines_are_spaces_in_brackets_in_headers_and_after_operators) {
  const std::string expected = nodes("a * (x + w)");
  EXPECT_EQ(nodes("a *\n\n   (x\n + w\n)"), expected);
  EXPECT_EQ(nodes("a * # a remark\n (x + # ( another\n w)"), expected);
  const ir::Program p = parse_one(
      "coda 1 program\np\n<\ndh\n>\n(\na\n:\nacc, w: T[n\n%\ndh]\n)\n->\ny: T[m,\nn]\n{\n\n "
      "y\t=\r\n a * w }");
  EXPECT_EQ(p.outputs.size(), 1u);
  EXPECT_NE(message("coda 1\nprogram p(a: acc) -> y: T[m, n] {\n y\n = a\n}")
                .find("3:3: expected '=', got end of line"),
            std::string::npos);
}

TEST(Parser, semicolons_and_blank_lines_separate_statements) {
  const std::string head = "coda 1\nprogram p(a: acc) -> y: T[m, n] {";
  const std::string expected = canonical(parse_one(head + "\n  x = a * 2\n  y = x + 1\n}\n"));
  EXPECT_EQ(canonical(parse_one(head + "x = a * 2; y = x + 1}")), expected);
  EXPECT_EQ(canonical(parse_one(head + ";;\r\n\r\nx = a * 2;\n\n;y = x + 1;}\n\n")), expected);
}

TEST(Parser, widths_groups_and_tables_of_dimensions) {
  const ir::Program p = parse_one(
      "coda 1\nprogram p<dh, nq>(f: f32[n/2 % dh/2], g: f32[m, n:nq*dh], h: f32[2n], t: f32[m, n % "
      "2*dh/4],"
      " q: f32[n:128]) -> y: f32[m, n], z: f32[m, 2n] {\n  y = g * q + t\n  z = h\n}\n");
  const ir::Size n = ir::symbol_size(ir::kSymbolN), two = ir::constant_size(2),
                 dh = ir::symbol_size(2), nq = ir::symbol_size(3);
  using Kind = ir::Columns::Kind;
  EXPECT_EQ(p.inputs[0].dims, (ir::Dims{false, {Kind::repeat, n / two, dh / two}}));
  EXPECT_EQ(p.inputs[1].dims, (ir::Dims{true, {Kind::group, n, nq * dh}}));
  EXPECT_EQ(p.inputs[2].dims, (ir::Dims{false, {Kind::all, n * two, {}}}));
  EXPECT_EQ(p.inputs[3].dims, (ir::Dims{true, {Kind::repeat, n, dh / two}}));
  EXPECT_EQ(p.inputs[4].dims, (ir::Dims{false, {Kind::group, n, ir::constant_size(128)}}));
  expect_round_trip(p);
}

TEST(Parser, a_number_given_at_the_call_differs_from_one_in_memory) {
  const ir::Program p =
      parse_one("coda 1\nprogram p(a: acc, s: f32, t: f32[]) -> y: T[m, n] { y = a * s * t }");
  EXPECT_EQ(p.inputs[1].kind, ir::Input::Kind::scalar);
  EXPECT_EQ(p.inputs[2].kind, ir::Input::Kind::tensor);
  EXPECT_TRUE(p.inputs[2].dims.is_scalar());
}

TEST(Parser, an_unused_half_is_called_underscore) {
  const ir::Program p = parse_one(
      "coda 1\nprogram p(a: acc) -> y: T[m, n/2], v: f32[m] {\n  _, y = split(a, 1)\n  _, v = "
      "moments[m](a)\n}\n");
  EXPECT_EQ(p.nodes.size(), 3u);
  expect_round_trip(p);
}

TEST(Parser, fns_are_expanded_with_each_argument_evaluated_once) {
  EXPECT_EQ(nodes("f(a * x)", "fn f(u) = u + u").find("mul"),
            nodes("f(a * x)", "fn f(u) = u + u").rfind("mul"));
  EXPECT_EQ(nodes("softcap(a, 30.0)"), nodes("30.0 * tanh(a / 30.0)").replace(0, 0, ""));
  EXPECT_EQ(nodes("silu(a)"), nodes("a * sigmoid(a)"));
}

TEST(Parser, a_file_may_replace_a_prelude_fn_for_itself_alone) {
  const std::string own = "fn relu(x) = max(x, 1.0)\n";
  EXPECT_EQ(nodes("relu(a)", own), nodes("max(a, 1.0)"));
  EXPECT_EQ(nodes("relu2(a)", own), nodes("relu2(a)"))
      << "the prelude's relu2 calls the prelude's relu";
  EXPECT_EQ(nodes("relu(a)"), nodes("max(0, a)"));
}

TEST(Parser, values_and_fns_have_names_of_their_own) {
  EXPECT_EQ(canonical(parse_one("coda 1\nprogram p(silu: acc) -> y: T[m, n] { y = silu(silu) }")),
            canonical(parse_one(
                "coda 1\nprogram p(silu: acc) -> y: T[m, n] { y = silu * sigmoid(silu) }")));
}

TEST(Parser, an_fn_may_use_indices_reductions_and_casts) {
  EXPECT_EQ(nodes("f(a)", "fn f(x) = round(x - max[m, n:8](x), bf16) + n * N"),
            nodes("round(a - max[m, n:8](a), bf16) + n * N"));
}

TEST(Parser, two_hundred_nested_brackets_are_allowed) {
  const auto nested = [](int depth) {
    return std::string(depth, '(') + "a" + std::string(depth, ')');
  };
  EXPECT_EQ(nodes(nested(199)), nodes("a"));
  EXPECT_THROW(nodes(nested(200)), Error);
  EXPECT_THROW(nodes(nested(100000)), Error);
}

TEST(Parser, long_sums_do_not_use_the_stack) {
  std::string sum = "a";
  for (int i = 0; i < 5000; ++i) sum += " + x";
  EXPECT_NE(nodes(sum).find("add"), std::string::npos);
}

TEST(Parser, errors_come_in_the_order_of_the_text) {
  EXPECT_EQ(message("coda 1\nprogram p(a: acc) -> y: T[m, n] {\n  y = b\n  z = $\n}").substr(0, 10),
            "f.coda:3:7");
  EXPECT_EQ(message("coda 7 $").substr(0, 8), "f.coda:1");
}

TEST(Parser, columns_count_bytes_from_one_and_comments_may_hold_anything) {
  EXPECT_EQ(message("coda 1 # \xc3\xa9\xff\n\tfn f(x) = y").substr(0, 11), "f.coda:2:12");
}

TEST(Parser, well_known_names_that_are_absent_get_what_to_write_instead) {
  for (const char* name :
       {"softmax", "log_softmax", "layer_norm", "rmsnorm", "matmul", "dot",     "einsum",  "linear",
        "view",    "concat",      "transpose",  "pow",     "exp2",   "log2",    "log10",   "log1p",
        "expm1",   "tan",         "sign",       "floor",   "ceil",   "cast",    "mod",     "and",
        "or",      "not",         "select",     "isnan",   "rand",   "dropout", "one_hot", "gather",
        "cumsum",  "topk",        "avg",        "var",     "std",    "norm",    "argmin",  "any",
        "all",     "swish",       "logistic"}) {
    const std::string text =
        message("coda 1\nprogram p(a: acc) -> y: T[m, n] { y = " + std::string(name) + "(a) }");
    EXPECT_NE(text.find("; fix: "), std::string::npos) << text;
    EXPECT_EQ(text.find("did you mean"), std::string::npos) << text;
    EXPECT_EQ(text.find("define it above"), std::string::npos) << text;
    EXPECT_EQ(text.find("write * for"), std::string::npos) << text;
  }
}

TEST(Parser, only_names_that_begin_alike_and_differ_little_are_suggested) {
  const auto suggested = [](const std::string& name) {
    return message("coda 1\nprogram p(a: acc) -> y: T[m, n] { y = " + name + "(a) }")
               .find("did you mean") != std::string::npos;
  };
  for (const char* close : {"sigmod", "gelutanh", "tahn", "logsumepx", "softpls"})
    EXPECT_TRUE(suggested(close)) << close;
  for (const char* far : {"softmin", "relax", "bound", "xp", "tin", "smooth"})
    EXPECT_FALSE(suggested(far)) << far;
}

TEST(Program, parse_picks_a_program_by_name) {
  const std::string text =
      "coda 1\nprogram one(a: acc) -> y: T[m, n] { y = a }\nprogram two(a: acc) -> z: T[m, n] { z "
      "= -a }\n";
  EXPECT_STREQ(Program::parse(text, "two").name(), "two");
  EXPECT_THROW(Program::parse(text), Error);
  EXPECT_THROW(Program::parse("coda 1\n"), Error);
  try {
    Program::parse(text, "tow");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::program);
    EXPECT_STREQ(error.fix(), "did you mean 'two'?");
  }
}

TEST(Program, load_reads_a_file_and_names_it_in_errors) {
  const std::string path = testing::TempDir() + "load_test.coda";
  std::ofstream(path) << "coda 1\nprogram p(a: acc) -> y: T[m, n] { y = b }\n";
  try {
    Program::load(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.where()), path + ":2:39");
    EXPECT_EQ(error.kind(), ErrorKind::syntax);
  }
  for (const std::string& bad : {path + ".missing", testing::TempDir()}) try {
      Program::load(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io) << bad;
    }
}

TEST(Program, errors_of_the_builder_keep_their_kind) {
  try {
    Program::parse("coda 1\nprogram p(a: acc) -> y: T[m, n] { y = a / sum[m](a) }");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::program);
    EXPECT_STREQ(error.where(), "text:2:41: /");
  }
}

TEST(Program, text_may_be_asked_for_by_several_threads) {
  const Program program = Program::parse("coda 1\nprogram p(a: acc) -> y: T[m, n] { y = silu(a) }");
  std::vector<const char*> texts(4);
  std::vector<std::thread> threads;
  for (const char*& text : texts) threads.emplace_back([&text, program] { text = program.text(); });
  for (std::thread& thread : threads) thread.join();
  for (const char* text : texts) EXPECT_EQ(text, program.text());
  EXPECT_STREQ(Program::parse(program.text()).text(), program.text());
}

}  // namespace
}  // namespace coda::language
