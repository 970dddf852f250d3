// SPDX-License-Identifier: Apache-2.0
// Sums over tokens in a loop over chunks of tokens.
//
// A step of the loop sees one chunk, so a sum over tokens that it makes is a part of one: parts add
// up over the chunks (Buffer::summed, or the memory of an output). What is computed from such a sum
// (the quotient of two, the sum of two summands of one gradient) has to wait for the last chunk, so
// it moves to a step of its own behind the loop.
#include <coda/error.h>

#include <algorithm>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::Reduce;
using ir::ValueId;

/// Whether the value is one sum over tokens and nothing else.
bool is_sum(const ir::Program& program, ValueId v) {
  const auto* reduce = std::get_if<Reduce>(&program.nodes[v]);
  return reduce && !reduce->kept.rows && program.info[reduce->arg].dims.rows;
}

bool needs_sum(const ir::Program& program, ValueId v) {
  if (is_sum(program, v)) return true;
  const std::vector<ValueId> args = ir::operands(program.nodes[v]);
  return std::any_of(args.begin(), args.end(), [&](ValueId id) { return needs_sum(program, id); });
}

/// One step of the loop, taken apart.
class LoopSums {
 public:
  LoopSums(Plan& plan, Step& step)
      : plan_(plan), call_(std::get<ProgramCall>(step.call)), builder_("behind_chunks") {}

  std::optional<Step> run() {
    ir::Program& program = call_.program;
    const std::vector<ir::Output> outputs = program.outputs;
    const std::vector<TensorArgument> arguments = call_.outputs;
    program.outputs.clear(), call_.outputs.clear();
    for (size_t i = 0; i < outputs.size(); ++i) {
      Buffer& buffer = plan_.buffers[arguments[i].segments[0].buffer];
      const bool kept = buffer.per_token || is_sum(program, outputs[i].value) ||
                        (buffer.role != Buffer::Role::output &&
                         !needs_sum(program, outputs[i].value));  // the same for every chunk
      if (!kept) {
        ir::Output moved = outputs[i];
        moved.value = value(moved.value);
        builder_.output(moved);
        behind_.outputs.push_back(arguments[i]);
        continue;
      }
      if (!buffer.per_token && is_sum(program, outputs[i].value)) {
        require_sum(program, outputs[i].value);
        for (const Ref& ref : arguments[i].segments) mark(ref);
      }
      program.outputs.push_back(outputs[i]);
      call_.outputs.push_back(arguments[i]);
    }
    if (behind_.outputs.empty()) return std::nullopt;
    program.outputs.insert(program.outputs.end(), parts_.begin(), parts_.end());
    call_.outputs.insert(call_.outputs.end(), part_arguments_.begin(), part_arguments_.end());
    drop_unused(call_);
    behind_.program = builder_.finish();
    behind_.columns = call_.columns;
    return Step{behind_.outputs[0].name, std::move(behind_)};
  }

 private:
  /// Chunks have sums that add up; means and extrema would need more.
  void require_sum(const ir::Program& program, ValueId v) const {
    const auto& reduce = std::get<Reduce>(program.nodes[v]);
    if (reduce.op != ir::ReduceOp::sum)
      throw Error(ErrorKind::unsupported, "chunk", "sums over tokens",
                  std::string(ir::name_of(reduce.op)) + " over tokens", "use no chunks");
  }

  void mark(const Ref& ref) {
    Buffer& buffer = plan_.buffers[ref.buffer];
    buffer.summed = buffer.role != Buffer::Role::output;
  }

  /// The value in the program behind the loop: sums are loaded there.
  ValueId value(ValueId v) {
    if (const auto found = known_.find(v); found != known_.end()) return found->second;
    const ir::Node& node = call_.program.nodes[v];
    ValueId made = -1;
    if (is_sum(call_.program, v)) {
      made = part(v);
    } else if (const auto* input = std::get_if<ir::InputValue>(&node)) {
      const ir::Input& source = call_.program.inputs[input->input];
      made = builder_.input(source).id();
      behind_.inputs.push_back(argument(source.name));
    } else {
      made = builder_.node(ir::with_operands(node, [&](ValueId id) { return value(id); })).id();
    }
    return known_[v] = made;
  }

  const TensorArgument& argument(const std::string& name) const {
    for (const TensorArgument& input : call_.inputs)
      if (input.name == name) return input;
    throw Error(ErrorKind::internal, "chunk", "an input of the step", name);
  }

  /// A sum that becomes a buffer: stored by the loop, loaded behind it.
  ValueId part(ValueId v) {
    require_sum(call_.program, v);
    const ir::ValueInfo& info = call_.program.info[v];
    Buffer buffer;
    buffer.name = fresh("part");
    buffer.per_token = false;
    buffer.columns = width(info.dims.columns);
    const bool integer = info.number != ir::Number::real;
    buffer.type = {false, integer ? DType::i64 : DType::f32};
    buffer.summed = true;
    plan_.buffers.push_back(buffer);
    const TensorArgument argument{
        buffer.name, {{static_cast<int>(plan_.buffers.size()) - 1, 0, buffer.columns}}};
    parts_.push_back({buffer.name, buffer.type, info.dims, v});
    part_arguments_.push_back(argument);
    behind_.inputs.push_back(argument);
    return builder_.input({buffer.name, ir::Input::Kind::tensor, buffer.type, info.dims}).id();
  }

  /// Columns of a value over columns of the step.
  int64_t width(const ir::Columns& columns) const {
    if (columns.kind == ir::Columns::Kind::none) return 1;
    const int64_t symbols[] = {call_.columns};
    const auto number = [&](const ir::Size& size) { return ir::evaluate(size, symbols, "chunk"); };
    if (columns.kind == ir::Columns::Kind::repeat) return number(columns.size);
    if (columns.kind == ir::Columns::Kind::group)
      return number(columns.width) / number(columns.size);
    return number(columns.width);
  }

  std::string fresh(const std::string& base) const {
    const auto taken = [&](const std::string& name) {
      const auto same = [&](const auto& item) { return item.name == name; };
      return std::any_of(call_.inputs.begin(), call_.inputs.end(), same) ||
             std::any_of(plan_.buffers.begin(), plan_.buffers.end(), same);
    };
    for (int i = 1;; ++i)
      if (std::string name = base + "_" + std::to_string(i); !taken(name)) return name;
  }

  static void drop_unused(ProgramCall& call) {
    call.program = ir::drop_unused_inputs(ir::eliminate(call.program));
    std::erase_if(call.inputs, [&](const TensorArgument& argument) {
      return std::none_of(call.program.inputs.begin(), call.program.inputs.end(),
                          [&](const ir::Input& input) { return input.name == argument.name; });
    });
  }

  Plan& plan_;
  ProgramCall& call_;
  ProgramCall behind_;
  ir::Builder builder_;
  std::map<ValueId, ValueId> known_;
  std::vector<ir::Output> parts_;
  std::vector<TensorArgument> part_arguments_;
};

}  // namespace

std::vector<Step> split_loop_sums(Plan& plan, std::span<Step> loop) {
  std::set<int> sums;
  for (const Step& step : loop) {
    const auto* call = std::get_if<ProgramCall>(&step.call);
    if (!call || !call->rows_are_tokens) continue;
    for (size_t i = 0; i < call->outputs.size(); ++i)
      for (const Ref& ref : call->outputs[i].segments)
        if (!plan.buffers[ref.buffer].per_token &&
            needs_sum(call->program, call->program.outputs[i].value))
          sums.insert(ref.buffer);
  }
  for (const Step& step : loop)
    for (const Ref& ref : reads(step))
      if (sums.count(ref.buffer))
        throw Error(ErrorKind::unsupported, "chunk",
                    "a loss whose gradient needs nothing that is known only after all tokens",
                    "step '" + step.name + "', which needs '" + plan.buffers[ref.buffer].name + "'",
                    "make the divisor of the loss an input, or use no chunks");
  std::vector<Step> behind;
  for (Step& step : loop) {
    const auto* call = std::get_if<ProgramCall>(&step.call);
    if (!call || !call->rows_are_tokens) continue;
    if (std::optional<Step> rest = LoopSums(plan, step).run()) behind.push_back(std::move(*rest));
  }
  return behind;
}

}  // namespace coda::rewrite
