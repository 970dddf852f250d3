// SPDX-License-Identifier: Apache-2.0
// The stand-alone CUDA kernels of every library program, of their derivatives and of generated
// programs are printed and compiled by nvcc, in few files; without nvcc the printing alone is
// tested.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "autodiff/differentiate.h"
#include "check/generate.h"
#include "cuda/codegen/pointwise.h"
#include "cuda/scalar/op_text.h"
#include "language/library.h"
#include "language/parser.h"
#include "language/printer.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;

Instance instance_of(const ir::Program& program) {
  Instance instance{std::make_shared<const ir::Program>(program), DType::bf16, {0, 0}};
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i) {
    const std::string& name = program.symbols[i];
    instance.symbols.push_back(name == "dh" ? 64 : name == "part" ? 32 : name[0] == 'n' ? 2 : 128);
  }
  return instance;
}

std::string device_text() {
  return "#include \"" CODA_SOURCE_DIR
         "/src/cuda/standalone/pointwise.cuh\"\nnamespace coda::device {\n" +
         operations_text() + "\n";
}

/// Compiles a file of kernels; returns what nvcc says when it fails.
std::string compile(const std::string& name, const std::string& kernels) {
  const fs::path folder = fs::temp_directory_path() / "coda_pointwise_test";
  fs::create_directories(folder);
  const fs::path source = folder / (name + ".cu"), log = folder / (name + ".log");
  std::ofstream(source) << device_text() << kernels << "}  // namespace coda::device\n";
  const std::string command =
      "nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a -cubin -Werror all-warnings -o " +
      (folder / (name + ".cubin")).string() + " " + source.string() + " > " + log.string() +
      " 2>&1";
  if (std::system(command.c_str()) == 0) return "";
  std::ifstream in(log);
  return source.string() + "\n" + std::string(std::istreambuf_iterator<char>(in), {});
}

bool have_nvcc() { return std::system("nvcc --version > /dev/null 2>&1") == 0; }

std::vector<ir::Program> library_with_derivatives() {
  std::vector<ir::Program> programs;
  for (const auto& file : language::library_files())
    for (ir::Program& program : language::parse_file(file.text, file.name)) {
      programs.push_back(program);
      try {
        programs.push_back(autodiff::differentiate(program, {}).backward);
      } catch (const Error&) {  // nothing to differentiate by, such as argmax
      }
    }
  return programs;
}

std::string kernels_of(const std::vector<ir::Program>& programs, const std::string& prefix) {
  std::string text;
  for (size_t i = 0; i < programs.size(); ++i)
    text += "// " + programs[i].name + "\n" +
            generate_pointwise(instance_of(programs[i]), prefix + std::to_string(i)).text;
  return text;
}

TEST(PointwiseKernels, library_programs_and_their_derivatives_compile) {
  const auto programs = library_with_derivatives();
  ASSERT_GT(programs.size(), 80u);
  const std::string text = kernels_of(programs, "library_");
  if (!have_nvcc()) GTEST_SKIP() << "nvcc is not on the PATH: printed, not compiled";
  EXPECT_EQ(compile("library", text), "");
}

TEST(PointwiseKernels, a_hundred_generated_programs_compile) {
  std::vector<ir::Program> programs;
  for (uint64_t seed = 1; seed <= 100; ++seed) programs.push_back(check::random_program(seed));
  const std::string text = kernels_of(programs, "generated_");
  if (!have_nvcc()) GTEST_SKIP() << "nvcc is not on the PATH: printed, not compiled";
  EXPECT_EQ(compile("generated", text), "");
}

TEST(PointwiseKernels, a_reduction_of_rows_and_columns_is_joined_from_partials) {
  const auto programs =
      language::parse_file("coda 1\nprogram p(x: T[m, n]) -> s: f32[] { s = sum[](x) }", "p.coda");
  const Pointwise kernels = generate_pointwise(instance_of(programs[0]), "p");
  ASSERT_EQ(kernels.passes.size(), 3u);  // a partial for each row, their sum, the output
  EXPECT_EQ(kernels.work.size(), 2u);
  EXPECT_NE(kernels.text.find("finish_partials"), std::string::npos);
}

// dh = 64: the groups are equal in size, not in name.
TEST(PointwiseKernels, groups_of_equal_size_are_counted_from_the_columns_of_the_tile) {
  const auto programs = language::parse_file(
      "coda 1\nprogram p<dh>(x: T[m, n], s: T[m, n:64], t: T[m, n:dh]) -> y: T[m, n] {\n"
      "  y = x * (s * 2 * (t + 1)) }",
      "p.coda");
  const std::string text = generate_pointwise(instance_of(programs[0]), "p").text;
  EXPECT_NE(text.find("const i64 c1 = key / 64ll;"), std::string::npos) << text;
  EXPECT_NE(text.find("const i64 c2 = key / 64ll;"), std::string::npos) << text;
}

}  // namespace
}  // namespace coda::cuda
