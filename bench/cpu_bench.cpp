// SPDX-License-Identifier: Apache-2.0
// Programs on the CPU against oneDNN's bare matrix product, one thread. Each iteration runs the
// bare product (one call for each accumulator, plain [N, K] weight, result in T), the fused and the
// unfused program in turn; the counters are medians over all iterations, so that drifts of the
// machine touch all alike.
#include <benchmark/benchmark.h>
#include <coda/kernel.h>
#include <coda/program.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <dnnl.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/convert.h"

namespace {

using coda::DType;
using dnnl::memory;

constexpr int64_t kM = 512, kN = 2048, kK = 1024;

/// Memory aligned as tensor libraries align it: vectors that straddle cache lines cost both sides
/// time.
struct Buffer {
  explicit Buffer(size_t bytes) : data(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free) {}
  std::byte* get() const { return static_cast<std::byte*>(data.get()); }
  std::unique_ptr<void, void (*)(void*)> data;
};

/// Random numbers in a storage type.
Buffer random_tensor(int64_t count, DType type, unsigned seed) {
  Buffer buffer(static_cast<size_t>(count) * size_of(type));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < count; ++i)
    coda::store_element(buffer.get() + static_cast<size_t>(i) * size_of(type), type,
                        normal(random));
  return buffer;
}

class Bare {
 public:
  explicit Bare(DType type) {
    const auto t = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    description_ = dnnl::matmul::primitive_desc(
        dnnl::matmul::desc({{kM, kK}, t, memory::dims{kK, 1}}, {{kK, kN}, t, memory::dims{1, kK}},
                           {{kM, kN}, t, memory::dims{kN, 1}}),
        engine_);
    matmul_ = dnnl::matmul(description_);
  }
  void run(void* a, void* b, void* c) {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, memory(description_.src_desc(), engine_, a)},
                              {DNNL_ARG_WEIGHTS, memory(description_.weights_desc(), engine_, b)},
                              {DNNL_ARG_DST, memory(description_.dst_desc(), engine_, c)}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul matmul_;
};

/// Processor time of this thread: other load on the machine counts less than in wall time.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void run_program(benchmark::State& state, const char* file, const char* name, DType type) {
  omp_set_num_threads(1);
  const coda::Program program =
      coda::Program::load(std::string(CODA_SOURCE_DIR "/library/") + file, name);
  const bool pair = std::string(name) == "rmsnorm_swiglu";
  const Buffer a = random_tensor(kM * kK, type, 1), b = random_tensor(kN * kK, type, 2),
               b2 = random_tensor(kN * kK, type, 3);
  const Buffer tile = random_tensor(kM * kN, type, 4), row = random_tensor(kN, type, 5);
  // What an RMSNorm before the product gives: it brings the accumulators to about 1.
  const Buffer column(kM * sizeof(float));
  for (int64_t i = 0; i < kM; ++i)
    reinterpret_cast<float*>(column.get())[i] =
        (0.9f + 0.2f * static_cast<float>(i) / kM) / std::sqrt(float{kK});
  const Buffer out1 = random_tensor(kM * kN, type, 7), out2 = random_tensor(kM * kN, type, 8),
               out3 = random_tensor(kM * kN, type, 9);
  const Buffer rstd(kM * sizeof(float));

  coda::Arguments arguments;
  const auto matrix = [&](const Buffer& v) { return coda::matrix_view(v.get(), kM, kN, type); };
  const coda::TensorView view_a = coda::matrix_view(a.get(), kM, kK, type);
  const coda::TensorView view_b = coda::matrix_view(b.get(), kN, kK, type);
  if (pair) {
    arguments.product("gate", view_a, view_b);
    arguments.product("up", view_a, coda::matrix_view(b2.get(), kN, kK, type));
    arguments.tensor("rstd", coda::vector_view(column.get(), kM, DType::f32));
    arguments.tensor("g", matrix(out1)).tensor("u", matrix(out2)).tensor("y", matrix(out3));
  } else {
    arguments.product("a", view_a, view_b);
    arguments.tensor("residual", matrix(tile)).tensor("w", coda::vector_view(row.get(), kN, type));
    arguments.scalar("eps", 1e-5);
    arguments.tensor("x", matrix(out1)).tensor("h", matrix(out2));
    arguments.tensor("rstd", coda::vector_view(rstd.get(), kM, DType::f32));
  }

  Bare bare(type);
  std::vector<double> times[3];
  const auto timed = [&](int which, const auto& body) {
    const double begin = cpu_seconds();
    body();
    times[which].push_back(cpu_seconds() - begin);
    return times[which].back();
  };
  const coda::Kernel kernels[] = {
      coda::compile(program, {}, {.type = type, .fused = true, .threads = 1}),
      coda::compile(program, {}, {.type = type, .fused = false, .threads = 1})};
  const size_t sizes[] = {kernels[0].workspace_bytes(arguments),
                          kernels[1].workspace_bytes(arguments)};
  const Buffer workspaces[] = {Buffer(sizes[0]), Buffer(sizes[1])};
  const auto launch = [&](int i) {
    kernels[i].launch(nullptr, arguments, workspaces[i].get(), sizes[i]);
  };
  launch(0), launch(1);
  for (auto _ : state) {
    timed(0, [&] {
      bare.run(a.get(), b.get(), out1.get());
      if (pair) bare.run(a.get(), b2.get(), out2.get());
    });
    state.SetIterationTime(timed(1, [&] { launch(0); }));
    timed(2, [&] { launch(1); });
  }
  const double bare_time = median(times[0]), fused = median(times[1]), unfused = median(times[2]);
  state.counters["bare_ms"] = bare_time * 1e3;
  state.counters["fused_ms"] = fused * 1e3;
  state.counters["unfused_ms"] = unfused * 1e3;
  state.counters["fused/bare"] = fused / bare_time;
  state.counters["unfused/bare"] = unfused / bare_time;
}

#define CODA_BENCH(name, file, type)                                      \
  BENCHMARK_CAPTURE(run_program, name##_##type, file, #name, DType::type) \
      ->UseManualTime()                                                   \
      ->MinTime(2)                                                        \
      ->Unit(benchmark::kMillisecond)

CODA_BENCH(residual_rms, "norm.coda", f32);
CODA_BENCH(rmsnorm_swiglu, "activation.coda", f32);
CODA_BENCH(residual_rms, "norm.coda", bf16);
CODA_BENCH(rmsnorm_swiglu, "activation.coda", bf16);

}  // namespace

BENCHMARK_MAIN();
