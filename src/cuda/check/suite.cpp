// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/suite.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "check/generate.h"
#include "check/programs.h"
#include "cuda/backend/ahead.h"
#include "cuda/lower/split.h"

namespace coda::cuda {
namespace {

constexpr int64_t kTokens = 16384;  // where tensors grow large, half of them

struct Width {
  int64_t d, f;
};

/// Rows of library programs, by the names that check::all_programs() gives them.
class Rows {
 public:
  Rows() {
    for (check::NamedProgram& named : check::all_programs())
      programs_.emplace(named.name, std::move(named.program));
  }

  void add(const std::string& name, const std::string& program, const char* layout, int64_t m,
           int64_t n, std::vector<int64_t> depths) {
    const auto found = programs_.find(program);
    if (found == programs_.end())
      throw Error(ErrorKind::internal, "the suite's row '" + name + "'",
                  "a program of the library or a derived one", program);
    Instance instance = check::instance_of(found->second, DType::bf16);
    // Packed queries, keys and values of one width: two thirds of the columns turn.
    for (size_t i = ir::kFirstParameter; i < instance.symbols.size(); ++i) {
      const std::string& symbol = found->second.symbols[i];
      if (symbol == "rot") instance.symbols[i] = n / 3 * 2;
      if (symbol == "nq" || symbol == "nk") instance.symbols[i] = n / 3 / kHead;
    }
    const CallSize size{m, n, std::move(depths), layout};
    const RowClass row_class = class_of(instance, size);
    rows_.push_back({name, std::move(instance), size, row_class});
  }

  std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  static constexpr int64_t kHead = 64;  // as instance_of() has it

  std::map<std::string, ir::Program> programs_;
  std::vector<BenchRow> rows_;
};

void add_products(Rows& rows, Width width, const std::string& at) {
  const auto [d, f] = width;
  const struct {
    const char* name;
    int64_t out, in;
  } layers[] = {{"out", d, d}, {"gate_up", 2 * f, d}, {"down", d, f}, {"qkv", 3 * d, d}};
  for (const auto& [name, out, in] : layers) {
    rows.add("gemm fwd " + (name + at), "linear", "NT", kTokens, out, {in});
    rows.add("gemm dgrad " + (name + at), "linear", "NN", kTokens, in, {out});
    rows.add("gemm wgrad " + (name + at), "linear", "TN", out, in, {kTokens});
  }
}

/// What LLaMA's layers run, in all their forms: with and without the norm in front, with and
/// without the scaled copy of the residual stream.
void add_layer(Rows& rows, Width width, int64_t m, const std::string& at) {
  const auto [d, f] = width;
  for (const std::string norm : {"residual_rms", "residual_rstd"}) {
    rows.add(norm + " out" + at, norm, "NT", m, d, {d});
    rows.add(norm + " down" + at, norm, "NT", m, d, {f});
    const std::string backward = norm == "residual_rms" ? ".bwd(d_h)" : ".bwd(d_x)";
    rows.add(norm + " bwd gate_up" + at, norm + backward, "NN", m, d, {f, f});
    rows.add(norm + " bwd qkv" + at, norm + backward, "NN", m, d, {3 * d});
  }
  for (const std::string gated : {"rmsnorm_swiglu", "swiglu"}) {
    rows.add(gated + at, gated, "NT", m, f, {d});
    rows.add(gated + " bwd" + at, gated + ".bwd(d_y)", "NN", m, f, {d});
  }
  rows.add("row_scale qkv" + at, "row_scale", "NT", m, 3 * d, {d});
  rows.add("rmsnorm_rope" + at, "rmsnorm_rope", "NT", m, 3 * d, {d});
  rows.add("rope" + at, "rope", "NT", m, 3 * d, {d});
  rows.add("rmsnorm_rope bwd" + at, "rmsnorm_rope.bwd", "NN", m, 3 * d, {});
  rows.add("accumulate wgrad" + at, "accumulate", "TN", d, f, {m});
}

/// What layers of other families run.
void add_others(Rows& rows, Width width, const std::string& at) {
  const auto [d, f] = width;
  for (const std::string gated : {"rmsnorm_geglu", "geglu"}) {
    rows.add(gated + at, gated, "NT", kTokens, f, {d});
    rows.add(gated + " bwd" + at, gated + ".bwd(d_y)", "NN", kTokens, f, {d});
  }
  for (const std::string plain : {"relu_squared", "bias_gelu", "bias_gelu_tanh"}) {
    rows.add(plain + at, plain, "NT", kTokens, f, {d});
    rows.add(plain + " bwd" + at, plain + ".bwd(d_y)", "NN", kTokens, f, {d});
  }
  rows.add("layernorm_stats out" + at, "layernorm_stats", "NT", kTokens, d, {d});
  rows.add("layernorm_stats bwd qkv" + at, "layernorm_stats.bwd(d_x)", "NN", kTokens, d, {3 * d});
  rows.add("layernorm_linear qkv" + at, "layernorm_linear", "NT", kTokens, 3 * d, {d});
  rows.add("scalar_scale out" + at, "scalar_scale", "NN", kTokens, d, {d});
  rows.add("qk_norm_rope" + at, "qk_norm_rope", "NT", kTokens, 3 * d, {d});
  rows.add("qk_norm_rope bwd" + at, "qk_norm_rope.bwd", "NN", kTokens, 3 * d, {});
}

void add_heads(Rows& rows) {
  constexpr int64_t kHalf = kTokens / 2;
  for (const int64_t v : {32768, 128256}) {
    const std::string at = " " + std::to_string(v);
    for (const int64_t d : {2048, 4096})
      rows.add("lse_target" + at + " " + std::to_string(d), "lse_target", "NT", kHalf, v, {d});
    rows.add("lse_target bwd" + at, "lse_target.bwd", "NT", kHalf, v, {});
  }
  for (const std::string head : {"lse_target_logits", "softcap_lse"})
    rows.add(head + " 32768 2048", head, "NT", kHalf, 32768, {2048});
}

}  // namespace

const char* name_of(RowClass row_class) {
  switch (row_class) {
    case RowClass::product:
      return "product";
    case RowClass::fused:
      return "fused";
    case RowClass::streaming:
      return "streaming";
    case RowClass::generated:
      return "generated";
    case RowClass::pass:
      break;
  }
  return "pass";
}

RowClass class_of(const Instance& instance, const CallSize& size) {
  constexpr int64_t kShortDepth = 2048;
  constexpr int64_t kManyTiles = 3;
  const ir::Program& program = *instance.program;
  if (std::none_of(program.inputs.begin(), program.inputs.end(), [](const ir::Input& input) {
        return input.kind == ir::Input::Kind::accumulator;
      }))
    return RowClass::pass;
  if (const auto form = split_form(instance); form && form->addend < 0) return RowClass::product;
  if (fused_problem(instance)) return RowClass::fused;
  const std::vector<FusedPort> ports = fused_ports(instance);
  const auto tiles = std::count_if(ports.begin(), ports.end(),
                                   [](const FusedPort& port) { return is_tile(port.port); });
  return size.depth() <= kShortDepth && tiles >= kManyTiles ? RowClass::streaming : RowClass::fused;
}

double bound_of(RowClass row_class) {
  switch (row_class) {
    case RowClass::product:
    case RowClass::fused:
      return 1.03;
    case RowClass::streaming:
      return 1.06;
    case RowClass::generated:
      return 1.05;
    case RowClass::pass:
      break;
  }
  return 0;
}

std::vector<BenchRow> kernel_rows() {
  Rows rows;
  for (const Width width : {Width{2048, 5632}, {4096, 11008}, {8192, 22016}}) {
    const std::string at = " " + std::to_string(width.d);
    const bool largest = width.d == 8192;
    if (!largest) add_products(rows, width, at);
    add_layer(rows, width, largest ? kTokens / 2 : kTokens, at);
    if (!largest) add_others(rows, width, at);
  }
  rows.add("small wgrad 1024", "linear", "TN", 1024, 1024, {kTokens});
  rows.add("small accumulate 1024", "accumulate", "TN", 1024, 1024, {kTokens});
  add_heads(rows);
  return rows.take();
}

std::vector<BenchRow> generated_rows() {
  constexpr size_t kPrograms = 5;
  constexpr int64_t kN = 4096, kK = 4096;
  std::vector<BenchRow> rows;
  for (uint64_t seed = 1; rows.size() < kPrograms; ++seed) {
    const ir::Program program = check::random_program(seed);
    Instance instance = check::instance_of(program, DType::bf16);
    instance.symbols = check::draw_sizes(program, {}, kN, seed);
    const int64_t unit = check::column_unit(program, instance.symbols);
    const int64_t n = (kN + unit - 1) / unit * unit;
    instance.symbols[ir::kSymbolN] = instance.symbols[ir::kSymbolM] = 0;
    if (fused_problem(instance)) continue;
    const UsualCall call = usual_call(instance, "NT", kTokens, n, kK);
    if (candidates(program_shape(instance, fused_ports(instance)), call.call.problem, {}).empty())
      continue;
    rows.push_back({fmt::format("generated {}", seed),
                    std::move(instance),
                    {kTokens, n, {kK}, "NT"},
                    RowClass::generated});
  }
  return rows;
}

std::variant<FusedCall, std::string> mainloop_call(const BenchRow& row, int multiprocessors) {
  if (const auto problem = fused_problem(row.instance)) return *problem;
  Arena nowhere(nullptr, 0);
  const BoundCall call = make_call(nowhere, row.instance, row.size);
  return Fused90(row.instance, {}, nullptr, multiprocessors).accept(call);
}

}  // namespace coda::cuda
