// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: every port kind, width and type, checked against float64.
#include "mainloop_programs.h"

using namespace harness;

namespace {

constexpr Config tile(Mode mode, int m, int n, int cm, int cn, int chunk, int accs = 1, int loads = 2, int stores = 2) {
  return {.mode = mode, .tile_m = m, .tile_n = n, .cluster_m = cm, .cluster_n = cn, .accumulators = accs,
          .chunk_cols = chunk, .load_stages = loads, .store_stages = stores, .delays = CODA_TEST_DELAYS};
}
constexpr Config paired(Config c, int pair, int passes = 1) {
  c.pair = pair, c.passes = passes;
  return c;
}
constexpr auto pp = Mode::pingpong, co = Mode::cooperative;

// One product per accumulator, shared A.
struct Operands {
  std::vector<Matrix> all;
  std::vector<const Matrix*> a, b;
  std::vector<std::vector<double>> exact;
  double slack;
  Operands(const Config& c, int m, int n, int k, float scale = 1.f) : slack(scale * (3e-6 * std::sqrt(k) + 1e-6)) {
    all.reserve(4);
    auto make = [&](int rows, float s) {
      all.push_back(random_matrix(c.element, rows, k, s, 11 + all.size()));
      return &all.back();
    };
    a = {make(m, 1.f)};
    for (int i = 0; i < c.accumulators; ++i) {
      b.push_back(make(n, scale / std::sqrt(static_cast<float>(k))));
      Exact e(m, n);
      e.add(*a[0], Major::k, *b[i], Major::k);
      exact.push_back(e.host());
    }
  }
};

struct Size {
  int m, n, k;
  Options o;
};

template <class P>
void add(const char* label, const Size& s, std::function<void(Verdict&, Operands&)> body) {
  char text[120];
  std::snprintf(text, sizeof text, "%s %s %dx%d c%d %d,%d,%d g%d", label, P::config.mode == pp ? "pp" : "co",
                P::config.tile_m, P::config.tile_n, P::config.chunk_cols, s.m, s.n, s.k, s.o.grid);
  const std::string name = text;
  cases().push_back({name, [=] {
                       Verdict v{name};
                       Operands x(P::config, s.m, s.n, s.k);
                       body(v, x);
                       return v.report();
                     }});
}

double at(const std::vector<double>& v, int cols, int r, int c) { return v[static_cast<size_t>(r) * cols + c]; }

// Sums partials over tiles: [tiles][m].
std::vector<double> sum_tiles(const Matrix& p) {
  const auto v = p.host();
  std::vector<double> s(p.cols);
  for (int t = 0; t < p.rows; ++t)
    for (int i = 0; i < p.cols; ++i) s[i] += at(v, p.cols, t, i);
  return s;
}
template <class P>
int tiles_n(int n) {
  return (n + Shape<P>::plan.tile_cols - 1) / Shape<P>::plan.tile_cols;
}
template <class P>
int tiles_m(int m) {
  return (m + P::config.tile_m - 1) / P::config.tile_m;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <Config C>
void add_residual(const Size& s) {
  using P = Residual<C>;
  add<P>("residual", s, [=](Verdict& v, Operands& x) {
    Matrix res = random_matrix(Type::bf16, s.m, s.n, 1.f, 21), w = random_matrix(Type::bf16, 1, s.n, 1.f, 22);
    Matrix sum(Type::bf16, s.m, s.n), h(Type::bf16, s.m, s.n), part(Type::f32, tiles_n<P>(s.n), s.m, 0);
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.tiles = {&res}}, {.data = w.data()}, {.tiles = {&sum}}, {.tiles = {&h}}, {.data = part.data(), .ld = part.ld}}, s.o);
    run_thrice<P>(v, params, {&sum, &h, &part}, s.o);
    const auto r = res.host(), wh = w.host();
    auto value = [&](int i, int j) { return at(x.exact[0], s.n, i, j) + at(r, s.n, i, j); };
    v.compare("x", sum, value, x.slack);
    v.compare("h", h, [&](int i, int j) { return value(i, j) * wh[j]; }, 5 * x.slack);
    const auto total = sum_tiles(part);
    for (int i = 0; i < s.m; ++i) {
      double want = 0;
      for (int j = 0; j < s.n; ++j) want += value(i, j) * value(i, j);
      if (!(std::abs(total[i] - want) <= 1e-5 * want + 1e-5)) v.note("sum", i, 0, total[i], want);
    }
  });
}

template <Config C>
void add_gated(const Size& s) {
  using P = Gated<C>;
  add<P>("gated", s, [=](Verdict& v, Operands& x) {
    const int parts = 5;
    Matrix squares = random_matrix(Type::f32, parts, s.m, .1f, 31, 1.f);
    Matrix g(Type::bf16, s.m, s.n), u(Type::bf16, s.m, s.n), y(Type::bf16, s.m, s.n);
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.data = squares.data(), .ld = squares.ld, .count = parts}, {.number = .25f}, {.tiles = {&g}}, {.tiles = {&u}}, {.tiles = {&y}}}, s.o);
    run_thrice<P>(v, params, {&g, &u, &y}, s.o);
    const auto q = sum_tiles(squares);
    auto value = [&](int n, int i, int j) { return at(x.exact[n], s.n, i, j) / std::sqrt(q[i] * .25); };
    v.compare("g", g, [&](int i, int j) { return value(0, i, j); }, x.slack);
    v.compare("u", u, [&](int i, int j) { return value(1, i, j); }, x.slack);
    v.compare("y", y, [&](int i, int j) { return value(0, i, j) * sigmoid(value(0, i, j)) * value(1, i, j); }, 10 * x.slack);
  });
}

template <Config C>
void add_gated_backward(const Size& s) {
  using P = GatedBackward<C>;
  add<P>("gated backward", s, [=](Verdict& v, Operands& x) {
    Matrix g = random_matrix(Type::bf16, s.m, s.n, 1.f, 41), u = random_matrix(Type::bf16, s.m, s.n, 1.f, 42);
    Matrix dg(Type::bf16, s.m, s.n), du(Type::bf16, s.m, s.n), y(Type::bf16, s.m, s.n), part(Type::f32, tiles_n<P>(s.n), s.m, 0);
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.tiles = {&g}}, {.tiles = {&u}}, {.tiles = {&dg}}, {.tiles = {&du}}, {.tiles = {&y}}, {.data = part.data(), .ld = part.ld}}, s.o);
    run_thrice<P>(v, params, {&dg, &du, &y, &part}, s.o);
    const auto gh = g.host(), uh = u.host();
    auto all = [&](int what, int i, int j) {
      const double a = at(x.exact[0], s.n, i, j), gg = at(gh, s.n, i, j), uu = at(uh, s.n, i, j), t = sigmoid(gg);
      const double dgg = a * uu * t * (1 + gg * (1 - t)), duu = a * gg * t;
      return what == 0 ? dgg : what == 1 ? duu : what == 2 ? gg * t * uu : gg * dgg + uu * duu;
    };
    v.compare("dg", dg, [&](int i, int j) { return all(0, i, j); }, 20 * x.slack);
    v.compare("du", du, [&](int i, int j) { return all(1, i, j); }, 20 * x.slack);
    v.compare("y", y, [&](int i, int j) { return all(2, i, j); }, 10 * x.slack);
    const auto total = sum_tiles(part);
    for (int i = 0; i < s.m; ++i) {
      double want = 0, size = 0;
      for (int j = 0; j < s.n; ++j) want += all(3, i, j), size += std::abs(all(3, i, j));
      if (!(std::abs(total[i] - want) <= 1e-5 * size + 1e-5)) v.note("z", i, 0, total[i], want);
    }
  });
}

template <Config C>
void add_norm_backward(const Size& s) {
  using P = NormBackward<C>;
  add<P>("norm backward", s, [=](Verdict& v, Operands& x) {
    Matrix xx = random_matrix(Type::bf16, s.m, s.n, 1.f, 51), d = random_matrix(Type::bf16, s.m, s.n, 1.f, 52);
    Matrix w = random_matrix(Type::bf16, 1, s.n, 1.f, 53), r = random_matrix(Type::f32, 1, s.m, .1f, 54, 1.f), z = random_matrix(Type::f32, 1, s.m, 4.f, 55);
    Matrix dx(Type::bf16, s.m, s.n), part(Type::f32, tiles_m<P>(s.m), s.n, 0);
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.tiles = {&xx}}, {.tiles = {&d}}, {.data = w.data()}, {.data = r.data()}, {.data = z.data()}, {.tiles = {&dx}}, {.data = part.data(), .ld = part.ld}}, s.o);
    run_thrice<P>(v, params, {&dx, &part}, s.o);
    const auto xh = xx.host(), dh = d.host(), wh = w.host(), rh = r.host(), zh = z.host();
    v.compare("dx", dx, [&](int i, int j) {
      return at(dh, s.n, i, j) + rh[i] * (at(x.exact[0], s.n, i, j) * wh[j] - at(xh, s.n, i, j) * rh[i] * zh[i] / s.n);
    }, 10 * x.slack);
    const auto total = sum_tiles(part);
    for (int j = 0; j < s.n; ++j) {
      double want = 0, size = 0;
      for (int i = 0; i < s.m; ++i) {
        const double t = at(x.exact[0], s.n, i, j) * at(xh, s.n, i, j) * rh[i];
        want += t, size += std::abs(t);
      }
      if (!(std::abs(total[j] - want) <= 1e-5 * size + 1e-5)) v.note("dw", 0, j, total[j], want);
    }
  });
}

template <Config C>
void add_widths(const Size& s) {
  using P = Widths<C>;
  constexpr int H = C.pair;
  add<P>(("widths h" + std::to_string(H)).c_str(), s, [=](Verdict& v, Operands& x) {
    Matrix total(Type::f32, s.m, s.n), half_in = random_matrix(Type::bf16, s.m, s.n / 2, 1.f, 62), byte_in = random_matrix(Type::e5m2, s.m, s.n, 1.f, 63);
    Matrix half(Type::bf16, s.m, s.n / 2), wide(Type::f16, s.m, 2 * s.n), byte(Type::e4m3, s.m, s.n);
    auto before = [&] { fill(total, 1.f, 61); };
    before();
    const auto old = total.host(), hh = half_in.host(), bh = byte_in.host();
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.tiles = {&total}}, {.tiles = {&half_in}}, {.tiles = {&byte_in}}, {.tiles = {&total}}, {.tiles = {&half}}, {.tiles = {&wide}}, {.tiles = {&byte}}}, s.o);
    run_thrice<P>(v, params, {&total, &half, &wide, &byte}, s.o, before);
    auto acc = [&](int i, int j) { return at(x.exact[0], s.n, i, j); };
    v.compare("total", total, [&](int i, int j) { return acc(i, j) + at(old, s.n, i, j); }, x.slack);
    v.compare("half", half, [&](int i, int j) {
      const int c = j / H * 2 * H + j % H;
      return at(hh, s.n / 2, i, j) + acc(i, c) * acc(i, c + H);
    }, 10 * x.slack);
    v.compare("wide", wide, [&](int i, int j) {
      const double a = acc(i, j / (2 * H) * H + j % H);
      return j % (2 * H) < H ? a : -2 * a;
    }, 2 * x.slack);
    v.compare("byte", byte, [&](int i, int j) { return acc(i, j) + at(bh, s.n, i, j); }, x.slack + 1.0 / 1024);
  });
}

template <Config C>
void add_rotate(const Size& s) {
  using P = Rotate<C>;
  constexpr int H = C.pair;
  add<P>(("rotate h" + std::to_string(H)).c_str(), s, [=](Verdict& v, Operands& x) {
    Matrix out(Type::bf16, s.m, s.n), f = random_matrix(Type::f32, 1, H, .01f, 81);
    std::vector<int> at_row(s.m);
    for (int i = 0; i < s.m; ++i) at_row[i] = i % 100;
    int* positions;
    CHECK(cudaMalloc(&positions, s.m * 4));
    CHECK(cudaMemcpy(positions, at_row.data(), s.m * 4, cudaMemcpyHostToDevice));
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.data = positions}, {.data = f.data()}, {.tiles = {&out}}}, s.o);
    run_thrice<P>(v, params, {&out}, s.o);
    cudaFree(positions);
    const auto fh = f.host();
    v.compare("out", out, [&](int i, int j) {
      const double a = at(x.exact[0], s.n, i, j);
      if (j >= s.n * 2 / 5) return a;
      const double turn = at_row[i] * fh[j % H];
      const double b = at(x.exact[0], s.n, i, j % (2 * H) < H ? j + H : j - H);
      return j % (2 * H) < H ? a * std::cos(turn) - b * std::sin(turn) : a * std::cos(turn) + b * std::sin(turn);
    }, 20 * x.slack);
  });
}

template <Config C>
void add_reductions(const Size& s) {
  using P = Reductions<C>;
  add<P>("reductions", s, [=](Verdict& v, Operands& x) {
    const int tn = tiles_n<P>(s.n), tm = tiles_m<P>(s.m), groups = (s.n + 31) / 32;
    Matrix z(Type::bf16, s.m, s.n), lse(Type::f32, 2 * tn, s.m, 0), mom(Type::f32, 3 * tn, s.m, 0), arg(Type::f32, 2 * tn, s.m, 0), top(Type::f32, tn, s.m, 0), hit(Type::f32, tn, s.m, 0);
    Matrix low(Type::f32, tm, s.n, 0), sum(Type::f32, tm, s.n, 0), largest(Type::f32, s.m, groups, 0);
    Matrix w = random_matrix(Type::f32, 1, 24, 1.f, 71), g = random_matrix(Type::f32, s.m, groups, 1.f, 72);
    std::vector<long long> labels(s.m);
    for (int i = 0; i < s.m; ++i) labels[i] = i % 7 == 0 ? -100 : static_cast<int>(mix(i) % s.n);
    long long* target;
    CHECK(cudaMalloc(&target, s.m * 8));
    CHECK(cudaMemcpy(target, labels.data(), s.m * 8, cudaMemcpyHostToDevice));
    auto part = [](Matrix& m) { return Bind{.data = m.data(), .ld = m.ld}; };
    const auto params = make_launch<P>(s.m, s.n, x.a, x.b, {{.tiles = {&z}}, part(lse), part(mom), part(arg), part(top), part(hit), part(low), part(sum), {.data = target}, {.data = w.data()}, part(g), {}, part(largest)}, s.o);
    run_thrice<P>(v, params, {&z, &lse, &mom, &arg, &top, &hit, &low, &sum, &largest}, s.o);
    cudaFree(target);
    const auto wh = w.host(), gh = g.host();
    auto value = [&](int i, int j) { return at(x.exact[0], s.n, i, j) + wh[j % 24] + at(gh, groups, i, j / 32); };
    auto group_max = [&](int i, int b) {
      double most = 0;
      for (int j = 32 * b; j < std::min(s.n, 32 * b + 32); ++j) most = std::max(most, std::abs(value(i, j)));
      return most;
    };
    v.compare("z", z, [&](int i, int j) { return value(i, j) + group_max(i, j / 32); }, 2 * x.slack);
    for (const Matrix* m : {&lse, &mom, &arg, &top, &hit, &low, &sum, &largest})
      if (!m->guards_intact()) v.note("a reduction", -1, -1, 0, 0);
    const auto hl = lse.host(), hm = mom.host(), ha = arg.host(), ht = top.host(), hh = hit.host(), hg = largest.host();
    const auto arg_raw = arg.raw();
    const double tol = 20 * x.slack;
    auto near = [&](const char* what, int i, double got, double want) {
      if (!(std::abs(got - want) <= tol * (1 + std::abs(want)))) v.note(what, i, 0, got, want);
    };
    for (int i = 0; i < s.m; ++i) {
      double big = -1e30, exps = 0, mean = 0, m2 = 0, wanted = 0;
      int best = 0;
      for (int j = 0; j < s.n; ++j) {
        const double t = value(i, j);
        if (t > big) big = t, best = j;
        exps += std::exp(t), mean += t;
        if (labels[i] == j) wanted = t;
      }
      mean /= s.n;
      for (int j = 0; j < s.n; ++j) m2 += (value(i, j) - mean) * (value(i, j) - mean);
      double m = -1e30, e = 0, cnt = 0, mu = 0, q = 0, av = -1e30, tv = -1e30, h = 0;
      int ai = -1;
      for (int t = 0; t < tn; ++t) {
        const double tm0 = at(hl, s.m, 2 * t, i), te = at(hl, s.m, 2 * t + 1, i), nm = std::max(m, tm0);
        e = e * std::exp(m - nm) + te * std::exp(tm0 - nm), m = nm;
        const double n1 = at(hm, s.m, 3 * t, i), m1 = at(hm, s.m, 3 * t + 1, i), q1 = at(hm, s.m, 3 * t + 2, i), d = m1 - mu;
        q += q1 + d * d * cnt * n1 / (cnt + n1), mu += d * n1 / (cnt + n1), cnt += n1;
        if (at(ha, s.m, 2 * t, i) > av) {
          av = at(ha, s.m, 2 * t, i);
          std::memcpy(&ai, arg_raw.data() + ((2 * t + 1) * arg.ld + i) * 4, 4);
        }
        tv = std::max(tv, at(ht, s.m, t, i)), h += at(hh, s.m, t, i);
      }
      near("logsumexp", i, m + std::log(e), std::log(exps));
      near("count", i, cnt, s.n), near("mean", i, mu, mean), near("variance", i, q / s.n, m2 / s.n);
      near("max", i, tv, big), near("argmax value", i, av, big), near("hit", i, h, wanted);
      if (ai != best && !(ai >= 0 && ai < s.n && std::abs(value(i, ai) - big) < tol)) v.note("argmax", i, 0, ai, best);
      for (int b = 0; b < groups; ++b) near("group", i, at(hg, groups, i, b), group_max(i, b));
    }
    const auto hlow = low.host(), hs = sum_tiles(sum);
    for (int j = 0; j < s.n; ++j) {
      double least = 1e30, total = 0, got = 1e30;
      for (int i = 0; i < s.m; ++i) least = std::min(least, value(i, j)), total += value(i, j);
      for (int t = 0; t < tm; ++t) got = std::min(got, at(hlow, s.n, t, j));
      near("min", j, got, least), near("sum", j, hs[j] / s.m, total / s.m);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  // Rows of 16-byte multiples at every width: a TMA store writes whole 16-byte units.
  const Size small{520, 576, 136, {.grid = 4}}, odd{129, 272, 40, {}}, ragged{520, 584, 136, {.grid = 4}}, one{1, 32, 8, {}}, wide{520, 640, 136, {.grid = 4}}, big{2048, 2304, 264, {}};
  add_residual<tile(pp, 128, 192, 2, 1, 64)>(small);
  add_residual<tile(pp, 128, 192, 2, 1, 32, 1, 1, 1)>(small);
  add_residual<tile(co, 128, 256, 2, 1, 32, 1, 3, 3)>(small);
  add_residual<tile(pp, 192, 128, 1, 2, 64)>(odd);
  add_residual<tile(pp, 192, 128, 1, 2, 64)>(one);
  add_residual<tile(pp, 128, 192, 2, 1, 64)>(big);
  add_gated<tile(pp, 128, 192, 2, 1, 32, 2)>(small);
  add_gated<tile(co, 128, 256, 2, 1, 64, 2)>(small);
  add_gated<tile(pp, 192, 128, 1, 2, 64, 2)>(odd);
  add_gated<tile(co, 256, 128, 1, 2, 64, 2)>(odd);
  add_gated<tile(pp, 128, 192, 2, 1, 32, 2)>(big);
  add_gated_backward<tile(pp, 128, 192, 2, 1, 32)>(small);
  add_gated_backward<tile(co, 128, 256, 2, 1, 64, 1, 1, 1)>(small);
  add_norm_backward<tile(pp, 128, 192, 2, 1, 64)>(small);
  add_norm_backward<tile(pp, 128, 192, 2, 1, 32)>(big);
  add_norm_backward<tile(co, 256, 128, 1, 2, 64)>(small);
  add_norm_backward<tile(pp, 64, 256, 2, 1, 32)>(odd);
  add_widths<paired(tile(pp, 128, 128, 2, 1, 64, 1, 1, 1), 8)>(small);
  add_widths<paired(tile(pp, 128, 128, 2, 1, 32, 1, 2, 2), 8)>(odd);
  add_widths<paired(tile(co, 128, 128, 1, 2, 64, 1, 1, 1), 32)>(wide);
  add_rotate<paired(tile(pp, 128, 128, 2, 1, 128), 64)>(wide);
  add_rotate<paired(tile(pp, 128, 192, 2, 1, 64), 32)>(wide);
  add_widths<paired(tile(pp, 64, 128, 1, 1, 64, 1, 1, 1), 16)>(small);
  add_widths<paired(tile(pp, 64, 128, 1, 1, 64, 1, 1, 1), 1)>(odd);
  add_reductions<paired(tile(pp, 128, 128, 2, 1, 64), 0, 2)>(small);
  add_reductions<paired(tile(co, 128, 192, 1, 1, 64), 0, 2)>(odd);
  add_reductions<paired(tile(pp, 64, 128, 1, 2, 128), 32, 2)>(ragged);
  add_residual<tile(pp, 128, 192, 2, 1, 64)>(ragged);
  add_residual<tile(pp, 192, 128, 1, 2, 32, 1, 1, 1)>(big);
  add_gated_backward<tile(pp, 128, 192, 2, 1, 32)>(big);
  add_gated_backward<tile(pp, 128, 192, 2, 1, 32, 1, 1, 1)>(big);
  add_norm_backward<tile(pp, 128, 128, 2, 1, 64, 1, 1, 1)>(ragged);
  add_norm_backward<tile(pp, 128, 128, 2, 1, 64, 1, 3, 1)>(small);
  return run_cases(argc, argv);
}
