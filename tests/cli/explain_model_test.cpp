// SPDX-License-Identifier: Apache-2.0
// What explain prints of a model, by numbers that can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "command.h"

namespace coda::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string model(const std::string& name) {
  return "explain --model " CODA_SOURCE_DIR "/tests/cli/models/" + name;
}

json report(const std::string& name, const std::string& more = "--tokens 8192 --machine H100") {
  const Outcome run = run_coda(model(name) + " --json " + more);
  EXPECT_EQ(run.status, 0) << run.err;
  return json_of(run);
}

double moved(const json& phase) {
  return phase["bytes_read"].get<double>() + phase["bytes_written"].get<double>();
}

/// What holds of every model: sums are of their kernels, rooflines are the longer of the two times,
/// rewriting moves less and multiplies the same.
void expect_consistent(const json& report) {
  const double tokens = report["tokens"];
  for (const char* side : {"before", "after"})
    for (const char* direction : {"forward", "backward"}) {
      const json& phase = report["block"][side][direction];
      double read = 0, written = 0, flops = 0;
      int gemms = 0;
      std::map<std::string, double> seconds;
      for (const json& kernel : phase["kernels"]) {
        read += kernel["bytes_read"].get<double>();
        written += kernel["bytes_written"].get<double>();
        flops += kernel["product_flops"].get<double>();
        gemms += kernel["gemm"].get<bool>();
        EXPECT_EQ(kernel["gemm"].get<bool>(), kernel["product_flops"].get<double>() > 0);
        EXPECT_EQ(kernel["gemm"].get<bool>(), !kernel["products"].get<std::string>().empty());
        EXPECT_THAT(kernel["program"].get<std::string>(), HasSubstr("program "));
        for (const json& machine : report["machines"]) {
          const std::string name = machine["name"];
          const double time = kernel["seconds"][name];
          EXPECT_DOUBLE_EQ(time,
                           std::max(kernel["product_flops"].get<double>() /
                                        machine["flops_per_second"].get<double>(),
                                    moved(kernel) / machine["bytes_per_second"].get<double>()));
          seconds[name] += time;
        }
      }
      EXPECT_DOUBLE_EQ(phase["bytes_read"].get<double>(), read);
      EXPECT_DOUBLE_EQ(phase["bytes_written"].get<double>(), written);
      EXPECT_DOUBLE_EQ(phase["product_flops"].get<double>(), flops);
      EXPECT_EQ(phase["gemms"], gemms);
      EXPECT_EQ(phase["kernels"].size(),
                phase["gemms"].get<size_t>() + phase["passes"].get<size_t>());
      for (const auto& [name, time] : seconds)
        EXPECT_DOUBLE_EQ(phase["seconds"][name].get<double>(), time);
      EXPECT_GT(moved(phase), tokens * phase["matrix_bytes_per_token"].get<double>());
    }
  for (const char* direction : {"forward", "backward"}) {
    const json& before = report["block"]["before"][direction];
    const json& after = report["block"]["after"][direction];
    EXPECT_EQ(before["product_flops"], after["product_flops"]);
    EXPECT_LT(moved(after), moved(before));
    EXPECT_LT(after["gemms"], before["gemms"]);
    EXPECT_LT(after["passes"], before["passes"]);
    EXPECT_LT(after["seconds"]["H100"], before["seconds"]["H100"]);
  }
}

/// Every weight of a block and its gradient, and the two products of a token's gradients.
void expect_products(const json& report, double weights) {
  const json& after = report["block"]["after"];
  const double tokens = report["tokens"];
  EXPECT_EQ(after["forward"]["product_flops"], 2 * tokens * weights);
  EXPECT_EQ(after["backward"]["product_flops"], 4 * tokens * weights);
}

TEST(explain_model, a_block_of_llama_is_four_products_and_eight) {
  const json r = report("llama2-7b");
  expect_consistent(r);
  const double d = 4096, f = 11008;
  expect_products(r, 4 * d * d + 3 * d * f);
  const json& before = r["block"]["before"];
  const json& after = r["block"]["after"];
  EXPECT_EQ(after["forward"]["gemms"], 4);
  EXPECT_EQ(after["forward"]["passes"], 0);
  EXPECT_EQ(after["backward"]["gemms"], 8);
  EXPECT_EQ(after["backward"]["passes"], 1);
  EXPECT_LE(after["forward"]["matrix_bytes_per_token"], 24 * d + 8 * f);
  EXPECT_LE(after["backward"]["matrix_bytes_per_token"], 62 * d + 20 * f);
  EXPECT_LE(after["saved"]["matrix_bytes_per_token"], 12 * d + 4 * f);
  EXPECT_EQ(after["forward"]["matrices"], "24 Md + 8 Mf");
  EXPECT_EQ(before["forward"]["gemms"], 7);
  EXPECT_EQ(before["backward"]["gemms"], 14);
  EXPECT_GE(before["forward"]["matrix_bytes_per_token"], 40 * d + 12 * f);
}

TEST(explain_model, a_kernel_is_counted_by_hand) {
  const json r = report("llama2-7b", "--tokens 1000 --machine H100,H200");
  const double d = 4096, f = 11008, m = 1000;
  // The first: y0 by the output projection; the residual is added, the norm's weight and its sum
  // of squares are taken along.
  const json& o = r["block"]["after"]["forward"]["kernels"][0];
  EXPECT_EQ(o["products"], "y0 * o");
  EXPECT_EQ(o["bytes_read"], 2 * m * d + 2 * m * d + 2 * d * d + 2 * d);
  EXPECT_EQ(o["bytes_written"], 2 * m * d + 2 * m * d + 4 * m);
  EXPECT_EQ(o["product_flops"], 2 * m * d * d);
  EXPECT_DOUBLE_EQ(o["seconds"]["H100"].get<double>(), 2 * m * d * d / 989e12);
  // The gate: the pair is multiplied at once, and stored for the backward with its product.
  const json& gate = r["block"]["after"]["forward"]["kernels"][1];
  EXPECT_EQ(gate["products"], "gate|up.in * gate|up");
  EXPECT_EQ(gate["bytes_read"], 2 * m * d + 4 * m + 2 * 2 * f * d);
  EXPECT_EQ(gate["bytes_written"], 2 * m * 2 * f + 2 * m * f);
  EXPECT_EQ(gate["product_flops"], 2 * m * d * 2 * f);
}

TEST(explain_model, memory_is_that_of_training_the_model) {
  const json r = report("llama2-7b");
  const int64_t parameters = 6738415616;  // as published
  EXPECT_EQ(r["model"]["parameters"], parameters);
  const json& bytes = r["training_bytes"];
  EXPECT_EQ(bytes["weights"], 2 * parameters);
  EXPECT_EQ(bytes["masters"], 4 * parameters);
  EXPECT_EQ(bytes["moments"], 8 * parameters);
  EXPECT_EQ(bytes["gradients"], 4 * parameters);
  EXPECT_EQ(bytes["total"], 18 * parameters + bytes["activations"].get<int64_t>());
  // Saved of each layer: y, the residual stream twice, q, k and v, and the gate.
  const int64_t saved = int64_t{32} * 8192 * (12 * 4096 + 4 * 11008);
  EXPECT_GT(bytes["activations"], saved);
  EXPECT_LT(bytes["activations"], saved + saved / 5);
  int64_t peak = 0;
  for (const json& tensor : bytes["peak"]) peak += tensor["bytes"].get<int64_t>();
  EXPECT_LE(peak, bytes["activations"]);
  EXPECT_GT(peak, saved);

  const json in_type =
      report("llama2-7b", "--tokens 8192 --machine H100 --state model")["training_bytes"];
  EXPECT_EQ(in_type["masters"], 0);
  EXPECT_EQ(in_type["moments"], 4 * parameters);
}

TEST(explain_model, gemma_keeps_passes_for_its_norms_behind_products) {
  const json r = report("gemma2-2b");
  expect_consistent(r);
  const double d = 2304, f = 9216, q = 2048, kv = 1024;
  expect_products(r, d * q + d * (q + 2 * kv) + 3 * d * f);
  EXPECT_EQ(r["model"]["parameters"], 2614341888);  // as published
  EXPECT_EQ(r["block"]["after"]["forward"]["gemms"], 4);
  EXPECT_GT(r["block"]["after"]["forward"]["passes"], 0);
  EXPECT_EQ(r["block"]["after"]["backward"]["gemms"], 8);
}

TEST(explain_model, qwen_norms_its_heads_on_the_product) {
  const json r = report("qwen3-8b");
  expect_consistent(r);
  const double d = 4096, f = 12288, q = 4096, kv = 1024;
  expect_products(r, d * q + d * (q + 2 * kv) + 3 * d * f);
  EXPECT_EQ(r["model"]["parameters"], 8190735360);  // as published
  EXPECT_EQ(r["block"]["after"]["forward"]["gemms"], 4);
  EXPECT_EQ(r["block"]["after"]["forward"]["passes"], 0);
}

TEST(explain_model, wider_types_move_more_and_multiply_slower) {
  const json narrow = report("llama2-7b", "--tokens 64 --machine H200");
  const json wide = report("llama2-7b", "--tokens 64 --machine H200 --type f32");
  const json& a = narrow["block"]["after"]["forward"];
  const json& b = wide["block"]["after"]["forward"];
  EXPECT_EQ(b["matrix_bytes_per_token"], 2 * a["matrix_bytes_per_token"].get<int64_t>());
  EXPECT_EQ(b["matrices"], "48 Md + 16 Mf");
  EXPECT_GT(b["seconds"]["H200"], a["seconds"]["H200"]);
}

TEST(explain_model, widths_that_coincide_are_not_told_apart) {
  const Folder folder;
  const std::string config = folder.file("config.json", R"({
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 96,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu"})");
  const std::string command = "explain --tokens 64 --machine H100 --model " + config;
  const json r = json_of(run_coda(command + " --json"));
  const json& forward = r["block"]["after"]["forward"];
  EXPECT_EQ(forward["matrices"], "");
  EXPECT_EQ(forward["matrix_bytes_per_token"], (24 + 8) * 64);
  const Outcome text = run_coda(command);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, Not(HasSubstr("Md")));
}

TEST(explain_model, the_processor_is_measured) {
  const json r = report("llama2-7b", "--tokens 16 --machine cpu");
  ASSERT_EQ(r["machines"].size(), 1U);
  const json& cpu = r["machines"][0];
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_TRUE(cpu["measured"]);
  EXPECT_GT(cpu["flops_per_second"], 1e8);
  EXPECT_LT(cpu["flops_per_second"], 1e15);
  EXPECT_GT(cpu["bytes_per_second"], 1e8);
  EXPECT_LT(cpu["bytes_per_second"], 1e13);
  EXPECT_GT(cpu["memory_bytes"], 1e8);
}

TEST(explain_model, the_text_is_a_table_of_fewer_than_100_columns) {
  for (const char* name : {"llama2-7b", "gemma2-2b", "qwen3-8b"}) {
    const Outcome run = run_coda(model(name) + " --tokens 8192");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.err, "");
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LT(line.size(), 100U) << line;
      EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    }
    for (const char* text : {"H100 ms", "H200 ms", "cpu ms", "GEMMs and passes", "after, forward",
                             "saved for the backward", "activations", "fits"})
      EXPECT_THAT(run.out, HasSubstr(text)) << name;
    EXPECT_THAT(run.out, Not(HasSubstr("%"))) << run.out;
    EXPECT_THAT(run.out, Not(HasSubstr("nan"))) << run.out;
  }
}

TEST(explain_model, programs_are_printed_as_text_that_parses) {
  const Outcome run = run_coda(model("llama2-7b") + " --tokens 64 --machine H100 --programs");
  ASSERT_EQ(run.status, 0) << run.err;
  const size_t begin = run.out.find("\n# on y0 * o\n");
  ASSERT_NE(begin, std::string::npos) << run.out;
  const Folder folder;
  const std::string file = folder.file("block.coda", "coda 1\n" + run.out.substr(begin));
  const Outcome check = run_coda("check --quiet " + file);
  EXPECT_EQ(check.status, 0) << check.out << check.err;
}

TEST(explain_model, passes_are_dumped_in_their_order) {
  const Outcome run = run_coda(model("llama2-7b") + " --dump-passes");
  ASSERT_EQ(run.status, 0) << run.err;
  size_t at = 0;
  for (const char* pass :
       {"graph", "expand", "defer", "join", "differentiate", "sum_products", "cut", "chunk"}) {
    const size_t next = run.out.find(std::string("== ") + pass + ": ", at);
    ASSERT_NE(next, std::string::npos) << pass;
    at = next;
  }
  EXPECT_THAT(run.out, HasSubstr("rms_norm"));
  const json r = report("llama2-7b", "--tokens 64 --dump-passes");
  ASSERT_EQ(r["passes"].size(), 8U);
  EXPECT_EQ(r["passes"][1]["pass"], "expand");
  EXPECT_THAT(r["passes"][0]["ir"].get<std::string>(), HasSubstr("rms_norm"));
  EXPECT_THAT(r["passes"][1]["ir"].get<std::string>(), Not(HasSubstr("rms_norm")));
}

TEST(explain_model, bad_input_is_one_error) {
  const Folder folder;
  const std::string text = folder.file("text", "no json");
  const std::string missing = folder.path() + "/missing.json";
  const std::string unknown = folder.file("config.json", R"({"model_type": "mamba"})");
  const auto expect = [](const std::string& arguments, const std::string& message, int status = 2) {
    const Outcome run = run_coda("explain " + arguments);
    EXPECT_EQ(run.status, status) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(run.err, message) << arguments;
  };
  const std::string llama = "--model " CODA_SOURCE_DIR "/tests/cli/models/llama2-7b ";
  const auto tokens = [](const std::string& got) {
    return "error: --tokens\n"
           "  expected  the tokens of a step, a number from 1 to 2^32\n"
           "  got       " +
           got +
           "\n"
           "  fix       a batch of 4 sequences of 2048 is --tokens 8192\n";
  };
  expect(llama, tokens("none"));
  expect(llama + "--tokens 0", tokens("0"));
  expect(llama + "--tokens -5", tokens("-5"));
  expect(llama + "--tokens 4294967297", tokens("4294967297"));
  expect(llama + "--tokens 64 --machine H100,A100",
         "error: --machine\n"
         "  expected  H100, H200 or cpu\n"
         "  got       'A100'\n"
         "  fix       several are written with commas: --machine H100,cpu\n");
  expect("residual_rms -m 8 -n 8 -k 8 " + llama + "--tokens 64",
         "error: explain\n"
         "  expected  a program, FILE, or a model, --model CONFIG\n"
         "  got       both\n"
         "  fix       leave one of them out\n");
  expect("",
         "error: explain\n"
         "  expected  a program, FILE, or a model, --model CONFIG\n"
         "  got       neither\n"
         "  fix       name one of them\n");
  expect("residual_rms -n 8",
         "error: -m\n"
         "  expected  the rows of the program, tokens\n"
         "  got       none\n"
         "  fix       add -m 8192\n");
  expect("residual_rms -m 8",
         "error: -n\n"
         "  expected  the columns of the program, output features\n"
         "  got       none\n"
         "  fix       add -n 2048\n");
  expect("residual_rms -m 8 -n 8 -k 8 --tokens 64",
         "error: --tokens\n"
         "  expected  an option of a program\n"
         "  got       an option of --model\n"
         "  fix       leave --tokens out\n");
  expect(llama + "--tokens 64 -k 8",
         "error: -k\n"
         "  expected  an option of --model\n"
         "  got       an option of a program\n"
         "  fix       leave -k out\n");
  expect("--tokens 64 --model " + missing, "error: " + missing +
                                               "\n"
                                               "  expected  a file that can be read\n"
                                               "  got       No such file or directory\n"
                                               "  fix       check the path\n");
  expect("--tokens 64 --model " + text,
         "error: " + text +
             "\n"
             "  expected  valid JSON\n"
             "  got       parse error at line 1, column 2: syntax error while parsing value - "
             "invalid literal; last read: 'no'\n"
             "  fix       write the file again\n");
  expect("--tokens 64 --model " + unknown,
         "error: " + unknown +
             ": key 'model_type'\n"
             "  expected  one of llama, mistral, qwen2, qwen3, gemma2, gemma3_text\n"
             "  got       \"mamba\"\n"
             "  fix       use a model of one of these families\n",
         3);
  const Outcome run = run_coda("explain " + llama + "--tokens 0 --json");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(json_of(run)["error"]["where"], "--tokens");
}

}  // namespace
}  // namespace coda::test
