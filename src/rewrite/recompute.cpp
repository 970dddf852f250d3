// SPDX-License-Identifier: Apache-2.0
// Pass 8, recompute: activation checkpointing. Of what forward steps make, backward steps keep the
// values that end a block (GraphBuilder::end_block), one number a token for each statistic, and
// what follows the last end; copies of the forward steps make the others again, just before the
// first backward step that needs them. Stores that only the backward steps read go from the forward
// steps.
//
// It runs last, on steps: a copy is the same program on the same operands, so it makes the same
// bits, and the backward steps do not change. A graph that is cut anew would round where the first
// one does not. A step that makes the end of a block also makes what the next block reads of it
// (the operand of its first product, say); that part of its program is run alone, with the end
// loaded where it was computed. It may be, because the end's value is rounded to what memory holds.
#include <coda/error.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "rewrite/passes.h"

namespace coda::rewrite {
namespace {

using ir::ValueId;

/// Outputs of a forward step that can be made again together.
struct Piece {
  size_t step;
  bool behind;  // the block's end that the step makes, from that end alone
  std::vector<size_t> outputs;
};

/// Values of a call's program that end a block, and where they lie.
using Ends = std::map<ValueId, TensorArgument>;

Ends ends_of(const Plan& plan, const ProgramCall& call) {
  Ends ends;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const TensorArgument& argument = call.outputs[i];
    if (argument.segments.size() == 1 && plan.buffers[argument.segments[0].buffer].ends_block)
      ends[call.program.outputs[i].value] = argument;
  }
  return ends;
}

/// The call with some of its outputs, the given ends of blocks loaded.
ProgramCall part_of(const ProgramCall& call, const std::vector<size_t>& outputs, const Ends& ends) {
  ProgramCall part = call;
  ir::Program& program = part.program;
  for (const auto& [v, argument] : ends) {
    program.inputs.push_back(
        {argument.name, ir::Input::Kind::tensor, {true}, program.info[v].dims});
    program.nodes[v] = ir::InputValue{static_cast<int>(program.inputs.size()) - 1};
    program.names[v].clear();
    part.inputs.push_back(argument);
  }
  program.outputs.clear(), part.outputs.clear();
  std::string name;
  for (size_t i : outputs) {
    program.outputs.push_back(call.program.outputs[i]);
    part.outputs.push_back(call.outputs[i]);
    name += (name.empty() ? "" : "_") + call.outputs[i].name;
  }
  program = ir::drop_unused_inputs(ir::eliminate(program));
  program.name = name;
  const auto gone = [&](const std::string& input) {
    return std::none_of(program.inputs.begin(), program.inputs.end(),
                        [&](const ir::Input& other) { return other.name == input; });
  };
  std::erase_if(part.products, [&](const ProductTerm& term) { return gone(term.accumulator); });
  std::erase_if(part.inputs, [&](const TensorArgument& input) { return gone(input.name); });
  return part;
}

class Recompute {
 public:
  explicit Recompute(Plan& plan)
      : plan_(plan),
        kept_(plan.buffers.size()),
        needed_(plan.buffers.size()),
        depth_(plan.buffers.size()),
        again_(plan.buffers.size(), -1) {}

  void run() {
    find_pieces();
    decide();
    copy();
    std::vector<bool> alive(plan_.buffers.size());
    std::vector<std::vector<Step>> before = order(alive);
    assemble(trimmed_forward(alive), std::move(before));
    set_roles();
  }

 private:
  bool in_loop(size_t s) const { return s >= plan_.chunk_begin && s < plan_.chunk_end; }

  // --- what forward steps are made of

  void find_pieces() {
    bool any = false;
    for (size_t s = 0; s < plan_.backward; ++s) {
      int depth = 0;
      for (const Ref& ref : reads(plan_.steps[s])) depth = std::max(depth, depth_[ref.buffer]);
      Piece before{s, false, {}}, behind{s, true, {}};
      if (const auto* call = std::get_if<ProgramCall>(&plan_.steps[s].call)) {
        const Ends ends = ends_of(plan_, *call);
        any = any || !ends.empty();
        split(*call, ends, before, behind);
        for (size_t i : behind.outputs) set_depth(call->outputs[i], depth + 1);
        for (size_t i : before.outputs) set_depth(call->outputs[i], depth);
        for (const auto& end : ends) set_depth(end.second, depth + 1);
      } else {
        for (const Ref& ref : writes(plan_.steps[s])) depth_[ref.buffer] = depth;
        pieces_.push_back(before);
      }
      if (!before.outputs.empty()) pieces_.push_back(before);
      if (!behind.outputs.empty()) pieces_.push_back(behind);
    }
    if (!any)
      throw Error(ErrorKind::argument, "[" + plan_.name + "] recompute",
                  "a value that ends a block", "none", "mark values with GraphBuilder::end_block");
  }

  void set_depth(const TensorArgument& argument, int depth) {
    for (const Ref& ref : argument.segments)
      depth_[ref.buffer] = std::max(depth_[ref.buffer], depth), last_ = std::max(last_, depth);
  }

  /// Divides outputs into those before the end of the block and those behind it. What mixes both is
  /// kept: neither block could make it alone.
  void split(const ProgramCall& call, const Ends& ends, Piece& before, Piece& behind) {
    const ir::Program& program = call.program;
    enum : unsigned char { nothing = 0, block = 1, end = 2 };
    std::vector<unsigned char> from(program.nodes.size(), nothing);
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      if (const auto* input = std::get_if<ir::InputValue>(&program.nodes[i]))
        from[i] = of_block(call, program.inputs[input->input]) ? block : nothing;
      for (ValueId id : ir::operands(program.nodes[i])) from[i] |= from[id];
      if (ends.count(static_cast<ValueId>(i))) from[i] = end;
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const ValueId value = program.outputs[i].value;
      if (ends.count(value) || from[value] == (block | end))
        keep(call.outputs[i]);
      else
        (from[value] == end ? behind : before).outputs.push_back(i);
    }
  }

  /// Whether an input holds what forward steps made.
  bool of_block(const ProgramCall& call, const ir::Input& input) const {
    if (input.kind == ir::Input::Kind::accumulator) return true;
    for (const TensorArgument& argument : call.inputs)
      if (argument.name == input.name) return !outside(argument.segments[0].buffer);
    return true;
  }
  bool outside(int buffer) const { return plan_.buffers[buffer].role == Buffer::Role::input; }

  void keep(const TensorArgument& argument) {
    for (const Ref& ref : argument.segments) kept_[ref.buffer] = true;
  }

  // --- what is kept, what is made again

  void decide() {
    std::vector<bool> forward(plan_.buffers.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (const Ref& ref : writes(plan_.steps[s])) {
        if (s < plan_.backward) forward[ref.buffer] = true;
        if (s >= plan_.backward || in_loop(s)) kept_[ref.buffer] = true;
      }
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      const bool here = buffer.role == Buffer::Role::input || buffer.role == Buffer::Role::output;
      const bool small = !buffer.per_token || buffer.columns == 1;
      if (!forward[b] || here || small || buffer.ends_block || depth_[b] >= last_) kept_[b] = true;
    }
    for (size_t s = plan_.backward; s < plan_.steps.size(); ++s) need(plan_.steps[s]);
  }

  void need(const Step& step) {
    for (const Ref& ref : reads(step))
      if (!kept_[ref.buffer]) needed_[ref.buffer] = true;
  }

  /// Copies of the steps, the last first: what they read is needed too.
  void copy() {
    for (size_t p = pieces_.size(); p-- > 0;) {
      const Piece& piece = pieces_[p];
      Step step = plan_.steps[piece.step];
      if (auto* call = std::get_if<ProgramCall>(&step.call)) {
        std::vector<size_t> outputs;
        for (size_t i : piece.outputs)
          if (needs(call->outputs[i].segments)) outputs.push_back(i);
        if (outputs.empty()) continue;
        *call = part_of(*call, outputs, piece.behind ? ends_of(plan_, *call) : Ends{});
        step.name = call->program.name;
      } else if (!needs(writes(step))) {
        continue;
      }
      need(step);
      copies_.emplace_back(step);
    }
    std::reverse(copies_.begin(), copies_.end());
    for (size_t b = 0; b < needed_.size(); ++b)
      if (needed_[b]) fresh(static_cast<int>(b));
    for (size_t c = 0; c < copies_.size(); ++c) {
      each_write(copies_[c], [&](Ref& ref) {
        ref.buffer = fresh(ref.buffer);
        makers_[ref.buffer].push_back(c);
      });
      redirect(copies_[c]);
    }
    for (size_t s = plan_.backward; s < plan_.steps.size(); ++s) redirect(plan_.steps[s]);
  }

  bool needs(const std::vector<Ref>& refs) const {
    return std::any_of(refs.begin(), refs.end(),
                       [&](const Ref& ref) { return needed_[ref.buffer]; });
  }

  /// The buffer that holds what `buffer` held when it is made again.
  int fresh(int buffer) {
    if (again_[buffer] < 0) {
      again_[buffer] = static_cast<int>(plan_.buffers.size());
      Buffer made = plan_.buffers[buffer];
      made.name += "_again";
      made.role = Buffer::Role::local;
      plan_.buffers.push_back(std::move(made));
    }
    return again_[buffer];
  }

  void redirect(Step& step) {
    each_read(step, [&](Ref& ref) {
      const auto b = static_cast<size_t>(ref.buffer);
      if (b < needed_.size() && needed_[b]) ref.buffer = again_[b];
    });
  }

  // --- where

  /// The copies that run before each backward step; marks what backward steps and copies read.
  std::vector<std::vector<Step>> order(std::vector<bool>& alive) {
    std::vector<std::vector<Step>> before(plan_.steps.size());
    std::vector<bool> done(copies_.size());
    const auto read = [&](const Step& step) {
      for (const Ref& ref : reads(step)) alive[ref.buffer] = true;
    };
    const std::function<void(const Step&, std::vector<Step>&)> emit = [&](const Step& step,
                                                                          std::vector<Step>& to) {
      for (const Ref& ref : reads(step))
        for (size_t c : makers_[ref.buffer]) {
          if (done[c]) continue;
          done[c] = true;
          emit(copies_[c], to);
          read(copies_[c]);
          to.push_back(copies_[c]);
        }
    };
    for (size_t s = plan_.backward; s < plan_.steps.size(); ++s) {
      read(plan_.steps[s]);
      emit(plan_.steps[s], before[in_loop(s) ? plan_.chunk_begin : s]);
    }
    return before;
  }

  /// Forward steps without the stores that nothing reads any more.
  std::vector<std::optional<Step>> trimmed_forward(std::vector<bool>& alive) const {
    std::vector<std::optional<Step>> result(plan_.backward);
    const auto wanted = [&](const Ref& ref) {
      return alive[ref.buffer] || plan_.buffers[ref.buffer].role == Buffer::Role::output;
    };
    for (size_t s = plan_.backward; s-- > 0;) {
      Step step = plan_.steps[s];
      if (auto* call = std::get_if<ProgramCall>(&step.call)) {
        std::vector<size_t> outputs;
        for (size_t i = 0; i < call->outputs.size(); ++i)
          if (std::any_of(call->outputs[i].segments.begin(), call->outputs[i].segments.end(),
                          wanted))
            outputs.push_back(i);
        if (outputs.empty()) continue;
        if (outputs.size() < call->outputs.size()) {
          *call = part_of(*call, outputs, {});
          step.name = call->program.name;
        }
      } else {
        const std::vector<Ref> made = writes(step);
        if (std::none_of(made.begin(), made.end(), wanted)) continue;
      }
      for (const Ref& ref : reads(step)) alive[ref.buffer] = true;
      result[s] = std::move(step);
    }
    return result;
  }

  void assemble(std::vector<std::optional<Step>> forward, std::vector<std::vector<Step>> before) {
    std::vector<Step> steps;
    size_t loop_begin = 0, loop_end = 0, backward = 0;
    for (size_t s = 0; s <= plan_.steps.size(); ++s) {
      if (s == plan_.backward) backward = steps.size();
      if (s == plan_.chunk_end) loop_end = steps.size();
      if (s < plan_.steps.size())
        for (Step& step : before[s]) steps.push_back(std::move(step));
      if (s == plan_.chunk_begin) loop_begin = steps.size();
      if (s == plan_.steps.size()) break;
      if (s >= plan_.backward)
        steps.push_back(std::move(plan_.steps[s]));
      else if (forward[s])
        steps.push_back(std::move(*forward[s]));
    }
    plan_.steps = std::move(steps);
    plan_.backward = backward;
    plan_.chunk_begin = loop_begin, plan_.chunk_end = loop_end;
  }

  void set_roles() {
    std::vector<bool> forward(plan_.buffers.size()), saved(plan_.buffers.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (s < plan_.backward)
        for (const Ref& ref : writes(plan_.steps[s])) forward[ref.buffer] = true;
      else
        for (const Ref& ref : reads(plan_.steps[s])) saved[ref.buffer] = forward[ref.buffer];
    }
    for (size_t b = 0; b < saved.size(); ++b) {
      Buffer::Role& role = plan_.buffers[b].role;
      if (role != Buffer::Role::local && role != Buffer::Role::saved) continue;
      role = saved[b] && !plan_.buffers[b].chunked ? Buffer::Role::saved : Buffer::Role::local;
    }
  }

  Plan& plan_;
  std::vector<Piece> pieces_;  // in the order of steps
  std::vector<bool> kept_, needed_;
  std::vector<int> depth_;  // of each buffer: ends of blocks that it is computed from
  int last_ = 0;
  std::vector<Step> copies_;
  std::vector<int> again_;
  std::map<int, std::vector<size_t>> makers_;  // copies, by the buffer that they write
};

}  // namespace

bool ends_block(const ir::Program& graph, ValueId id) {
  const auto* round = std::get_if<ir::Round>(&graph.nodes[id]);
  return round && round->type.generic;
}

void recompute(Plan& plan) { Recompute(plan).run(); }

}  // namespace coda::rewrite
