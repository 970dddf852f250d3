// SPDX-License-Identifier: Apache-2.0
// The engine behind `coda check`: runs a program on drawn data of many shapes, types and layouts,
// fused and unfused, against the float64 reference, and its derivative against finite differences.
#pragma once

#include <coda/kernel.h>
#include <coda/program.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace coda::check {

/// One call: M, N, K, T. Its data follow from the seed and the names of the arguments.
struct Case {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::f32;
  uint64_t seed = 1;
};

/// "33x96x40:bf16", the text of --case; the seed is given apart.
std::string to_string(const Case& c);
/// Throws Error{argument} for any other text.
Case parse_case(std::string_view text);

/// What runs a call. The default compiles for the CPU.
using Run = std::function<void(const Program&, const CompileOptions&, const Arguments&)>;
void run_on_cpu(const Program& program, const CompileOptions& options, const Arguments& arguments);

struct Options {
  std::map<std::string, int64_t> sizes;  // size parameters that are given
  bool all = false;                      // the whole grid in place of a few shapes
  std::optional<Case> only;              // this case alone
  std::optional<DType> type;             // runs with this T alone
  uint64_t seed = 1;
  int threads = 0;      // workers; 0: one per core
  double seconds = 10;  // time limit of the quick mode; unused with `all` and `only`
  std::string command = "coda check FILE";  // what repeats a failure begins with
  Run run = run_on_cpu;
  std::function<void(int done, int total)> progress;  // called from one thread at a time
};

struct Row {
  std::string what;  // "fused", "unfused", "refusal of N = 97", "gradient"
  Case c;
  std::map<std::string, int64_t> sizes;
  bool ok = true;
  double ratio = 0;     // largest error / tolerance
  std::string output;   // where it is: the output, or the input of a gradient
  std::string message;  // what is wrong; of a row that is right: a remark, or empty
  std::string repeat;   // the command that repeats a failure
};

struct Report {
  std::string program;
  uint64_t seed = 0;
  std::vector<Row> rows;
  int failures = 0;
  int skipped = 0;  // cases left out because the time was over
  double seconds = 0;

  bool ok() const { return failures == 0; }
};

Report check(const Program& program, const Options& options);

/// One case run fused and unfused.
std::vector<Row> check_runs(const Program& program, const Case& c, const Options& options);

/// The rows of one case: both ways of running it, and the gradient where M x N is small.
std::vector<Row> check_case(const Program& program, const Case& c, const Options& options);

/// A derivative against central differences in float64, at a small shape. One row per gradient; one
/// with a message alone where the program has none, or where every draw lies at a kink.
std::vector<Row> check_gradient(const Program& program, const Derivative& derivative, const Case& c,
                                const Options& options);
std::vector<Row> check_gradient(const Program& program, const Case& c, const Options& options);

}  // namespace coda::check
