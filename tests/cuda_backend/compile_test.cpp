// SPDX-License-Identifier: Apache-2.0
// Kernels are generated and built by NVRTC without a GPU and held to what a kernel may use: every
// program of the library with its derivatives, in the configuration that a call chooses and in
// drawn ones. CODA_EXHAUSTIVE=1 takes f16, every configuration and more generated programs.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "check/generate.h"
#include "check/programs.h"
#include "check/random.h"
#include "cuda/backend/ahead.h"
#include "cuda/lower/split.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;
using check::NamedProgram;
using device::Major;

constexpr int kWorkers = 2;
constexpr const char* kNvrtcIsMissing = "NVRTC is not installed";

bool have_nvrtc() {
  try {
    nvrtc();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool exhaustive() {
  const char* text = std::getenv("CODA_EXHAUSTIVE");
  return text != nullptr && std::string(text) == "1";
}

/// Programs to compile, with the calls that they are compiled for.
struct Batch {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<AheadCall> calls;

  void add(const std::string& name, const ir::Program& program, DType type,
           const std::vector<int64_t>& symbols = {}) {
    auto instance = std::make_unique<Instance>(check::instance_of(program, type));
    if (!symbols.empty()) instance->symbols = symbols;
    if (fused_problem(*instance)) return;
    names.push_back(name + (type == DType::f16 ? " f16" : ""));
    // Extents that no tile divides, so that reductions mask.
    FusedCall call = usual_call(*instance, name.find(".bwd") == std::string::npos ? "NT" : "NN",
                                16200, 4032, 2048)
                         .call;
    calls.push_back({instance.get(), std::move(call), {}});
    instances.push_back(std::move(instance));
  }
};

std::vector<device::Port> ports_of(const AheadCall& call, const device::Config& config) {
  std::vector<device::Port> ports;
  if (config.split_k) return {split_port()};
  for (const FusedPort& port : fused_ports(*call.instance)) ports.push_back(port.port);
  return ports;
}

/// ptxas counts registers at entry, where __launch_bounds__ shares 64 K of them among 384 threads;
/// consumers take more from the producer. Shared memory is the plan's, all of it dynamic.
void expect_within_limits(const std::string& name, const AheadCall& call,
                          const AheadResult& result) {
  ASSERT_FALSE(result.kernels.empty()) << name;
  const std::string main = "coda_" + call.instance->program->name;
  bool found = false;
  for (const KernelResources& kernel : result.kernels) {
    SCOPED_TRACE(name + ": " + kernel.name);
    EXPECT_EQ(kernel.stack_bytes, 0);
    EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes, 0);
    EXPECT_EQ(kernel.shared_bytes, 0);
    if (kernel.name == main) {
      found = true;
      EXPECT_EQ(kernel.registers, 168);
      EXPECT_LE(kernel.barriers, 16);
    } else {
      EXPECT_LE(kernel.registers, 128);
      EXPECT_EQ(kernel.barriers, 0);
    }
  }
  EXPECT_TRUE(found) << name;
  const std::vector<device::Port> ports = ports_of(call, *result.config);
  const device::Plan plan = make_plan(*result.config, ports.data(), static_cast<int>(ports.size()));
  EXPECT_LE(plan.smem_bytes, device::kSmemBudget) << name;
  EXPECT_EQ(
      plan.smem_bytes - plan.barriers_at,
      8 * (2 * device::kMaxStages + 4 + 2 * device::kConsumerWarps * result.config->load_stages))
      << name;
  EXPECT_GE(plan.stages, 2) << name;
}

/// Builds all in their chosen configuration; returns them by call.
std::vector<AheadResult> expect_built(const Batch& batch) {
  std::vector<AheadResult> results = compile_ahead(batch.calls, kWorkers);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].config)
      expect_within_limits(batch.names[i], batch.calls[i], results[i]);
    else
      ADD_FAILURE() << batch.names[i] << " has no kernel: " << results[i].reason;
  }
  return results;
}

TEST(FusedKernels, of_the_library_are_built_as_chosen_and_as_drawn) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  size_t turn_of = 0;  // by default every fourth program stands for its neighbours
  for (const NamedProgram& named : check::all_programs()) {
    if (exhaustive()) batch.add(named.name, named.program, DType::f16);
    if (turn_of++ % 4 == 0 || exhaustive()) batch.add(named.name, named.program, DType::bf16);
  }
  ASSERT_GT(batch.calls.size(), 20u);
  const std::vector<AheadResult> chosen = expect_built(batch);

  // Two others of what the model lists for each. ptxas may refuse these, and says why.
  std::vector<AheadCall> drawn;
  std::vector<size_t> program_of;
  check::Random random(17);
  for (size_t i = 0; i < batch.calls.size(); i += exhaustive() ? 1 : 4) {
    const Instance& instance = *batch.calls[i].instance;
    std::vector<Candidate> all =
        candidates(program_shape(instance, fused_ports(instance)), batch.calls[i].call.problem, {});
    std::erase_if(all, [&](const Candidate& c) {
      return chosen[i].config && to_string(c.config) == to_string(*chosen[i].config);
    });
    for (int turn = 0; turn < 2 && !all.empty(); ++turn) {
      const auto at = all.begin() + random.below(static_cast<int64_t>(all.size()));
      drawn.push_back(batch.calls[i]);
      drawn.back().wish = parse_config(to_string(at->config, at->splits));
      program_of.push_back(i);
      all.erase(at);
    }
  }
  size_t refused = 0;
  const std::vector<AheadResult> results = compile_ahead(drawn, kWorkers);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = batch.names[program_of[i]];
    if (results[i].config) {
      expect_within_limits(name, drawn[i], results[i]);
    } else {
      ++refused;
      EXPECT_NE(results[i].reason, "") << name;
    }
  }
  std::cout << batch.calls.size() << " programs, " << drawn.size() << " drawn configurations, "
            << refused << " of them refused by ptxas\n";
  EXPECT_LT(refused * 2, drawn.size());
}

TEST(FusedKernels, of_turned_operands_parts_and_sums_are_built) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    if (named.name == "residual") batch.add(named.name, named.program, DType::bf16);
  ASSERT_EQ(batch.calls.size(), 1u);
  FusedCall& call = batch.calls[0].call;
  Problem& p = call.problem;
  p.a_major = Major::mn, p.b_major = Major::mn, p.depths = {2048, 100};
  p.a_seams = {128}, p.b_seams = {1024, 2048}, p.tiles_cut_m = p.tiles_cut_n = true;
  call.seams.assign(call.seams.size(), device::Seams::rows);
  call.seams.back() = device::Seams::cols;
  expect_built(batch);
}

TEST(FusedKernels, of_split_products_are_built) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    for (const char* name : {"linear", "residual", "accumulate"})
      if (named.name == name) batch.add(name, named.program, DType::bf16);
  ASSERT_EQ(batch.calls.size(), 3u);
  for (AheadCall& call : batch.calls) call.wish = parse_config("split=4");
  for (const AheadResult& result : expect_built(batch)) {
    ASSERT_TRUE(result.config);
    EXPECT_TRUE(result.config->split_k);
    EXPECT_EQ(result.splits, 4);
  }
}

TEST(FusedKernels, of_programs_that_keep_many_values_take_the_large_tile_in_narrow_strips) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    if (named.name == "rmsnorm_swiglu.bwd(d_y)") batch.add(named.name, named.program, DType::bf16);
  ASSERT_EQ(batch.calls.size(), 1u);
  // The gradients of models of width 2048 and 4096: no tile divides N.
  AheadCall wide = batch.calls[0];
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{5632, 2048}, {11008, 4096}}) {
    batch.calls.push_back(wide);
    batch.calls.back().call = usual_call(*wide.instance, "NN", 16384, n, k).call;
    batch.names.push_back(batch.names[0] + " N = " + std::to_string(n));
  }
  for (const AheadResult& result : expect_built(batch)) {
    ASSERT_TRUE(result.config);
    EXPECT_EQ(result.config->tile_m * result.config->tile_n, 128 * 192);
    EXPECT_EQ(result.config->pair, device::kNarrow);
  }
}

// Without masks both tiles that the model has first spill; the large one does not in narrow strips.
TEST(FusedKernels, of_a_vocabulary_are_built_after_ptxas_refused_some) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    if (named.name == "lse_target") batch.add(named.name, named.program, DType::bf16);
  ASSERT_EQ(batch.calls.size(), 1u);
  batch.calls[0].call = usual_call(*batch.calls[0].instance, "NT", 8192, 32768, 2048).call;
  const AheadResult result = expect_built(batch).at(0);
  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->tile_m * result.config->tile_n, 128 * 192);
}

TEST(FusedKernels, a_dump_compiles_alone_with_nvcc) {
  if (std::system("nvcc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no nvcc on the PATH";
  for (const NamedProgram& named : check::all_programs()) {
    if (named.name != "residual_rms") continue;
    const Instance instance = check::instance_of(named.program, DType::bf16);
    const auto ports = fused_ports(instance);
    const auto all = candidates(program_shape(instance, ports),
                                usual_call(instance, "NT", 16384, 4096, 2048).call.problem, {});
    const Source source =
        Fused90::source(instance, all.at(0).config, std::vector<device::Seams>(ports.size()));
    const fs::path folder = fs::path(testing::TempDir()) / "coda_backend_test";
    fs::create_directories(folder);
    std::ofstream(folder / "dump.cu") << source.text;
    const std::string command = "nvcc -std=c++20 -gencode=arch=compute_90a,code=sm_90a -cubin -o " +
                                (folder / "dump.cubin").string() + " " +
                                (folder / "dump.cu").string() + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
}

TEST(FusedKernels, of_every_configuration_are_built) {
  if (!exhaustive()) GTEST_SKIP() << "CODA_EXHAUSTIVE=1 runs it";
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    batch.add(named.name, named.program, DType::bf16);
  std::vector<AheadCall> calls;
  std::vector<size_t> program_of;
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    const Instance& instance = *batch.calls[i].instance;
    for (const Candidate& c : candidates(program_shape(instance, fused_ports(instance)),
                                         batch.calls[i].call.problem, {})) {
      calls.push_back(batch.calls[i]);
      calls.back().wish = parse_config(to_string(c.config, c.splits));
      program_of.push_back(i);
    }
  }
  const std::vector<AheadResult> results = compile_ahead(calls, 0);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = batch.names[program_of[i]];
    if (results[i].config)
      expect_within_limits(name, calls[i], results[i]);
    else
      EXPECT_NE(results[i].reason, "") << name;
  }
}

TEST(FusedKernels, of_generated_programs_are_built) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (uint64_t seed = 1; seed <= (exhaustive() ? 300u : 12u); ++seed) {
    const ir::Program program = check::random_program(seed);
    std::vector<int64_t> symbols(program.symbols.size(), 8);
    symbols[ir::kSymbolM] = symbols[ir::kSymbolN] = 0;
    batch.add("seed " + std::to_string(seed), program, DType::bf16, symbols);
  }
  EXPECT_GT(batch.calls.size(), 0u);
  expect_built(batch);
}

TEST(Cache, is_filled_without_a_driver) {
  if (!have_nvrtc()) GTEST_SKIP() << kNvrtcIsMissing;
  Batch batch;
  for (const NamedProgram& named : check::all_programs())
    if (named.name == "bias") batch.add(named.name, named.program, DType::bf16);
  ASSERT_EQ(batch.calls.size(), 1u);
  batch.calls[0].wish = parse_config("pingpong 128x128 2x1");
  const AheadResult first = compile_ahead(batch.calls, kWorkers).at(0);
  ASSERT_TRUE(first.config) << first.reason;
  EXPECT_TRUE(to_string(*first.config).starts_with("pingpong 128x128 2x1"));
  const Instance* const instance = batch.calls[0].instance;
  const AheadResult unfused = compile_unfused_ahead({&instance, 1}, kWorkers).at(0);
  EXPECT_FALSE(unfused.kernels.empty());
  if (default_cache().folder().empty()) GTEST_SKIP() << "there is no cache";
  EXPECT_TRUE(compile_ahead(batch.calls, kWorkers).at(0).from_cache);
  EXPECT_TRUE(compile_unfused_ahead({&instance, 1}, kWorkers).at(0).from_cache);
}

}  // namespace
}  // namespace coda::cuda
