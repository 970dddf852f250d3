// SPDX-License-Identifier: Apache-2.0
#include "rewrite/cost.h"

#include <fmt/format.h>

#include <algorithm>

namespace coda::rewrite {
namespace {

/// A matrix over tokens is stored in T; statistics and ids have types of their own.
bool is_matrix(const Buffer& buffer) { return buffer.type.generic && buffer.columns > 1; }

class Counter {
 public:
  Counter(const Plan& plan, DType type) : plan_(plan), type_(type) {}

  StepCost count(const Step& step) const {
    StepCost cost;
    cost.name = step.name;
    cost.gemm = is_gemm(step);
    std::visit([&](const auto& call) { add(cost, call); }, step.call);
    return cost;
  }

  /// Bytes of a reference: for one token, or of the whole where rows are not tokens.
  int64_t bytes(const Ref& ref) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    const DType storage = buffer.type.generic ? type_ : buffer.type.dtype;
    return (buffer.per_token ? 1 : buffer.rows) * ref.columns *
           static_cast<int64_t>(size_of(storage));
  }

 private:
  Traffic& place(StepCost& cost, const Ref& ref) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    if (!buffer.per_token) return cost.fixed;
    return is_matrix(buffer) ? cost.matrices : cost.rows;
  }
  void read(StepCost& cost, const Ref& ref) const {
    place(cost, ref).read += bytes(ref);
    widen(cost, ref);
  }
  void write(StepCost& cost, const Ref& ref) const {
    place(cost, ref).written += bytes(ref);
    widen(cost, ref);
  }
  void widen(StepCost& cost, const Ref& ref) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    if (buffer.per_token && is_matrix(buffer)) cost.widths[ref.columns] += bytes(ref);
  }

  void add(StepCost& cost, const ProgramCall& call) const {
    std::vector<Ref> operands;
    for (const ProductTerm& term : call.products) {
      const int64_t height = call.rows_are_tokens ? term.a.columns : call.rows;
      cost.flops += 2 * height * call.columns;
      if (std::find(operands.begin(), operands.end(), term.a) == operands.end())
        operands.push_back(term.a);
      operands.insert(operands.end(), term.weights.begin(), term.weights.end());
    }
    for (const Ref& ref : operands) read(cost, ref);
    for (const TensorArgument& argument : call.inputs)
      for (const Ref& ref : argument.segments) read(cost, ref);
    for (const TensorArgument& argument : call.outputs)
      for (const Ref& ref : argument.segments) {
        write(cost, ref);
        if (call.adds && !plan_.buffers[ref.buffer].per_token) read(cost, ref);
      }
  }

  void add(StepCost& cost, const AttentionCall& call) const {
    cost.attention = true;
    read(cost, call.qkv);
    write(cost, call.y);
    write(cost, call.lse);
    // The scores and the mean of the values.
    cost.flops_per_key = 2 * 2 * call.shape.query_heads * call.shape.head_size;
  }

  void add(StepCost& cost, const AttentionGradientCall& call) const {
    cost.attention = true;
    for (const Ref& ref : {call.qkv, call.y, call.lse, call.d_y}) read(cost, ref);
    write(cost, call.d_qkv);
    // The scores again, and the gradients by probabilities, values, queries and keys.
    cost.flops_per_key = 5 * 2 * call.shape.query_heads * call.shape.head_size;
  }

  /// One row of the table a token.
  void add(StepCost& cost, const EmbeddingCall& call) const {
    read(cost, call.ids);
    write(cost, call.out);
    cost.matrices.read += bytes(call.out);
    widen(cost, call.out);
  }

  void add(StepCost& cost, const EmbeddingGradientCall& call) const {
    read(cost, call.ids);
    read(cost, call.d_out);
    write(cost, call.d_table);
    if (call.adding) read(cost, call.d_table);
  }

  const Plan& plan_;
  const DType type_;
};

Cost::Saved saved(const Plan& plan, const Counter& counter) {
  std::vector<bool> early(plan.buffers.size()), late(early), by_attention(early);
  std::vector<bool> of_attention(early);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const bool gradient = std::holds_alternative<AttentionGradientCall>(step.call);
    for (const Ref& ref : reads(step)) {
      if (s < plan.backward)
        early[ref.buffer] = true;
      else
        (gradient ? by_attention : late)[ref.buffer] = true;
    }
    if (s < plan.backward)
      for (const Ref& ref : writes(step)) early[ref.buffer] = true;
    if (const auto* call = std::get_if<AttentionCall>(&step.call))
      of_attention[call->y.buffer] = of_attention[call->lse.buffer] = true;
  }
  Cost::Saved result;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (!buffer.per_token || !early[b] || !(late[b] || by_attention[b])) continue;
    const int64_t bytes = counter.bytes({static_cast<int>(b), 0, buffer.columns});
    if (of_attention[b] && !late[b]) {
      result.attention += bytes;
    } else if (is_matrix(buffer)) {
      result.matrices += bytes;
      result.widths[buffer.columns] += bytes;
    } else {
      result.rows += bytes;
    }
  }
  return result;
}

std::string line(std::string_view name, const Cost::Part& part) {
  return fmt::format(
      "{}: {} calls; matrices {} + {}, rows {} + {}, attention {} + {} bytes a token read and "
      "written; fixed {} + {} bytes; {} FLOPs a token, {} a token and key\n",
      name, part.calls, part.matrices.read, part.matrices.written, part.rows.read,
      part.rows.written, part.attention.read, part.attention.written, part.fixed.read,
      part.fixed.written, part.flops, part.flops_per_key);
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  read += other.read;
  written += other.written;
  return *this;
}

Cost cost_of(const Plan& plan, DType type) {
  const Counter counter(plan, type);
  Cost cost;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    StepCost step = counter.count(plan.steps[s]);
    step.backward = s >= plan.backward;
    Cost::Part& part = step.backward ? cost.backward : cost.forward;
    part.calls += std::holds_alternative<ProgramCall>(plan.steps[s].call);
    part.gemms += step.gemm;
    part.flops += step.flops;
    part.flops_per_key += step.flops_per_key;
    part.fixed += step.fixed;
    if (step.attention) {
      part.attention += step.matrices;
      part.attention += step.rows;
    } else {
      part.matrices += step.matrices;
      part.rows += step.rows;
      for (const auto& [columns, bytes] : step.widths) part.widths[columns] += bytes;
    }
    cost.steps.push_back(std::move(step));
  }
  cost.saved = saved(plan, counter);
  return cost;
}

std::string to_string(const Cost& cost) {
  std::string result;
  for (const StepCost& step : cost.steps)
    result += fmt::format("  {:8} {:24} matrices {} + {}, rows {} + {}, fixed {} + {}\n",
                          step.backward ? "backward" : "forward", step.name, step.matrices.read,
                          step.matrices.written, step.rows.read, step.rows.written, step.fixed.read,
                          step.fixed.written);
  return result + line("forward", cost.forward) + line("backward", cost.backward) +
         fmt::format("saved: matrices {}, rows {}, attention {} bytes a token\n",
                     cost.saved.matrices, cost.saved.rows, cost.saved.attention);
}

}  // namespace coda::rewrite
