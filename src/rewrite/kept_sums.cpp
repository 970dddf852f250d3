// SPDX-License-Identifier: Apache-2.0
// Pass 6, cut: sums over tokens that later steps read.
//
// An output that is a sum over tokens may hold more than this run's sum, since runs add to it.
// Steps that read such a sum are given memory of the plan's own, which the step that makes it
// stores as well.
#include <algorithm>
#include <map>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

class KeptSums {
 public:
  explicit KeptSums(Plan& plan) : plan_(plan) {}

  void run() {
    for (Step& step : plan_.steps)
      if (auto* call = std::get_if<ProgramCall>(&step.call))
        for (TensorArgument& argument : call->inputs)
          for (Ref& ref : argument.segments)
            if (is_sum(plan_.buffers[ref.buffer])) ref.buffer = local_of(ref.buffer);
    for (Step& step : plan_.steps) {
      auto* call = std::get_if<ProgramCall>(&step.call);
      if (!call || !call->rows_are_tokens) continue;
      for (size_t i = call->outputs.size(); i-- > 0;) store_as_well(*call, i);
    }
  }

 private:
  static bool is_sum(const Buffer& buffer) {
    return buffer.role == Buffer::Role::output && !buffer.per_token && buffer.rows == 1;
  }

  void store_as_well(ProgramCall& call, size_t i) {
    TensorArgument copy = call.outputs[i];
    if (std::none_of(copy.segments.begin(), copy.segments.end(),
                     [&](const Ref& ref) { return kept_.count(ref.buffer) > 0; }))
      return;
    for (Ref& ref : copy.segments) ref.buffer = local_of(ref.buffer);
    ir::Output output = call.program.outputs[i];
    copy.name = output.name = unused_name(call.program, output.name + "_kept");
    call.program.outputs.push_back(output);
    call.outputs.push_back(copy);
  }

  static std::string unused_name(const ir::Program& program, std::string name) {
    const auto taken = [&](const auto& item) { return item.name == name; };
    while (std::any_of(program.inputs.begin(), program.inputs.end(), taken) ||
           std::any_of(program.outputs.begin(), program.outputs.end(), taken))
      name += "_";
    return name;
  }

  int local_of(int output) {
    if (const auto found = kept_.find(output); found != kept_.end()) return found->second;
    Buffer buffer = plan_.buffers[output];
    buffer.role = Buffer::Role::local;
    buffer.name += "_kept";
    plan_.buffers.push_back(buffer);
    return kept_[output] = static_cast<int>(plan_.buffers.size()) - 1;
  }

  Plan& plan_;
  std::map<int, int> kept_;  // outputs to local buffers
};

}  // namespace

void keep_sums(Plan& plan) { KeptSums(plan).run(); }

}  // namespace coda::rewrite
