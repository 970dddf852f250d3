// SPDX-License-Identifier: Apache-2.0
// Whole models as graphs: ordinary Transformer mathematics over M tokens, which rewriting (plan.h)
// turns into GEMM-epilogue programs.
//
//   GraphBuilder g("mlp");
//   Value x = g.activations("x", 2048);
//   Value gate = g.weight("gate_proj", 5632, 2048), up = g.weight("up_proj", 5632, 2048);
//   Value down = g.weight("down_proj", 2048, 5632), w = g.vector("norm", 2048);
//   Value h = rms_norm(x, w, 1e-5);
//   g.output("y", x + matmul(swiglu(matmul(h, gate), matmul(h, up)), down));
//   Graph graph = g.build();
//
// Arithmetic, where, exp, ... of <coda/value.h> work on values of graphs too. Every function checks
// shapes and throws coda::Error{shape}: "[rms_norm] expected weight of shape [2048], got [1024]".
// A value lives as long as its builder.
#pragma once

#include <coda/dtype.h>
#include <coda/export.h>
#include <coda/value.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

namespace coda {

namespace ir {
struct Program;
class Builder;
}  // namespace ir

/// Immutable, cheap to copy, thread-safe.
class CODA_API Graph {
 public:
  explicit Graph(std::shared_ptr<const ir::Program> ir);
  const char* name() const noexcept;
  const ir::Program& ir() const noexcept { return *ir_; }

 private:
  std::shared_ptr<const ir::Program> ir_;
};

class CODA_API GraphBuilder {
 public:
  explicit GraphBuilder(std::string_view name);
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;

  Value tokens(std::string_view name, DType dtype = DType::i64);  // [M]: ids, labels, positions
  Value token_scalars(std::string_view name);                    // [M] of f32, such as loss weights
  Value activations(std::string_view name, int64_t width);       // [M, width] of T
  Value weight(std::string_view name, int64_t out, int64_t in);  // [out, in] of T
  Value vector(std::string_view name, int64_t size);  // [size] of T: norm weights, biases
  Value table(std::string_view name, int64_t size);   // [size] of f32: frequencies
  Value scalar(std::string_view name);                // one number in memory, f32

  void name(Value value, std::string_view name);  // for reports and dumps
  /// Ends a block: `value` [M, d] as the next block sees it, rounded to T as memory holds it. Plans
  /// that recompute (activation checkpointing) keep these values for the backward pass, make the
  /// others again from them block by block, and keep what follows the last end. Other plans compute
  /// the same bits.
  Value end_block(Value value);
  void output(std::string_view name, Value value);  // stored by the plan: T, or f32 for vectors
  Graph build();

 private:
  std::unique_ptr<ir::Builder> builder_;
};

/// a [M, K], weight [N, K] -> a weight^T [M, N].
CODA_API Value matmul(Value a, Value weight);
/// x / sqrt(mean(x^2) + eps) * w over the columns of each row (Zhang and Sennrich 2019); with
/// `unit_offset` the weight is 1 + w (Gemma). x [M, d], w [d] -> [M, d].
CODA_API Value rms_norm(Value x, Value w, double eps, bool unit_offset = false);
/// (x - mean) / sqrt(variance + eps) * w + b (Ba, Kiros and Hinton 2016). x [M, d], w, b [d].
CODA_API Value layer_norm(Value x, Value w, Value b, double eps);
/// silu(gate) * up (Shazeer 2020); gate, up [M, f] -> [M, f].
CODA_API Value swiglu(Value gate, Value up);
/// gelu(gate) * up with the tanh form of GELU.
CODA_API Value geglu(Value gate, Value up);
/// Rotary embedding, half-split pairs j and j + dh/2 of each head (Su et al. 2021): x [M, H dh],
/// positions [M] integers, frequencies [dh/2] in radians a position; the result times `scale`.
CODA_API Value rope(Value x, Value positions, Value frequencies, double scale = 1);
/// RMSNorm of each head with one weight for all (QK-norm): x [M, H dh], w [dh].
CODA_API Value head_norm(Value x, Value w, double eps, bool unit_offset = false);
/// cap * tanh(x / cap).
CODA_API Value softcap(Value x, double cap);
/// Rows of a table (weight [V, d]) chosen by ids [M] -> [M, d]. Ids outside the table are refused
/// when a plan runs; tokens with the id `padding` give its row no gradient (-1: all do).
CODA_API Value embedding(Value ids, Value table, int64_t padding = -1);

struct AttentionOptions {
  int64_t query_heads, key_heads, head_size;
  double scale;        // of the scores, usually 1 / sqrt(head_size)
  double softcap = 0;  // of the scores; 0: none
  int64_t window = 0;  // keys that a query sees, itself included; 0: all before it
};
/// Causal attention within each sequence (the plan's run says where sequences end): q [M, Hq dh],
/// k, v [M, Hkv dh] -> [M, Hq dh].
CODA_API Value attention(Value q, Value k, Value v, const AttentionOptions& options);

struct CrossEntropyOptions {
  int64_t ignored = -100;  // tokens with this label have no loss
  double smoothing = 0;    // (1 - s) * nll + s * the mean over the vocabulary
};
/// The loss of each token, logsumexp(logits) - logits[label]: logits [M, V], labels [M] integers ->
/// [M]; 0 where the label is ignored. Labels outside the vocabulary are refused when a plan runs,
/// and computed ones that may be outside when it is made.
CODA_API Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options = {});
/// The squared log-sum-exp of each token (z-loss), 0 where the label is ignored.
CODA_API Value z_loss(Value logits, Value labels, int64_t ignored = -100);
/// Sum over all tokens (and columns) -> one number.
CODA_API Value total(Value x);

}  // namespace coda
