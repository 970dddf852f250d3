// SPDX-License-Identifier: Apache-2.0
//
// The device's elementary functions over all 2^32 floats, against float64, in ulps. Results below
// 2^-126 may be zero; those within two ulps of the largest float may be infinite.
//
//   nvcc -std=c++20 -O2 -arch=sm_90a --extended-lambda -I src/cuda/scalar tests/cuda/math_accuracy.cu
#include <cstdio>

#include "math.cuh"

namespace {

using namespace coda::device;

struct Worst {
  unsigned long long ulps;  // in 2^-10 of an ulp
  u32 at;
};

__device__ double ulp_of(double x) {
  const double size = fabs(x);
  return size < 0x1p-126 ? 0x1p-149 : exp2(floor(log2(size)) - 23);
}

template <class F, class G>
__global__ void sweep(F f, G exact, float least, Worst* worst) {
  const u32 step = gridDim.x * blockDim.x;
  u32 x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long most = 0;
  u32 at = 0;
  for (unsigned long long n = 0; n < 0x100000000ull / step; ++n, x += step) {
    const float a = __uint_as_float(x);
    if (fabsf(a) < least) continue;
    const float got = f(a);
    const double want = exact(static_cast<double>(a));
    double error = 0;
    if (want != want || got != got)
      error = (want != want) == (got != got) ? 0 : 1e9;
    else if (fabs(want) > 0x1.fffff8p127)
      error = fabsf(got) > 0x1.fffff0p127f && (got > 0) == (want > 0) ? 0 : 1e9;
    else if (!(fabs(want) < 0x1p-126 && fabsf(got) <= 0x1p-126f))
      error = isinf(got) ? 1e9 : fabs(got - want) / ulp_of(want);
    const auto scaled = static_cast<unsigned long long>(error * 1024);
    if (scaled > most) most = scaled, at = x;
  }
  if (atomicMax(&worst->ulps, most) < most) worst->at = at;
}

int failures = 0;

template <class F, class G>
void check(const char* name, double bound, F f, G exact, float least = 0) {
  Worst* found;
  Worst worst{};
  cudaMalloc(&found, sizeof(Worst));
  cudaMemset(found, 0, sizeof(Worst));
  sweep<<<1024, 256>>>(f, exact, least, found);
  const cudaError_t error = cudaMemcpy(&worst, found, sizeof(Worst), cudaMemcpyDeviceToHost);
  cudaFree(found);
  const double ulps = static_cast<double>(worst.ulps) / 1024;
  const bool bad = error != cudaSuccess || ulps > bound;
  failures += bad;
  std::printf("%-10s %8.3f ulp at %08x, bound %.2f%s\n", name, ulps, worst.at, bound,
              error != cudaSuccess ? cudaGetErrorString(error) : bad ? "  FAILED" : "");
}

}  // namespace

int main() {
  check("exp", 2, [] __device__(float a) { return coda::device::exp(a); },
        [] __device__(double a) { return ::exp(a); });
  check("log", 2, [] __device__(float a) { return coda::device::log(a); },
        [] __device__(double a) { return ::log(a); });
  check("tanh", 2, [] __device__(float a) { return coda::device::tanh(a); },
        [] __device__(double a) { return ::tanh(a); });
  check("erf", 2, [] __device__(float a) { return coda::device::erf(a); },
        [] __device__(double a) { return ::erf(a); });
  check("sigmoid", 4, [] __device__(float a) { return coda::device::sigmoid(a); },
        [] __device__(double a) { return 1 / (1 + ::exp(-a)); });
  check("rsqrt", 2, [] __device__(float a) { return coda::device::rsqrt(a); },
        [] __device__(double a) { return 1 / ::sqrt(a); });
  for (const float b : {3.f, -7.25f, 0x1.fffffep-1f, 1e30f, -1e-30f, 0x1p-140f, 0x1.8p127f, 0.f}) {
    const auto f = [=] __device__(float a) { return quotient(a, b); };
    const auto exact = [=] __device__(double a) { return a / static_cast<double>(b); };
    check("a / b", 0.5001, f, exact, 0x1p-100f);
    check("tiny / b", 1.25, f, exact);
  }
  for (const float a : {1.f, 3.1f, 3e38f})
    check("b / a", 0.5001, [=] __device__(float b) { return quotient(a, b); },
          [=] __device__(double b) { return static_cast<double>(a) / b; });
  return failures == 0 ? 0 : 1;
}
