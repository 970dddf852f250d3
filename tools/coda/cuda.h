// SPDX-License-Identifier: Apache-2.0
// What the commands ask of the CUDA backend; cuda_absent.cpp stands in for builds without it, and
// refuses.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check/check.h"
#include "check/programs.h"
#include "programs.h"
#include "shell.h"

namespace coda::tool {

struct CudaCheck {
  std::vector<check::NamedProgram> programs;
  std::map<std::string, int64_t> sizes;
  uint64_t generated = 0, seed = 1;
  bool all = false;
  std::optional<check::Case> only;
  std::optional<DType> type;
  std::optional<int> task;
  std::string config;  // empty: chosen
  int threads = 0, launches = 2;
  double seconds = 0;
  std::string command;
  std::function<void(int, int)> progress;
};
/// Throws Error{device} where there is no GPU.
std::vector<check::Report> check_on_cuda(const CudaCheck& options);

struct CudaSuite {
  std::string config,
      only;  // the configuration, empty: chosen; what the names of rows have in them
  uint64_t seed = 1;
  int threads = 0;
};
/// Holds the shapes of models against float64 and prints a line for each.
int check_suite_on_cuda(const Shell& shell, const CudaSuite& options);

struct CudaBench {
  int64_t m = 0, n = 0, k = 0;
  std::string layout = "NT", config;
  std::string suite, only;  // where there are no instances; an empty suite is "kernels"
  std::string commit;       // of coda, for the record
  double seconds = 3;
  int rounds = 3, candidates = 1;
};
/// Times the instances, or without any the rows of the suite whose names have `only` in them, and
/// prints them. kFailed where a row failed.
int bench_on_cuda(const Shell& shell, const std::vector<Instance>& instances,
                  const CudaBench& options);

struct CudaTune {
  CudaBench rows;   // which, and for how long each is timed
  std::string out;  // the file of the table; empty: stdout
  int workers = 0;  // of the compiler; 0: one per core
};
/// Times the best configurations of each row and writes a table of those that win; a table in the
/// file keeps its other entries. kFailed where a row failed.
int tune_on_cuda(const Shell& shell, const std::vector<Instance>& instances,
                 const CudaTune& options);

/// The CUDA text of a call of contiguous tensors and what is said about it.
struct CudaText {
  std::string way;  // "fused pingpong 128x192 ...", or "unfused: reason"
  std::string text;
};
CudaText cuda_text(const Instance& instance, int64_t m, int64_t n, int64_t k,
                   const std::string& layout, const std::string& config);

/// One kernel that was compiled for an instance.
struct CompiledKernel {
  std::string program, layout, way, kernel;
  int registers = 0, spill_bytes = 0;
  bool from_cache = false;
};
std::vector<CompiledKernel> compile_for_cache(const std::vector<check::NamedProgram>& programs,
                                              const std::vector<Instance>& instances,
                                              const std::string& config, int workers,
                                              const std::function<void(size_t, size_t)>& progress);

}  // namespace coda::tool
