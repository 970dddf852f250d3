// SPDX-License-Identifier: Apache-2.0
#include "rewrite/labels.h"

#include <algorithm>
#include <map>

#include "ir/simplify.h"

namespace coda::rewrite {
namespace {

using Names = std::vector<std::string>;

void add(Names& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string joined(const Names& names, const char* between) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : between) + name;
  return result;
}

std::string shown(const Plan& plan, const Ref& ref) {
  const Buffer& buffer = plan.buffers[ref.buffer];
  return buffer.per_token ? buffer.name : short_name(buffer.name);
}

std::string work_of(const ir::Program& program) {
  Names names;
  for (ir::ValueId id : ir::live_nodes(program)) {
    const ir::Node& node = program.nodes[id];
    if (const auto* op = std::get_if<ir::Elementwise>(&node))
      add(names, std::string(ir::spelling(op->op)));
    else if (const auto* reduce = std::get_if<ir::Reduce>(&node))
      add(names, std::string(ir::name_of(reduce->op)));
  }
  return joined(names, " ");
}

/// Weights in the order in which the model has them.
class Weights {
 public:
  explicit Weights(const Plan& plan) {
    for (const Buffer& buffer : plan.buffers)
      if (buffer.role == Buffer::Role::input && !buffer.per_token)
        order_.emplace(short_name(buffer.name), order_.size());
  }

  std::string side_by_side(Names names) const {
    const auto place = [&](const std::string& name) {
      const auto found = order_.find(name);
      return found == order_.end() ? order_.size() : found->second;
    };
    std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return place(a) < place(b);
    });
    return joined(names, "|");
  }

 private:
  std::map<std::string, size_t> order_;
};

/// The weights that a buffer meets in products.
struct Meets {
  Names in, out;                    // it is multiplied with these; it comes of a product with them
  Names gradient_in, gradient_out;  // it is the gradient of such a value
  std::string attention;            // what it is to attention
};

class Labels {
 public:
  explicit Labels(const Plan& plan) : plan_(plan), weights_(plan), meets_(plan.buffers.size()) {
    for (const Step& step : plan.steps) {
      if (const auto* call = std::get_if<ProgramCall>(&step.call)) look(*call);
      if (const auto* call = std::get_if<AttentionCall>(&step.call)) {
        meets_[call->qkv.buffer].attention = "qkv";
        meets_[call->lse.buffer].attention = "lse";
      }
      if (const auto* call = std::get_if<AttentionGradientCall>(&step.call))
        meets_[call->d_qkv.buffer].attention = "d_qkv";
    }
  }

  std::string of(int buffer) {
    const Meets& m = meets_[buffer];
    const auto weights = [&](const Names& names) { return weights_.side_by_side(names); };
    if (!m.attention.empty()) return m.attention;
    if (!plan_.buffers[buffer].per_token) return "sum";
    if (plan_.buffers[buffer].columns == 1)
      return m.out.empty() ? "row" + std::to_string(++rows_) : weights(m.out) + ".row";
    if (!m.in.empty()) return weights(m.in) + ".in";
    if (!m.gradient_out.empty()) return "d_" + weights(m.gradient_out) + ".out";
    if (!m.out.empty()) return weights(m.out) + ".out";
    if (!m.gradient_in.empty()) return "d_" + weights(m.gradient_in) + ".in";
    return "value" + std::to_string(++values_);
  }

 private:
  void look(const ProgramCall& call) {
    if (call.products.empty()) return;
    if (!call.rows_are_tokens) {
      for (const Ref& gradient : call.outputs[0].segments) {
        const std::string weight = shown(plan_, gradient).substr(2);
        add(meets_[call.products[0].a.buffer].gradient_out, weight);
        add(meets_[call.products[0].weights[0].buffer].in, weight);
      }
      return;
    }
    const bool bare = work_of(call.program).empty();
    for (const ProductTerm& term : call.products)
      for (const Ref& ref : term.weights) {
        const std::string weight = shown(plan_, ref);
        Meets& a = meets_[term.a.buffer];
        add(ref.transposed ? a.gradient_out : a.in, weight);
        // With work on it, the product that goes back gives other values than the gradient.
        if (ref.transposed && !bare) continue;
        for (const TensorArgument& output : call.outputs)
          for (const Ref& made : output.segments) {
            Meets& m = meets_[made.buffer];
            add(ref.transposed ? m.gradient_in : m.out, weight);
          }
      }
  }

  const Plan& plan_;
  const Weights weights_;
  std::vector<Meets> meets_;
  int rows_ = 0, values_ = 0;
};

/// Terms that share an operand are one product with weights side by side.
std::string products_of(const Plan& plan, const ProgramCall& call) {
  struct Product {
    Ref a;
    Names weights;
    bool transposed;
  };
  std::vector<Product> products;
  for (const ProductTerm& term : call.products) {
    if (products.empty() || products.back().a.buffer != term.a.buffer)
      products.push_back({term.a, {}, term.weights[0].transposed && call.rows_are_tokens});
    for (const Ref& weight : term.weights) add(products.back().weights, shown(plan, weight));
  }
  const Weights weights(plan);
  std::string result;
  for (const Product& product : products)
    result += (result.empty() ? "" : " + ") + shown(plan, product.a) +
              (product.a.transposed ? "^T" : "") + " * " + weights.side_by_side(product.weights) +
              (product.transposed ? "^T" : "");
  return result;
}

}  // namespace

std::string short_name(std::string_view parameter) {
  const bool gradient = parameter.substr(0, 2) == "d_";
  for (const std::string_view end : {".weight", ".bias"})
    if (parameter.size() > end.size() && parameter.substr(parameter.size() - end.size()) == end) {
      parameter.remove_suffix(end.size());
      const size_t dot = parameter.rfind('.');
      if (dot != std::string_view::npos) parameter.remove_prefix(dot + 1);
      constexpr std::string_view kProjection = "_proj";
      if (parameter.size() > kProjection.size() &&
          parameter.substr(parameter.size() - kProjection.size()) == kProjection)
        parameter.remove_suffix(kProjection.size());
      const std::string suffix = end == ".bias" ? "_bias" : "";
      return (gradient && dot != std::string_view::npos ? "d_" : "") + std::string(parameter) +
             suffix;
    }
  return std::string(parameter);
}

Plan labelled(Plan plan) {
  Labels labels(plan);
  std::vector<std::string> names(plan.buffers.size());
  const auto name = [&](int buffer) {
    if (names[buffer].empty() && plan.buffers[buffer].name[0] == '%')
      names[buffer] = labels.of(buffer);
  };
  // Counted in the order in which steps make them.
  for (const Step& step : plan.steps)
    for (const Ref& ref : writes(step)) name(ref.buffer);
  for (size_t b = 0; b < names.size(); ++b) {
    name(static_cast<int>(b));
    if (!names[b].empty()) plan.buffers[b].name = std::move(names[b]);
  }
  return plan;
}

Description describe(const Plan& plan, const Step& step) {
  Description result;
  const auto* call = std::get_if<ProgramCall>(&step.call);
  if (!call) {
    result.work = step.name;
    for (const Ref& ref : reads(step)) add(result.inputs, shown(plan, ref));
    for (const Ref& ref : writes(step)) add(result.outputs, shown(plan, ref));
    return result;
  }
  result.products = products_of(plan, *call);
  result.work = work_of(call->program);
  for (const TensorArgument& argument : call->inputs)
    for (const Ref& ref : argument.segments) add(result.inputs, shown(plan, ref));
  for (const TensorArgument& argument : call->outputs)
    for (const Ref& ref : argument.segments) add(result.outputs, shown(plan, ref));
  return result;
}

}  // namespace coda::rewrite
