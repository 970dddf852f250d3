// SPDX-License-Identifier: Apache-2.0
//
// Plain products: every tile mode, layout, cluster, type, ragged size, segment and split.
#include "mainloop_programs.h"

using namespace harness;

namespace {

struct Size {
  int m, n;
  std::vector<int> k;  // one per segment
};

// Rows of parts: all but the last are `unit` multiples.
std::vector<int> cut(int total, int parts, int unit) {
  std::vector<int> out;
  for (int i = 0; i < parts - 1; ++i) out.push_back(std::max(unit, total / parts / unit * unit)), total -= out.back();
  out.push_back(total);
  return out;
}

template <Config C, Type Out = C.element>
void add(const char* label, const Size& size, Options o = {}) {
  using P = Plain<C, Out>;
  std::string name = label;
  char text[100];
  std::snprintf(text, sizeof text, " %d,%d,%d g%d", size.m, size.n, size.k[0], o.grid);
  name += text;
  cases().push_back({name, [=] {
    constexpr Config c = P::config;
    constexpr Plan plan = Shape<P>::plan;
    Verdict v{name};
    std::vector<Matrix> store;
    store.reserve(64);
    std::vector<const Matrix*> a, b;
    Exact exact(size.m, size.n);
    const auto rows = cut(size.m, c.a_parts, c.a_major == Major::mn ? 64 : plan.a_box_rows);
    const auto columns = cut(size.n, c.b_parts, c.b_major == Major::mn ? 64 : plan.b_box_rows);
    auto make = [&](Major major, int mn, int k, float scale) {
      store.push_back(random_matrix(c.element, major == Major::k ? mn : k, major == Major::k ? k : mn, scale, 1 + store.size()));
      return &store.back();
    };
    double norm = 0;
    for (int k : size.k) {
      norm += k;
      std::vector<const Matrix*> sa, sb;
      for (int r : rows) sa.push_back(make(c.a_major, r, k, 1.f));
      for (int n : columns) sb.push_back(make(c.b_major, n, k, 1.f / std::sqrt(static_cast<float>(k))));
      for (int i = 0, at = 0; i < c.a_parts; at += rows[i++])
        for (int j = 0, to = 0; j < c.b_parts; to += columns[j++]) exact.add(*sa[i], c.a_major, *sb[j], c.b_major, at, to);
      a.insert(a.end(), sa.begin(), sa.end());
      b.insert(b.end(), sb.begin(), sb.end());
    }
    const int mm = c.tile_m * c.cluster_m, padded = (size.m + mm - 1) / mm * mm;
    Matrix out(Out, c.split_k ? padded * o.splits : size.m, size.n);
    const auto params = make_launch<P>(size.m, size.n, a, b, {{.tiles = {&out}}}, o);
    run_thrice<P>(v, params, {&out}, o);
    const auto want = exact.host();
    const double slack = 3e-6 * std::sqrt(norm) + 1e-6;
    if constexpr (c.split_k) {
      Matrix sum(Type::bf16, size.m, size.n), total(Type::f32, size.m, size.n);
      fill(total, 1.f, 77);
      const auto before = total.host();
      SplitSum s{reinterpret_cast<const float*>(out.data()), out.ld, static_cast<long long>(padded) * out.ld, nullptr, 0, sum.data(), sum.ld, params.geometry.splits, size.m, size.n};
      split_sum_kernel<Type::bf16, false><<<264, 256>>>(s);
      s.old = s.out = total.data(), s.old_ld = s.out_ld = total.ld;
      split_sum_kernel<Type::f32, true><<<264, 256>>>(s);
      wait_or_die(name);
      v.compare("sum", sum, [&](int r, int n) { return want[static_cast<size_t>(r) * size.n + n]; }, slack);
      v.compare("total", total, [&](int r, int n) { return want[static_cast<size_t>(r) * size.n + n] + before[static_cast<size_t>(r) * size.n + n]; }, slack);
    } else {
      v.compare("out", out, [&](int r, int n) { return want[static_cast<size_t>(r) * size.n + n]; }, slack);
    }
    return v.report();
  }});
}

template <Config C>
void add_sizes(const char* label) {
  add<C>(label, {1000, 1160, {520}});
  add<C>(label, {1000, 1160, {520}}, {.grid = 6});
  add<C>(label, {1, 8, {8}});
  add<C>(label, {129, 264, {40}}, {.grid = 2});
}

constexpr Config tile(Mode mode, int m, int n, int cm, int cn) {
  return {.mode = mode, .tile_m = m, .tile_n = n, .cluster_m = cm, .cluster_n = cn};
}
constexpr Config major(Config c, Major a, Major b, Type t = Type::bf16) {
  c.a_major = a, c.b_major = b, c.element = t;
  return c;
}
constexpr Config segments(Config c, int s, int a_parts = 1, int b_parts = 1, int a_box = 0, int b_box = 0) {
  c.segments = s, c.a_parts = a_parts, c.b_parts = b_parts, c.a_box_rows = a_box, c.b_box_rows = b_box;
  return c;
}
constexpr Config split(Config c) {
  c.split_k = true;
  return c;
}
constexpr Config dependent(Config c) {
  c.pdl = true;
  return c;
}
constexpr Config delays(Config c) {
  c.delays = CODA_TEST_DELAYS;
  return c;
}
constexpr auto pp = Mode::pingpong, co = Mode::cooperative;
constexpr auto k = Major::k, mn = Major::mn;

#define TILES(cm, cn, tag)                                       \
  add_sizes<delays(tile(pp, 128, 192, cm, cn))>("nt pp 128x192 " tag); \
  add_sizes<delays(tile(pp, 192, 128, cm, cn))>("nt pp 192x128 " tag); \
  add_sizes<delays(tile(co, 128, 256, cm, cn))>("nt co 128x256 " tag); \
  add_sizes<delays(tile(co, 256, 128, cm, cn))>("nt co 256x128 " tag); \
  add_sizes<delays(tile(pp, 128, 128, cm, cn))>("nt pp 128x128 " tag); \
  add_sizes<delays(tile(pp, 64, 256, cm, cn))>("nt pp 64x256 " tag);

}  // namespace

int main(int argc, char** argv) {
  TILES(2, 1, "2x1")
  TILES(1, 2, "1x2")
#if !CODA_TEST_DELAYS
  TILES(1, 1, "1x1")
  add_sizes<major(tile(pp, 128, 192, 2, 1), k, mn)>("nn pp 128x192 2x1");
  add_sizes<major(tile(co, 128, 256, 2, 1), k, mn)>("nn co 128x256 2x1");
  add_sizes<major(tile(pp, 192, 128, 1, 2), k, mn)>("nn pp 192x128 1x2");
  add_sizes<major(tile(pp, 128, 192, 1, 1), k, mn)>("nn pp 128x192 1x1");
  add_sizes<major(tile(pp, 128, 192, 2, 1), mn, mn)>("tn pp 128x192 2x1");
  add_sizes<major(tile(pp, 192, 128, 1, 2), mn, mn)>("tn pp 192x128 1x2");
  add_sizes<major(tile(co, 256, 128, 1, 2), mn, mn)>("tn co 256x128 1x2");
  add_sizes<major(tile(co, 128, 256, 1, 1), mn, mn)>("tn co 128x256 1x1");
  add_sizes<major(tile(pp, 64, 256, 2, 1), mn, k)>("tt pp 64x256 2x1");
  add_sizes<major(tile(pp, 128, 192, 2, 1), k, k, Type::f16)>("nt f16 pp 128x192 2x1");
  add_sizes<major(tile(co, 128, 256, 2, 1), mn, mn, Type::f16)>("tn f16 co 128x256 2x1");

  add<segments(tile(pp, 128, 192, 2, 1), 3)>("seg3 nt pp 128x192", {1000, 1160, {520, 40, 136}}, {.grid = 6});
  add<segments(tile(pp, 128, 192, 2, 1), 1, 1, 3, 0, 32)>("parts1x3 nt pp 128x192 box32", {1000, 1160, {520}}, {.grid = 6});
  add<segments(tile(co, 128, 256, 2, 1), 2, 1, 3, 0, 8)>("seg2 parts1x3 nt co 128x256 box8", {300, 1160, {136, 72}}, {.grid = 6});
  add<segments(tile(pp, 192, 128, 1, 2), 2, 2, 2, 48, 64)>("seg2 parts2x2 nt pp 192x128", {1000, 1160, {264, 72}}, {.grid = 6});
  add<segments(major(tile(pp, 128, 192, 2, 1), k, mn), 3)>("seg3 nn pp 128x192", {1000, 1160, {520, 40, 136}}, {.grid = 6});
  add<segments(major(tile(pp, 128, 192, 2, 1), mn, mn), 2, 2, 2)>("seg2 parts2x2 tn pp 128x192", {1000, 1160, {520, 40}}, {.grid = 6});

  add<split(major(tile(pp, 128, 192, 2, 1), mn, mn)), Type::f32>("split4 tn pp 128x192", {1000, 1160, {2000}}, {.grid = 6, .splits = 4});
  add<split(major(tile(co, 256, 128, 1, 2), mn, mn)), Type::f32>("split3 tn co 256x128", {520, 392, {4104}}, {.splits = 3});
  add<split(segments(tile(pp, 128, 192, 2, 1), 3)), Type::f32>("split5 seg3 nt pp 128x192", {300, 392, {520, 40, 1000}}, {.grid = 6, .splits = 5});
  add<tile(pp, 128, 192, 2, 1)>("along n, group 3", {2000, 3000, {264}}, {.group = 3, .along_n = 1});
  add<tile(pp, 128, 192, 2, 1)>("group 3", {3000, 2000, {264}}, {.group = 3});
  add<dependent(tile(pp, 128, 192, 2, 1))>("dependent launch", {1000, 1160, {520}}, {.dependent = true});
  add<tile(co, 128, 256, 2, 1)>("many tiles", {4096, 4608, {1024}});
  add<tile(pp, 192, 128, 1, 2)>("many tiles", {4096, 4608, {1024}});
#endif
#if !CODA_TEST_DELAYS
  // Not contracts but facts: whether a load's or a store's edge inside 16 bytes is clipped.
  if (argc > 3) {
    add<tile(pp, 128, 192, 2, 1)>("edge of k", {128, 264, {36}});
    add<tile(pp, 128, 192, 2, 1)>("edge of n", {128, 260, {64}});
  }
#endif
  return run_cases(argc, argv);
}
