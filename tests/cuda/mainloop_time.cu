// SPDX-License-Identifier: Apache-2.0
//
// Times kernels against cuBLASLt on the same shape: A B A B in slots of at least 300 ms, medians.
//
// mainloop_time [what] [slot ms]: prints milliseconds of both and their ratio. cuBLASLt is opened at run time
// and computes the bare product (for two accumulators: one product of twice the width).
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>

#include "mainloop_programs.h"

using namespace harness;

namespace {

struct Blas {
  void* library = nullptr;
  cublasLtHandle_t handle{};
  void* workspace = nullptr;
  static constexpr size_t kWorkspace = 64 << 20;
  template <class F>
  F* get(const char* name) {
    auto* f = reinterpret_cast<F*>(dlsym(library, name));
    if (!f) std::printf("FAIL no %s\n", name), std::exit(2);
    return f;
  }
#define BLAS(name) get<decltype(name)>(#name)
  Blas() {
    for (const char* path : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"})
      if (!library) library = dlopen(path, RTLD_NOW);
    if (!library) std::printf("FAIL no cublasLt\n"), std::exit(2);
    CHECK(BLAS(cublasLtCreate)(&handle));
    CHECK(cudaMalloc(&workspace, kWorkspace));
  }
  // Row-major C[m, n] = A B^T in any majors, as the column-major C^T = B A^T.
  std::function<void()> product(const Matrix& a, Major am, const Matrix& b, Major bm, const Matrix& c, int k) {
    cublasLtMatmulDesc_t op;
    CHECK(BLAS(cublasLtMatmulDescCreate)(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t tb = bm == Major::k ? CUBLAS_OP_T : CUBLAS_OP_N, ta = am == Major::k ? CUBLAS_OP_N : CUBLAS_OP_T;
    CHECK(BLAS(cublasLtMatmulDescSetAttribute)(op, CUBLASLT_MATMUL_DESC_TRANSA, &tb, sizeof tb));
    CHECK(BLAS(cublasLtMatmulDescSetAttribute)(op, CUBLASLT_MATMUL_DESC_TRANSB, &ta, sizeof ta));
    const auto type = [](const Matrix& x) { return x.type == Type::f32 ? CUDA_R_32F : CUDA_R_16BF; };
    cublasLtMatrixLayout_t lb, la, lc;
    CHECK(BLAS(cublasLtMatrixLayoutCreate)(&lb, type(b), b.cols, b.rows, b.ld));
    CHECK(BLAS(cublasLtMatrixLayoutCreate)(&la, type(a), a.cols, a.rows, a.ld));
    CHECK(BLAS(cublasLtMatrixLayoutCreate)(&lc, type(c), c.cols, c.rows, c.ld));
    cublasLtMatmulPreference_t preference;
    CHECK(BLAS(cublasLtMatmulPreferenceCreate)(&preference));
    CHECK(BLAS(cublasLtMatmulPreferenceSetAttribute)(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    CHECK(BLAS(cublasLtMatmulAlgoGetHeuristic)(handle, op, lb, la, lc, lc, preference, 1, &found, &count));
    auto* run = BLAS(cublasLtMatmul);
    return [=, this, &a, &b, &c] {
      const float one = 1, zero = 0;
      CHECK(run(handle, op, &one, b.data(), lb, a.data(), la, &zero, c.data(), lc, c.data(), lc, &found.algo, workspace, kWorkspace, nullptr));
    };
  }
};

Blas& blas() {
  static Blas b;
  return b;
}

double slot_ms = 300;

// Milliseconds per call over one slot.
double slot(const std::function<void()>& f, int calls) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (!begin) cudaEventCreate(&begin), cudaEventCreate(&end);
  CHECK(cudaEventRecord(begin));
  for (int i = 0; i < calls; ++i) f();
  CHECK(cudaEventRecord(end));
  wait_or_die("a timed slot");
  float ms;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  return ms / calls;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

void versus(const std::string& name, double flops, const std::function<void()>& reference, const std::vector<std::pair<std::string, std::function<void()>>>& kernels) {
  auto calls = [&](const std::function<void()>& f) {
    slot(f, 2);
    return std::max(1, static_cast<int>(slot_ms / slot(f, 5)) + 1);
  };
  const int n = calls(reference);
  for (const auto& [label, kernel] : kernels) {
    const int k = calls(kernel);
    std::vector<double> base, mine;
    for (int round = 0; round < 2; ++round) base.push_back(slot(reference, n)), mine.push_back(slot(kernel, k));
    base.push_back(slot(reference, n));
    const double b = median(base), m = median(mine);
    std::printf("%-44s %-22s %8.4f ms  cublas %8.4f ms (%3.0f TF)  ratio %.3f  (%.3f %.3f)\n", name.c_str(), label.c_str(), m, b,
                flops / b * 1e-9, m / b, mine[0] / ((base[0] + base[1]) / 2), mine[1] / ((base[1] + base[2]) / 2));
    std::fflush(stdout);
  }
}

constexpr Config tile(Mode mode, int m, int n, int cm, int cn, int stages = 0) {
  return {.mode = mode, .tile_m = m, .tile_n = n, .cluster_m = cm, .cluster_n = cn, .stages = stages, .mask_rows = false, .mask_cols = false};
}
constexpr Config major(Config c, Major a, Major b) {
  c.a_major = a, c.b_major = b;
  return c;
}
constexpr Config with(Config c, int chunk, int loads, int stores, int accs = 1) {
  c.chunk_cols = chunk, c.load_stages = loads, c.store_stages = stores, c.accumulators = accs;
  return c;
}
constexpr Config pdl(Config c) {
  c.pdl = true;
  return c;
}
constexpr auto pp = Mode::pingpong, co = Mode::cooperative;

using Kernels = std::vector<std::pair<std::string, std::function<void()>>>;

template <Config C>
void plain(Kernels& to, const char* label, int m, int n, const Matrix& a, const Matrix& b, const Matrix& out, Options o = {}) {
  using P = Plain<C>;
  const auto p = make_launch<P>(m, n, {&a}, {&b}, {{.tiles = {&out}}}, o);
  to.push_back({label, [=] { launch<P>(p, o); }});
}

Matrix operand(Major order, int mn, int k, float scale, u32 seed) {
  Matrix x(Type::bf16, order == Major::k ? mn : k, order == Major::k ? k : mn, 0);
  fill(x, scale, seed);
  return x;
}

template <Major A, Major B>
void shape(const char* kind, int m, int n, int k, bool all) {
  const Matrix a = operand(A, m, k, 1.f, 1), b = operand(B, n, k, 1.f / std::sqrt(static_cast<float>(k)), 2), c(Type::bf16, m, n, 0);
  const auto reference = blas().product(a, A, b, B, c, k);
  Kernels kernels;
  plain<major(tile(pp, 128, 192, 2, 1), A, B)>(kernels, "pp 128x192 2x1", m, n, a, b, c);
  plain<major(tile(co, 128, 256, 2, 1), A, B)>(kernels, "co 128x256 2x1", m, n, a, b, c);
  if (all) {
    plain<major(tile(pp, 192, 128, 1, 2), A, B)>(kernels, "pp 192x128 1x2", m, n, a, b, c);
    plain<major(tile(co, 256, 128, 1, 2), A, B)>(kernels, "co 256x128 1x2", m, n, a, b, c);
    plain<major(tile(pp, 128, 128, 2, 1), A, B)>(kernels, "pp 128x128 2x1", m, n, a, b, c);
    plain<major(tile(pp, 64, 256, 2, 1), A, B)>(kernels, "pp 64x256 2x1", m, n, a, b, c);
  }
  char text[80];
  std::snprintf(text, sizeof text, "%s %d,%d,%d", kind, m, n, k);
  versus(text, 2.0 * m * n * k, reference, kernels);
}

void shapes(int d, int f, bool all) {
  const int m = 16384, qkv = d == 2048 ? 3072 : 3 * d;
  for (const auto& [n, k] : {std::pair{d, d}, {2 * f, d}, {d, f}, {qkv, d}}) {
    shape<Major::k, Major::k>("nt", m, n, k, all);
    shape<Major::k, Major::mn>("nn", m, k, n, all);
    shape<Major::mn, Major::mn>("tn", n, k, m, all);
  }
}

// Everything the fused programs read and write at (m, n) of one GEMM.
struct Buffers {
  Matrix a, b, b2, both, in1, in2, w, rows, out1, out2, out3, wide, part;
  Buffers(int m, int n, int k, Major bm)
      : a(operand(Major::k, m, k, 1.f, 1)), b(operand(bm, n, k, 1.f / std::sqrt(static_cast<float>(k)), 2)),
        b2(operand(bm, n, k, 1.f / std::sqrt(static_cast<float>(k)), 3)), both(operand(bm, 2 * n, k, 1.f / std::sqrt(static_cast<float>(k)), 4)),
        in1(Type::bf16, m, n, 0), in2(Type::bf16, m, n, 0), w(Type::bf16, 1, n, 0), rows(Type::f32, k / 128, m, 0),
        out1(Type::bf16, m, n, 0), out2(Type::bf16, m, n, 0), out3(Type::bf16, m, n, 0), wide(Type::bf16, m, 2 * n, 0),
        part(Type::f32, std::max(n, m) / 64 + 1, std::max(m, n), 0) {
    fill(in1, 1.f, 5), fill(in2, 1.f, 6), fill(w, 1.f, 7), fill(rows, .1f, 8, 1.f);
  }
};

template <template <Config> class Program>
std::vector<Bind> binds(const Buffers& x);
template <>
std::vector<Bind> binds<Residual>(const Buffers& x) {
  return {{.tiles = {&x.in1}}, {.data = x.w.data()}, {.tiles = {&x.out1}}, {.tiles = {&x.out2}}, {.data = x.part.data(), .ld = x.part.ld}};
}
template <>
std::vector<Bind> binds<Gated>(const Buffers& x) {
  return {{.data = x.rows.data(), .ld = x.rows.ld, .count = x.rows.rows}, {.number = .25f}, {.tiles = {&x.out1}}, {.tiles = {&x.out2}}, {.tiles = {&x.out3}}};
}
template <>
std::vector<Bind> binds<GatedBackward>(const Buffers& x) {
  return {{.tiles = {&x.in1}}, {.tiles = {&x.in2}}, {.tiles = {&x.out1}}, {.tiles = {&x.out2}}, {.tiles = {&x.out3}}, {.data = x.part.data(), .ld = x.part.ld}};
}
template <>
std::vector<Bind> binds<NormBackward>(const Buffers& x) {
  return {{.tiles = {&x.in1}}, {.tiles = {&x.in2}}, {.data = x.w.data()}, {.data = x.rows.data()}, {.data = x.rows.data()}, {.tiles = {&x.out1}}, {.data = x.part.data(), .ld = x.part.ld}};
}

template <template <Config> class Program, Config C>
void fused(Kernels& to, const char* label, int m, int n, const Buffers& x, Options o = {}) {
  using P = Program<C>;
  o.dependent = C.pdl;
  std::vector<const Matrix*> b = {&x.b};
  if (C.accumulators == 2) b.push_back(&x.b2);
  const auto p = make_launch<P>(m, n, {&x.a}, b, binds<Program>(x), o);
  const std::string name = std::string(label) + " s" + std::to_string(Shape<P>::plan.stages) + (o.group ? " g" + std::to_string(o.group) : "");
  to.push_back({name, [=] { launch<P>(p, o); }});
}

constexpr Config nn(Config c) { return major(c, Major::k, Major::mn); }
constexpr Config t192 = tile(pp, 128, 192, 2, 1), t128 = tile(pp, 128, 128, 2, 1), t1921 = tile(pp, 192, 128, 1, 2), t256 = tile(co, 128, 256, 2, 1);

void residuals(int m, int n, int k, bool tune) {
  const Buffers x(m, n, k, Major::k);
  Kernels to;
  fused<Residual, with(t192, 64, 2, 1)>(to, "128x192 c64 l2 s1", m, n, x);
  fused<Residual, with(t192, 32, 2, 2)>(to, "128x192 c32 l2 s2", m, n, x);
  if (tune) {
    fused<Residual, with(t192, 32, 4, 2)>(to, "128x192 c32 l4 s2", m, n, x);
    fused<Residual, pdl(with(t192, 32, 2, 2))>(to, "128x192 c32 l2 s2 pdl", m, n, x);
    fused<Residual, with(t192, 32, 2, 2)>(to, "128x192 c32 l2 s2", m, n, x, {.group = 3});
    fused<Residual, with(t192, 32, 2, 2)>(to, "128x192 c32 l2 s2", m, n, x, {.group = 4});
    fused<Residual, with(t192, 32, 2, 2)>(to, "128x192 c32 l2 s2", m, n, x, {.group = 16});
    fused<Residual, with(t128, 32, 2, 2)>(to, "128x128 c32 l2 s2", m, n, x);
    fused<Residual, with(t128, 64, 2, 2)>(to, "128x128 c64 l2 s2", m, n, x);
  }
  fused<Residual, with(t1921, 32, 2, 2)>(to, "192x128 c32 l2 s2", m, n, x);
  fused<Residual, with(t256, 32, 2, 2)>(to, "co 128x256 c32 l2 s2", m, n, x);
  char text[80];
  std::snprintf(text, sizeof text, "residual %d,%d,%d", m, n, k);
  versus(text, 2.0 * m * n * k, blas().product(x.a, Major::k, x.b, Major::k, x.out1, k), to);
}
void gateds(int m, int f, int k) {
  const Buffers x(m, f, k, Major::k);
  Kernels to;
  fused<Gated, with(t192, 32, 1, 2, 2)>(to, "128x192 c32 s2", m, f, x);
  fused<Gated, with(t192, 32, 1, 1, 2)>(to, "128x192 c32 s1", m, f, x);
  fused<Gated, with(t256, 64, 1, 1, 2)>(to, "co 128x256 c64 s1", m, f, x);
  char text[80];
  std::snprintf(text, sizeof text, "gated %d,2x%d,%d", m, f, k);
  versus(text, 4.0 * m * f * k, blas().product(x.a, Major::k, x.both, Major::k, x.wide, k), to);
}
void gated_backwards(int m, int f, int k, bool tune) {  // dy W: A K-major, B MN-major
  const Buffers x(m, f, k, Major::mn);
  Kernels to;
  fused<GatedBackward, nn(with(t192, 32, 2, 1))>(to, "128x192 c32 l2 s1", m, f, x);
  fused<GatedBackward, nn(with(t192, 32, 2, 2))>(to, "128x192 c32 l2 s2", m, f, x);
  if (tune) {
    fused<GatedBackward, nn(with(t192, 32, 1, 2))>(to, "128x192 c32 l1 s2", m, f, x);
    fused<GatedBackward, nn(with(t192, 32, 3, 1))>(to, "128x192 c32 l3 s1", m, f, x);
    fused<GatedBackward, nn(with(t192, 32, 2, 1))>(to, "128x192 c32 l2 s1", m, f, x, {.group = 4});
    fused<GatedBackward, nn(with(t192, 32, 2, 1))>(to, "128x192 c32 l2 s1", m, f, x, {.group = 16});
    fused<GatedBackward, nn(with(t128, 32, 2, 2))>(to, "128x128 c32 l2 s2", m, f, x);
    fused<GatedBackward, nn(with(t128, 64, 1, 1))>(to, "128x128 c64 l1 s1", m, f, x);
    fused<GatedBackward, nn(with(t1921, 32, 2, 1))>(to, "192x128 c32 l2 s1", m, f, x);
    fused<GatedBackward, pdl(nn(with(t192, 32, 2, 1)))>(to, "128x192 c32 l2 s1 pdl", m, f, x);
  }
  char text[80];
  std::snprintf(text, sizeof text, "gated backward %d,%d,%d", m, f, k);
  versus(text, 2.0 * m * f * k, blas().product(x.a, Major::k, x.b, Major::mn, x.out1, k), to);
}
void norm_backwards(int m, int n, int k) {
  const Buffers x(m, n, k, Major::mn);
  Kernels to;
  fused<NormBackward, nn(with(t192, 32, 2, 2))>(to, "128x192 c32 l2 s2", m, n, x);
  fused<NormBackward, nn(with(t128, 32, 2, 2))>(to, "128x128 c32 l2 s2", m, n, x);
  fused<NormBackward, nn(with(t256, 32, 2, 2))>(to, "co 128x256 c32 l2 s2", m, n, x);
  char text[80];
  std::snprintf(text, sizeof text, "norm backward %d,%d,%d", m, n, k);
  versus(text, 2.0 * m * n * k, blas().product(x.a, Major::k, x.b, Major::mn, x.out1, k), to);
}

// Float32 result: one pass against K split over tiles and summed.
void split_products(int m, int n, int k) {
  const Matrix a = operand(Major::mn, m, k, 1.f, 1), b = operand(Major::mn, n, k, 1.f / std::sqrt(static_cast<float>(k)), 2);
  Matrix out(Type::f32, m, n, 0), parts(Type::f32, 4 * (m + 512), n, 0);
  Kernels to;
  constexpr Config whole = major(t256, Major::mn, Major::mn);
  using P = Plain<whole, Type::f32>;
  const auto p = make_launch<P>(m, n, {&a}, {&b}, {{.tiles = {&out}}}, {});
  to.push_back({"co 128x256 f32", [=] { launch<P>(p, {}); }});
  constexpr Config cut = [] {
    Config c = major(t256, Major::mn, Major::mn);
    c.split_k = true;
    return c;
  }();
  using Q = Plain<cut, Type::f32>;
  for (int splits : {2, 3, 4}) {
    const Options o{.splits = splits};
    const auto q = make_launch<Q>(m, n, {&a}, {&b}, {{.tiles = {&parts}}}, o);
    const SplitSum s{reinterpret_cast<const float*>(parts.data()), parts.ld, static_cast<long long>(q.geometry.split_rows) * parts.ld, nullptr, 0, out.data(), n, q.geometry.splits, m, n};
    to.push_back({"co 128x256 split " + std::to_string(splits), [=] {
                    launch<Q>(q, o);
                    split_sum_kernel<Type::f32, false><<<528, 256>>>(s);
                  }});
  }
  char text[80];
  std::snprintf(text, sizeof text, "tn to f32 %d,%d,%d", m, n, k);
  versus(text, 2.0 * m * n * k, blas().product(a, Major::mn, b, Major::mn, out, k), to);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "shapes";
  if (argc > 2) slot_ms = std::atof(argv[2]);
  if (what == "shapes" || what == "all") shapes(2048, 5632, what == "all"), shapes(4096, 11008, what == "all");
  if (what == "one") {
    shape<Major::k, Major::k>("nt", 8192, 8192, 8192, true);
    shape<Major::k, Major::mn>("nn", 8192, 8192, 8192, true);
    shape<Major::mn, Major::mn>("tn", 8192, 8192, 8192, true);
  }
  if (what == "split") split_products(2048, 2048, 16384), split_products(1024, 1024, 16384), split_products(11264, 2048, 16384);
  if (what == "tune") residuals(16384, 2048, 2048, true), gated_backwards(16384, 5632, 2048, true), norm_backwards(16384, 2048, 2048), norm_backwards(16384, 2048, 11264);
  if (what == "fused") {
    residuals(16384, 2048, 5632, false), residuals(16384, 4096, 11008, false), gateds(16384, 5632, 2048), gateds(16384, 11008, 4096);
    gated_backwards(16384, 11008, 4096, false);
  }
  return 0;
}
