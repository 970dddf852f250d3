// SPDX-License-Identifier: Apache-2.0
//
// Support of the mainloop tests: guarded matrices, tensor maps, launches, references, verdicts.
//
// Every matrix lies between two guard zones, has a padded pitch, and is poisoned with NaN bytes
// before each run; guards and padding must survive. References accumulate in float64. A kernel that
// does not return within ten seconds ends the process with status 3 and names its case.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../../src/cuda/device/kernel.cuh"
#include "../../src/cuda/plan/problem.h"

namespace harness {

using namespace coda::device;

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const auto status = (call);                                                                  \
    if (static_cast<int>(status) != 0) {                                                         \
      std::printf("FAIL %s:%d %s -> %d\n", __FILE__, __LINE__, #call, static_cast<int>(status)); \
      std::fflush(stdout);                                                                       \
      std::exit(2);                                                                              \
    }                                                                                            \
  } while (0)

// ---- numbers
// -------------------------------------------------------------------------------------

__host__ __device__ inline u32 mix(u32 h) {
  h ^= h >> 16;
  h *= 0x7FEB352Du;
  h ^= h >> 15;
  h *= 0x846CA68Bu;
  return h ^ (h >> 16);
}
__device__ inline float normal(u32 seed, u32 index) {
  const u32 a = mix(index * 2u + 1u + mix(seed)), b = mix(a ^ 0x9E3779B9u ^ index);
  const float u = (a + 1.0f) * 2.3283064e-10f, v = b * 2.3283064e-10f;
  return sqrtf(-2.f * logf(fminf(u, 1.f))) * cospif(2.f * v);
}

inline double decode(Type t, const void* p, long long i) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  if (t == Type::f32) return static_cast<const float*>(p)[i];
  if (t == Type::bf16) {
    const u32 x = static_cast<u32>(static_cast<const unsigned short*>(p)[i]) << 16;
    float f;
    std::memcpy(&f, &x, 4);
    return f;
  }
  int e_bits = 5, m_bits = 10;
  u32 x = t == Type::f16 ? static_cast<const unsigned short*>(p)[i] : bytes[i];
  if (t == Type::u8) return x;
  if (t == Type::e4m3) e_bits = 4, m_bits = 3;
  if (t == Type::e5m2) e_bits = 5, m_bits = 2;
  const u32 sign = x >> (e_bits + m_bits), e = x >> m_bits & ((1u << e_bits) - 1),
            m = x & ((1u << m_bits) - 1);
  const int bias = (1 << (e_bits - 1)) - 1;
  double v;
  if (t == Type::e4m3 && e == 15 && m == 7)
    v = NAN;
  else if (t != Type::e4m3 && e == (1u << e_bits) - 1)
    v = m ? NAN : INFINITY;
  else if (e == 0)
    v = std::ldexp(m, 1 - bias - m_bits);
  else
    v = std::ldexp((1u << m_bits) + m, static_cast<int>(e) - bias - m_bits);
  return sign ? -v : v;
}
// Half an ulp of the storage type, relative.
inline double half_ulp(Type t) {
  return t == Type::f32    ? 6e-8
         : t == Type::bf16 ? 1.0 / 256
         : t == Type::f16  ? 1.0 / 2048
         : t == Type::e4m3 ? 1.0 / 16
                           : 1.0 / 8;
}

// ---- matrices
// ------------------------------------------------------------------------------------

inline constexpr size_t kGuard = 4096;

struct Matrix {
  Type type{};
  int rows = 0, cols = 0;
  long long ld = 0;
  char* base = nullptr;
  Matrix() = default;
  Matrix(Type t, int r, int c, int pad = -1) : type(t), rows(r), cols(c) {
    const int unit = 16 / type_bytes(t);
    ld = round_up(c, unit) + (pad < 0 ? unit : pad);
    CHECK(cudaMalloc(&base, bytes() + 2 * kGuard));
    poison();
  }
  Matrix(const Matrix&) = delete;
  Matrix(Matrix&& o) { *this = std::move(o); }
  Matrix& operator=(Matrix&& o) {
    std::swap(base, o.base);
    type = o.type, rows = o.rows, cols = o.cols, ld = o.ld;
    return *this;
  }
  ~Matrix() {
    if (base) cudaFree(base);
  }
  size_t bytes() const { return static_cast<size_t>(rows) * ld * type_bytes(type); }
  char* data() const { return base + kGuard; }
  void poison() {
    CHECK(cudaMemset(base, 0x5A, kGuard));
    CHECK(cudaMemset(data(), 0xFF, bytes()));
    CHECK(cudaMemset(data() + bytes(), 0x5A, kGuard));
  }
  std::vector<char> raw() const {
    std::vector<char> h(bytes());
    CHECK(cudaMemcpy(h.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return h;
  }
  std::vector<double> host() const {
    const auto h = raw();
    std::vector<double> v(static_cast<size_t>(rows) * cols);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c)
        v[static_cast<size_t>(r) * cols + c] = decode(type, h.data(), r * ld + c);
    return v;
  }
  bool guards_intact() const {
    std::vector<unsigned char> h(bytes() + 2 * kGuard);
    CHECK(cudaMemcpy(h.data(), base, h.size(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < kGuard; ++i)
      if (h[i] != 0x5A || h[h.size() - 1 - i] != 0x5A) return false;
    const size_t b = type_bytes(type);
    for (int r = 0; r < rows; ++r)
      for (size_t i = cols * b; i < ld * b; ++i)
        if (h[kGuard + r * ld * b + i] != 0xFF) {
          std::printf("row %d of %d: byte %zu of %zu + padding is %02x\n", r, rows, i, cols * b,
                      h[kGuard + r * ld * b + i]);
          return false;
        }
    return true;
  }
};

static __global__ void fill_kernel(void* data, Type t, int rows, int cols, long long ld,
                                   float scale, float shift, u32 seed) {
  const long long n = static_cast<long long>(rows) * cols;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const float x = normal(seed, static_cast<u32>(i)) * scale + shift;
    const long long at = i / cols * ld + i % cols;
    if (t == Type::f32) static_cast<float*>(data)[at] = x;
    if (t == Type::bf16) static_cast<unsigned short*>(data)[at] = pack<Type::bf16>(x, x);
    if (t == Type::f16) static_cast<unsigned short*>(data)[at] = pack<Type::f16>(x, x);
    if (t == Type::e4m3) static_cast<unsigned char*>(data)[at] = pack<Type::e4m3>(x, x);
    if (t == Type::e5m2) static_cast<unsigned char*>(data)[at] = pack<Type::e5m2>(x, x);
    if (t == Type::u8) static_cast<unsigned char*>(data)[at] = x > 0;
  }
}
inline void fill(const Matrix& m, float scale, u32 seed, float shift = 0.f) {
  fill_kernel<<<1024, 256>>>(m.data(), m.type, m.rows, m.cols, m.ld, scale, shift, seed);
  CHECK(cudaGetLastError());
}
inline Matrix random_matrix(Type t, int r, int c, float scale, u32 seed, float shift = 0.f) {
  Matrix m(t, r, c);
  fill(m, scale, seed, shift);
  return m;
}

// ---- references
// ----------------------------------------------------------------------------------

__device__ inline double element(const void* p, Type t, long long i) {
  if (t == Type::bf16)
    return __uint_as_float(static_cast<u32>(static_cast<const unsigned short*>(p)[i]) << 16);
  float lo, hi;
  unpack_f16(static_cast<const unsigned short*>(p)[i], lo, hi);
  return lo;
}
// acc[m][n] += sum over k; strides say where m, n and k lie.
static __global__ void product_kernel(double* acc, int ldacc, const void* a, long long am,
                                      long long ak, const void* b, long long bn, long long bk,
                                      Type t, int m, int n, int k) {
  __shared__ double as[16][17], bs[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  double sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    const int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = row < m && ka < k ? element(a, t, row * am + ka * ak) : 0;
    bs[threadIdx.y][threadIdx.x] = col < n && kb < k ? element(b, t, col * bn + kb * bk) : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) acc[static_cast<long long>(row) * ldacc + col] += sum;
}

// One accumulator's exact value, built up product by product.
struct Exact {
  int m, n;
  double* acc;
  Exact(int rows, int cols) : m(rows), n(cols) {
    CHECK(cudaMalloc(&acc, sizeof(double) * m * n));
    CHECK(cudaMemset(acc, 0, sizeof(double) * m * n));
  }
  ~Exact() { cudaFree(acc); }
  void add(const Matrix& a, Major am, const Matrix& b, Major bm, int row0 = 0, int col0 = 0) {
    const int pm = am == Major::k ? a.rows : a.cols, k = am == Major::k ? a.cols : a.rows;
    const int pn = bm == Major::k ? b.rows : b.cols;
    const dim3 grid((pn + 15) / 16, (pm + 15) / 16), block(16, 16);
    product_kernel<<<grid, block>>>(acc + static_cast<long long>(row0) * n + col0, n, a.data(),
                                    am == Major::k ? a.ld : 1, am == Major::k ? 1 : a.ld, b.data(),
                                    bm == Major::k ? b.ld : 1, bm == Major::k ? 1 : b.ld, a.type,
                                    pm, pn, k);
    CHECK(cudaGetLastError());
  }
  std::vector<double> host() const {
    std::vector<double> h(static_cast<size_t>(m) * n);
    CHECK(cudaMemcpy(h.data(), acc, sizeof(double) * m * n, cudaMemcpyDeviceToHost));
    return h;
  }
};

// ---- tensor maps and launches
// --------------------------------------------------------------------

inline decltype(&cuTensorMapEncodeTiled) encode_entry() {
  static decltype(&cuTensorMapEncodeTiled) entry = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                           &result));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(f);
  }();
  return entry;
}

inline TensorMap tensor_map(const Matrix& m, int box_cols, int box_rows, int swizzle_bytes) {
  alignas(64) CUtensorMap map;
  const cuuint64_t dims[2] = {static_cast<cuuint64_t>(m.cols), static_cast<cuuint64_t>(m.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(m.ld * type_bytes(m.type))};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t unit[2] = {1, 1};
  const auto type = m.type == Type::f32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                    : m.type == Type::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                    : m.type == Type::f16  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  const auto swizzle = swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                       : swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                             : CU_TENSOR_MAP_SWIZZLE_32B;
  CHECK(encode_entry()(&map, type, 2, m.data(), dims, strides, box, unit,
                       CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  TensorMap out;
  std::memcpy(&out, &map, sizeof map);
  return out;
}

struct Bind {
  std::vector<const Matrix*> tiles;  // tile ports: one per part
  void* data = nullptr;
  long long ld = 0;
  int count = 1;
  float number = 0;
};

struct Options {
  int grid = 0;  // CTAs; 0: all
  int splits = 1;
  int group = 0;
  int along_n = 0;
  bool dependent = false;
};

template <class P>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(Shape<P>::cluster, 1, 1)
    program_kernel(const __grid_constant__ typename Shape<P>::Launch p) {
  run_kernel<P>(p);
}

// a: [segment][part], b: [segment][accumulator][part].
template <class P>
typename Shape<P>::Launch make_launch(int m, int n, const std::vector<const Matrix*>& a,
                                      const std::vector<const Matrix*>& b,
                                      const std::vector<Bind>& binds, const Options& o) {
  static_assert(plan_problem(P::config, P::ports, Shape<P>::ports) == nullptr);
  constexpr Config c = P::config;
  constexpr Plan plan = Shape<P>::plan;
  typename Shape<P>::Launch launch{};
  Geometry& g = launch.geometry;
  g.m = m, g.n = n;
  const int mm = c.tile_m * c.cluster_m, nn = plan.tile_cols * c.cluster_n;
  g.clusters_m = (m + mm - 1) / mm, g.clusters_n = (n + nn - 1) / nn;
  g.group = o.group ? o.group : std::max(1, 2048 / (o.along_n ? nn : mm));
  g.along_n = o.along_n;
  int map = 0;
  for (int s = 0; s < c.segments; ++s) {
    const Matrix& first = *a[s * c.a_parts];
    g.k_blocks[s] = ((c.a_major == Major::k ? first.cols : first.rows) + kBlockK - 1) / kBlockK;
    g.total_blocks += g.k_blocks[s];
    for (int i = 0, at = 0; i < c.a_parts; ++i) {
      const Matrix& x = *a[s * c.a_parts + i];
      g.a_begin[i] = at, at += c.a_major == Major::k ? x.rows : x.cols;
      launch.maps[map++] = c.a_major == Major::k ? tensor_map(x, 64, plan.a_box_rows, 128)
                                                 : tensor_map(x, 64, 64 / plan.a_share, 128);
    }
  }
  for (int s = 0; s < c.segments * c.accumulators; ++s)
    for (int i = 0, at = 0; i < c.b_parts; ++i) {
      const Matrix& x = *b[s * c.b_parts + i];
      g.b_begin[i] = at, at += c.b_major == Major::k ? x.rows : x.cols;
      launch.maps[map++] = c.b_major == Major::k ? tensor_map(x, 64, plan.b_box_rows, 128)
                                                 : tensor_map(x, 64, 64 / plan.b_share, 128);
    }
  for (int i = 0; i < Shape<P>::ports; ++i) {
    const Port port = P::ports[i];
    launch.ports[i] = {binds[i].data, binds[i].ld, binds[i].count, binds[i].number};
    for (const Matrix* t : binds[i].tiles)
      launch.maps[map++] =
          tensor_map(*t, panel_cols(port, c.chunk_cols), 16, panel_bytes(port, c.chunk_cols));
  }
  if (map != plan.maps)
    std::printf("FAIL %d maps given, %d needed\n", map, plan.maps), std::exit(2);
  g.blocks_per_split = (g.total_blocks + o.splits - 1) / o.splits;
  g.splits = (g.total_blocks + g.blocks_per_split - 1) / g.blocks_per_split;
  g.split_rows = g.clusters_m * mm;
  return launch;
}

template <class P>
void launch(const typename Shape<P>::Launch& params, const Options& o) {
  static bool ready = false;
  auto kernel = program_kernel<P>;
  if (!ready)
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Shape<P>::plan.smem_bytes));
  ready = true;
  constexpr int cluster = Shape<P>::cluster;
  const long long items = item_count(params.geometry);
  const int grid =
      static_cast<int>(std::min<long long>(items, (o.grid ? o.grid : 132) / cluster)) * cluster;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = kThreads,
  config.dynamicSmemBytes = Shape<P>::plan.smem_bytes;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute, config.numAttrs = o.dependent ? 1 : 0;
  CHECK(cudaLaunchKernelEx(&config, kernel, params));
}

inline void wait_or_die(const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t s = cudaStreamQuery(nullptr);
    if (s == cudaSuccess) return;
    if (s != cudaErrorNotReady) {
      std::printf("FAIL %-34s %s\n", name.c_str(), cudaGetErrorString(s));
      std::fflush(stdout);
      _exit(3);
    }
    if (std::chrono::steady_clock::now() - begin >
        std::chrono::seconds(getenv("CODA_SLOW") ? 100 : 10)) {
      std::printf("HANG %s\n", name.c_str());
      std::fflush(stdout);
      _exit(3);
    }
    usleep(50);
  }
}

// ---- verdicts
// ------------------------------------------------------------------------------------

struct Verdict {
  std::string name;
  int bad = 0;
  double worst = 0;  // error over what is allowed
  std::string first;
  // Allowed: half an ulp of the type (twice that, for the double rounding of a near tie) + slack.
  void compare(const char* what, const Matrix& got, const std::function<double(int, int)>& want,
               double slack) {
    const auto v = got.host();
    if (!got.guards_intact()) note(what, -1, -1, 0, 0);
    for (int r = 0; r < got.rows; ++r)
      for (int c = 0; c < got.cols; ++c) {
        double w = want(r, c);
        if (got.type == Type::e4m3) w = std::max(-448.0, std::min(448.0, w));
        const double x = v[static_cast<size_t>(r) * got.cols + c], e = std::abs(x - w);
        const double allowed = std::abs(w) * half_ulp(got.type) * 1.001 + slack;
        if (x == w) continue;
        if (!(e <= allowed))
          note(what, r, c, x, w);
        else
          worst = std::max(worst, e / allowed);
      }
  }
  void note(const char* what, int r, int c, double x, double w) {
    if (bad++ == 0) {
      char text[160];
      std::snprintf(text, sizeof text, "%s[%d,%d] is %g, wanted %g", what, r, c, x, w);
      first = r < 0 ? std::string(what) + ": guard or padding written" : text;
    }
  }
  bool report() const {
    std::printf("%s %-44s worst %.2f%s%s\n", bad ? "FAIL" : "ok  ", name.c_str(), worst,
                bad ? (" bad " + std::to_string(bad) + ": ").c_str() : "", first.c_str());
    std::fflush(stdout);
    return bad == 0;
  }
};

// Runs three times from poisoned outputs; all bits must agree.
template <class P>
void run_thrice(Verdict& v, const typename Shape<P>::Launch& params,
                const std::vector<Matrix*>& outputs, const Options& o,
                const std::function<void()>& before = nullptr) {
  std::vector<std::vector<char>> first;
  for (int turn = 0; turn < 3; ++turn) {
    for (Matrix* m : outputs) m->poison();
    if (before) before();
    CHECK(cudaDeviceSynchronize());
    launch<P>(params, o);
    if (o.dependent) launch<P>(params, o);  // overlaps the first one's end
    wait_or_die(v.name);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (turn == 0)
        first.push_back(outputs[i]->raw());
      else if (outputs[i]->raw() != first[i])
        v.note("a second run differs: output", static_cast<int>(i), turn, 0, 0);
    }
  }
}

struct Case {
  std::string name;
  std::function<bool()> run;
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

// harness [first] [only]: runs cases from number `first` on whose name contains `only`.
inline int run_cases(int argc, char** argv) {
  const int first = argc > 1 ? std::atoi(argv[1]) : 0;
  const std::string only = argc > 2 ? argv[2] : "";
  int failed = 0, ran = 0;
  for (int i = first; i < static_cast<int>(cases().size()); ++i) {
    if (cases()[i].name.find(only) == std::string::npos) continue;
    if (FILE* f = std::fopen("/tmp/mainloop_case", "w")) std::fprintf(f, "%d", i), std::fclose(f);
    ++ran;
    failed += !cases()[i].run();
  }
  std::printf("%d of %d cases failed\n", failed, ran);
  return failed != 0;
}

}  // namespace harness
