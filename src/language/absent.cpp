// SPDX-License-Identifier: Apache-2.0
#include "language/absent.h"

namespace coda::language {
namespace {

struct Absent {
  std::string_view names;  // each between spaces
  std::string_view fix;
};

constexpr Absent kAbsent[] = {
    {" softmax log_softmax ",
     "store lse = logsumexp[m](x); the program that follows takes exp(x - lse), or x - lse"},
    {" layernorm layer_norm rmsnorm rms_norm ",
     "store rsqrt(mean[m](x * x) + eps); the program that follows multiplies by it"},
    {" matmul mm bmm dot linear einsum gemm ",
     "a matrix product is bound at the call: declare a: acc"},
    {" transpose permute ", "bind a transposed view at the call"},
    {" reshape view concat cat stack ", "bind another view, or several parts, at the call"},
    {" pow power ", "there are no powers: write x * x or square(x); exp(y * log(x)) for x > 0"},
    {" exp2 ", "write exp(x * 0.6931471805599453)"},
    {" log2 ", "write log(x) * 1.4426950408889634"},
    {" log10 ", "write log(x) * 0.4342944819032518"},
    {" log1p ", "write log(1 + x)"},
    {" expm1 ", "write exp(x) - 1"},
    {" tan ", "write sin(x) / cos(x)"},
    {" sign sgn ", "write (x > 0) - (x < 0)"},
    {" floor ceil trunc rint int ",
     "nothing rounds to integers; for an integer i, i - i % k is the multiple of k below"},
    {" float cast astype to ", "values are float32 or integers; round(x, TYPE) rounds to a type"},
    {" mod fmod remainder ", "write i % k, for integers"},
    {" and ", "use (p) * (q) for and"},
    {" or ", "use max(p, q) for or"},
    {" not ", "use 1 - p for not"},
    {" if select cond ", "use where(c, a, b)"},
    {" isnan ", "write x != x"},
    {" rand randn random dropout ",
     "make bits from m, n and a seed: 'Random bits' in docs/language.md"},
    {" one_hot onehot ", "compare with the column: n == label"},
    {" gather take index ", "compare with the column: sum[m](where(n == label, x, 0))"},
    {" cumsum cumprod scan sort topk top_k ", "there are no scans, sorts or top-k"},
    {" avg average ", "write mean[m](x)"},
    {" var variance ", "write mu, v = moments[m](x)"},
    {" std ", "write mu, v = moments[m](x) and sqrt(v)"},
    {" norm ", "write sqrt(sum[m](x * x))"},
    {" argmin ", "write argmax[m](-x)"},
    {" any ", "write max[m](p), with p a mask"},
    {" all ", "write min[m](p), with p a mask"},
    {" swish ", "write silu(x)"},
    {" logistic ", "write sigmoid(x)"},
};

}  // namespace

std::string_view absent_fix(std::string_view name) {
  for (const Absent& row : kAbsent)
    for (size_t at = row.names.find(name); at != std::string_view::npos;
         at = row.names.find(name, at + 1))
      if (at > 0 && row.names[at - 1] == ' ' && row.names[at + name.size()] == ' ') return row.fix;
  return {};
}

}  // namespace coda::language
