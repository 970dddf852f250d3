// SPDX-License-Identifier: Apache-2.0
//
// The device text as the product uses it: concatenated, no include path, compiled by NVRTC; and the
// plan's header as plain host C++. Needs no GPU. Fails on any ptxas note about spills, stack
// frames, serialised wgmma or an ignored setmaxnreg. Argument: src/cuda.
#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../../src/cuda/device/schedule.cuh"
#include "../../src/cuda/plan/problem.h"

namespace {

using namespace coda::device;

// The order in which the files may be concatenated.
const char* const kFiles[] = {
    "plan/types.h",     "scalar/storage.cuh", "scalar/math.cuh",     "plan/config.h",
    "plan/plan.h",      "device/barrier.cuh", "device/cluster.cuh",  "device/tma.cuh",
    "device/wgmma.cuh", "device/matrix.cuh",  "device/schedule.cuh", "device/mainloop.cuh",
    "device/ports.cuh", "device/reduce.cuh",  "device/epilogue.cuh", "device/kernel.cuh"};

std::string device_text(const std::string& folder) {
  std::string all;
  for (const char* name : kFiles) {
    std::ifstream in(folder + "/" + name);
    for (std::string line; std::getline(in, line);)
      if (line.rfind("#include", 0) && line.rfind("#pragma once", 0)) all += line + "\n";
  }
  return all;
}

const char* kProgram = R"(
namespace generated {
using namespace coda::device;
struct Program {
  static constexpr Config config{.tile_m = 128, .tile_n = 192, .cluster_m = 2, .load_stages = 1,
                                 .store_stages = 1, .mask_rows = false, .mask_cols = false};
  static constexpr Port ports[] = {{.kind = Kind::tile_in, .type = Type::bf16},
                                   {.kind = Kind::row_vector, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::tile_out, .type = Type::bf16},
                                   {.kind = Kind::keep_m, .reduce = Reduce::sum}};
  template <int Pass, class Strip>
  static CODA_DEVICE void apply(Strip& t, const float (&acc)[1][8]) {
    float x[8], w[8], h[8], s[8];
    t.template load<0>(x);
    t.template row_vector<1>(w);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x[i] = acc[0][i] + x[i];
      h[i] = x[i] * w[i];
      s[i] = x[i] * x[i];
    }
    t.template keep_m<4>(s);
    t.template store<2>(x);
    t.template store<3>(h);
  }
};
CODA_KERNEL(program_kernel, Program)
}
)";

}  // namespace

int main(int argc, char** argv) {
  // The host reads the same plan.
  constexpr Port ports[] = {{.kind = Kind::tile_out, .type = Type::bf16}};
  constexpr Config config{.cluster_m = 2};
  static_assert(plan_problem(config, ports, 1) == nullptr);
  static_assert(make_plan(config, ports, 1).stages >= 4);
  Config wrong = config;
  wrong.tile_n = 200;
  std::printf("a wrong configuration: %s\n", plan_problem(wrong, ports, 1));

  const std::string text = device_text(argc > 1 ? argv[1] : "src/cuda") + kProgram;
  nvrtcProgram program;
  nvrtcCreateProgram(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  // Generic lambdas carry no execution space of their own.
  const char* options[] = {"-arch=sm_90a", "-std=c++20", "-default-device", "--ptxas-options=-v"};
  const auto begin = std::chrono::steady_clock::now();
  const nvrtcResult result = nvrtcCompileProgram(program, 4, options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, 0);
  nvrtcGetProgramLog(program, log.data());
  size_t cubin = 0;
  nvrtcGetCUBINSize(program, &cubin);
  std::printf("%s\nresult %d, %.2f s, cubin %zu bytes\n", log.c_str(), result, seconds, cubin);
  bool bad = result != NVRTC_SUCCESS || cubin == 0;
  for (const char* note :
       {"C7504", "C7506", "C7508", "C7509", "C7510", "C7511", "C7515", "C7519", "C7520"})
    bad = bad || log.find(note) != std::string::npos;
  bad = bad || log.find("0 bytes stack frame, 0 bytes spill stores") == std::string::npos;
  return bad;
}
