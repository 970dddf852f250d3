// SPDX-License-Identifier: Apache-2.0
// Random Transformers: small stacks of everything that graphs can be built from, each plan and each
// gradient held against float64, and plans that recompute against those that do not. A failure
// names the seed and shows the graph; CODA_EXHAUSTIVE=1 draws many more.
#include <coda/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "rewrite/check_graph.h"
#include "rewrite/check_recompute.h"

namespace coda::test {
namespace {

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {
    check_.seed = seed;
    head_ = pick({4, 6, 8, 12});
    key_heads_ = pick({1, 2});
    heads_ = key_heads_ * pick({1, 2, 3});
    d_ = pick({8, 20, 24, 32});
    f_ = pick({10, 16, 28, 40});
    vocabulary_ = pick({18, 33, 50});
    eps_ = pick({1, 2}) == 1 ? 1e-5 : 1e-3;
    unit_offset_ = chance(4);
    norm_ = below(4);
    activation_ = below(4);
    bias_ = chance(3);
    ends_blocks_ = seed / 4 % 2 == 0;
  }

  Graph graph() {
    Value x = stream();
    const int64_t layers = 1 + below(2);
    for (int64_t layer = 0; layer < layers; ++layer) {
      // Layers may share all of their parameters.
      if (!chance(5)) prefix_ = "l" + std::to_string(layer) + "_";
      x = block(x);
      if (ends_blocks_) x = g_.end_block(x);
    }
    prefix_ = "";
    if (chance(3) || embedded_)
      loss(x);
    else
      store(x);
    freeze();
    draw_tokens();
    return g_.build();
  }

  const GraphCheck& check() const { return check_; }
  bool ends_blocks() const { return ends_blocks_; }

 private:
  // --- numbers

  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  int64_t pick(std::initializer_list<int64_t> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }

  // --- inputs, each declared once

  Value once(const std::string& name, const auto& declare) {
    const auto found = inputs_.find(name);
    return found != inputs_.end() ? found->second : inputs_[name] = declare(name);
  }
  Value weight(const std::string& name, int64_t out, int64_t in) {
    return once(name, [&](const auto& n) {
      parameters_.push_back(n);
      return g_.weight(n, out, in);
    });
  }
  Value vector(const std::string& name, int64_t size) {
    return once(name, [&](const auto& n) {
      parameters_.push_back(n);
      return g_.vector(n, size);
    });
  }
  Value tokens(const std::string& name) {
    return once(name, [&](const auto& n) { return g_.tokens(n); });
  }

  // --- parts

  Value stream() {
    check_.vocabulary = vocabulary_;
    embedded_ = chance(3);
    if (!embedded_) return g_.activations("x", d_);
    const Value rows = embedding(tokens("ids"), weight("table", vocabulary_, d_));
    return chance(2) ? rows : rows * std::sqrt(static_cast<double>(d_));
  }

  Value norm(Value x, const std::string& name) {
    const std::string full = prefix_ + name;
    if (norm_ == 0) return layer_norm(x, vector(full, d_), vector(full + "_b", d_), eps_);
    return rms_norm(x, vector(full, d_), eps_, unit_offset_);
  }

  /// x weight^T, with a bias or a low-rank sum now and then.
  Value project(Value x, const std::string& name, int64_t out, int64_t in) {
    const std::string full = prefix_ + name;
    Value y = matmul(x, weight(full, out, in));
    if (lora_ && chance(2)) {
      const int64_t rank = 4;
      const Value low = matmul(x, weight(full + "_a", rank, in));
      y = y + 0.5 * matmul(low, weight(full + "_b", out, rank));
    }
    return bias_ ? y + vector(full + "_bias", out) : y;
  }

  Value rotate(Value x, double scale) {
    const Value frequencies =
        once("frequencies", [&](const auto& n) { return g_.table(n, head_ / 2); });
    return rope(x, tokens("positions"), frequencies, scale);
  }

  Value attend(Value h) {
    attends_ = true;
    const int64_t queries = heads_ * head_, keys = key_heads_ * head_;
    Value q = project(h, "wq", queries, d_), k = project(h, "wk", keys, d_);
    const Value v = project(h, "wv", keys, d_);
    if (chance(3)) {
      q = head_norm(q, vector(prefix_ + "q_norm", head_), eps_, unit_offset_);
      k = head_norm(k, vector(prefix_ + "k_norm", head_), eps_, unit_offset_);
    }
    if (bias_ || !chance(4)) {  // a bias of keys alone would have no gradient
      const double scale = chance(4) ? 1.25 : 1;
      q = rotate(q, scale), k = rotate(k, scale);
    }
    AttentionOptions options{heads_, key_heads_, head_, 1 / std::sqrt(static_cast<double>(head_))};
    if (chance(4)) options.softcap = 3;
    if (chance(4)) options.window = 3;
    return project(attention(q, k, v, options), "wo", d_, queries);
  }

  Value mlp(Value h) {
    const Value up = project(h, "up", f_, d_);
    Value a;
    if (activation_ == 0) a = swiglu(project(h, "gate", f_, d_), up);
    if (activation_ == 1) a = geglu(project(h, "gate", f_, d_), up);
    if (activation_ == 2) a = 0.5 * up * (1.0 + erf(up * std::sqrt(0.5)));
    if (activation_ == 3) a = where(up > 0, up * up, 0.0);
    return project(a, "down", d_, f_);
  }

  Value block(Value x) {
    lora_ = chance(4);
    const bool sandwich = chance(4);
    const auto after = [&](Value y, const char* name) { return sandwich ? norm(y, name) : y; };
    const int64_t form = below(6);
    if (form == 0) {  // attention and MLP in parallel, from one norm
      const Value h = norm(x, "norm");
      return x + after(attend(h), "after") + after(mlp(h), "after_mlp");
    }
    if (form != 1) x = x + after(attend(norm(x, "attention_norm")), "after_attention");
    if (form != 2) x = x + after(mlp(norm(x, "mlp_norm")), "after_mlp");
    return x;
  }

  /// The residual stream as an output, and others beside it.
  void store(Value x) {
    g_.output("y", norm_ == 1 ? norm(x, "final_norm") : 1.0 * x);
    check_.of = {"y"};
    if (chance(3)) {
      g_.output("z", project(norm(x, "other_norm"), "other", f_, d_));
      check_.of.emplace_back("z");
    }
    if (chance(3)) {
      g_.output("size", total(x * x));
      check_.of.emplace_back("size");
    }
  }

  void loss(Value x) {
    const bool tied = embedded_ && chance(2);
    const Value h = norm(x, "final_norm");
    Value logits = matmul(h, weight(tied ? "table" : "head", vocabulary_, d_));
    if (chance(4)) logits = softcap(logits, 2.5);
    const Value labels = tokens("labels");
    CrossEntropyOptions options;
    if (chance(3)) options.smoothing = 0.1;
    Value each = cross_entropy(logits, labels, options);
    if (chance(3)) each = each + 0.05 * z_loss(logits, labels);
    if (chance(4)) each = each * g_.token_scalars("token_weights");
    if (chance(4)) {
      g_.output("loss", each);
    } else {
      const Value sum = total(each);
      g_.output("loss", chance(2) ? sum / g_.scalar("count") : sum);
    }
    check_.of = {"loss"};
    if (chance(2)) {
      check_.chunk_columns = vocabulary_;
      check_.chunk_rows = pick({1, 4, 64});
      check_.late = chance(3);
    }
  }

  /// Where every query sees one key alone, gradients of queries are zero, and what rounding leaves
  /// of them has nothing to be compared with.
  void draw_tokens() {
    check_.tokens = attends_ ? pick({5, 9, 13}) : pick({1, 2, 7, 13});
    if (chance(3)) {
      const int64_t cut = below(check_.tokens + 1);
      check_.sequences = {0, cut, cut, check_.tokens};
    }
  }

  /// All parameters have gradients, or some of them and the input of the stack.
  void freeze() {
    if (chance(2)) return;
    if (!embedded_) check_.wrt.emplace_back("x");
    for (const std::string& name : parameters_)
      if (chance(2) || check_.wrt.empty()) check_.wrt.push_back(name);
  }

  std::mt19937 random_;
  GraphBuilder g_{"random"};
  GraphCheck check_;
  std::map<std::string, Value> inputs_;
  std::vector<std::string> parameters_;
  std::string prefix_;
  int64_t d_, f_, heads_, key_heads_, head_, vocabulary_, norm_, activation_;
  double eps_;
  bool unit_offset_, bias_, lora_ = false, embedded_ = false, attends_ = false, ends_blocks_;
};

void check_random(unsigned seed) {
  Generator generator(seed);
  const Graph graph = generator.graph();
  const GraphCheck& check = generator.check();
  const ::testing::ScopedTrace trace(
      __FILE__, __LINE__,
      "seed " + std::to_string(seed) + ", " + std::to_string(check.tokens) + " tokens, chunks of " +
          (check.chunk_columns ? std::to_string(check.chunk_rows) : "all") +
          (check.late ? ", late upstream\n" : "\n") + ir::dump(graph.ir()));
  try {
    check_graph(graph, check);
    if (generator.ends_blocks()) check_recompute(graph, check);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

/// Shards, so that they run beside each other.
class RandomGraph : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomGraph, agrees_with_float64) {
  const char* text = std::getenv("CODA_EXHAUSTIVE");
  const unsigned count = text && *text && *text != '0' ? 250 : 15;
  for (unsigned i = 0; i < count; ++i) {
    check_random(GetParam() + 4 * i);
    if (HasFailure()) break;  // one graph at a time is enough to read
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraph, ::testing::Range(1u, 5u));

}  // namespace
}  // namespace coda::test
