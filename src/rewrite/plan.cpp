// SPDX-License-Identifier: Apache-2.0
#include "rewrite/plan.h"

#include <type_traits>

namespace coda::rewrite {
namespace {

/// f(ref) for each reference of a call to what it reads, or writes; calls may be const.
template <class Arguments, class F>
void visit_arguments(Arguments& arguments, const F& f) {
  for (auto& argument : arguments)
    for (auto& ref : argument.segments) f(ref);
}
template <class AnyStep, class F>
void visit_reads(AnyStep& step, const F& f) {
  std::visit(
      [&f](auto& call) {
        using Call = std::remove_const_t<std::remove_reference_t<decltype(call)>>;
        if constexpr (std::is_same_v<Call, ProgramCall>) {
          for (auto& term : call.products) {
            f(term.a);
            for (auto& weight : term.weights) f(weight);
          }
          visit_arguments(call.inputs, f);
        } else if constexpr (std::is_same_v<Call, AttentionCall>) {
          f(call.qkv);
        } else if constexpr (std::is_same_v<Call, AttentionGradientCall>) {
          f(call.qkv), f(call.y), f(call.lse), f(call.d_y);
        } else if constexpr (std::is_same_v<Call, EmbeddingCall>) {
          f(call.ids), f(call.table);
        } else {
          f(call.ids), f(call.d_out);
        }
      },
      step.call);
}
template <class AnyStep, class F>
void visit_writes(AnyStep& step, const F& f) {
  std::visit(
      [&f](auto& call) {
        using Call = std::remove_const_t<std::remove_reference_t<decltype(call)>>;
        if constexpr (std::is_same_v<Call, ProgramCall>) {
          visit_arguments(call.outputs, f);
        } else if constexpr (std::is_same_v<Call, AttentionCall>) {
          f(call.y), f(call.lse);
        } else if constexpr (std::is_same_v<Call, AttentionGradientCall>) {
          f(call.d_qkv);
        } else if constexpr (std::is_same_v<Call, EmbeddingCall>) {
          f(call.out);
        } else {
          f(call.d_table);
        }
      },
      step.call);
}

std::string text(const Plan& plan, const Ref& ref) {
  const Buffer& buffer = plan.buffers[ref.buffer];
  std::string result = buffer.name;
  if (ref.columns != buffer.columns)
    result += "[" + std::to_string(ref.first) + ":" + std::to_string(ref.first + ref.columns) + "]";
  return ref.transposed ? result + "^T" : result;
}

std::string text(const Plan& plan, const std::vector<TensorArgument>& arguments) {
  std::string result;
  for (const TensorArgument& argument : arguments)
    for (const Ref& ref : argument.segments) result += " " + text(plan, ref);
  return result;
}

std::string text(const Plan& plan, const ProgramCall& call) {
  std::string result;
  for (const ProductTerm& term : call.products) {
    result += result.empty() ? " " : " + ";
    result += (term.accumulator == "b" ? "b: " : "") + text(plan, term.a) + " *";
    for (const Ref& weight : term.weights) result += " " + text(plan, weight);
  }
  if (call.products.empty()) result = "pass";
  return result + " |" + text(plan, call.inputs) + " ->" + text(plan, call.outputs);
}

}  // namespace

std::vector<Ref> reads(const Step& step) {
  std::vector<Ref> refs;
  visit_reads(step, [&](const Ref& ref) { refs.push_back(ref); });
  return refs;
}

std::vector<Ref> writes(const Step& step) {
  std::vector<Ref> refs;
  visit_writes(step, [&](const Ref& ref) { refs.push_back(ref); });
  return refs;
}

void each_read(Step& step, const std::function<void(Ref&)>& f) { visit_reads(step, f); }
void each_write(Step& step, const std::function<void(Ref&)>& f) { visit_writes(step, f); }

bool is_gemm(const Step& step) {
  const auto* call = std::get_if<ProgramCall>(&step.call);
  return call && !call->products.empty();
}

std::string to_string(const Plan& plan) {
  std::string result = "plan " + plan.name + "\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    if (s == plan.backward) result += "  backward\n";
    const bool chunked = s >= plan.chunk_begin && s < plan.chunk_end;
    result += chunked ? "  * " : "    ";
    if (const auto* call = std::get_if<ProgramCall>(&step.call)) {
      result += (call->products.empty() ? "" : "gemm") + text(plan, *call);
    } else {
      result += step.name + " |";
      for (const Ref& ref : reads(step)) result += " " + text(plan, ref);
      result += " ->";
      for (const Ref& ref : writes(step)) result += " " + text(plan, ref);
    }
    result += "\n";
  }
  return result;
}

}  // namespace coda::rewrite
