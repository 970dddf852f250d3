// SPDX-License-Identifier: Apache-2.0
#include "execute/executor.h"

#include <coda/error.h>

#include <algorithm>

#include "cpu/attention.h"
#include "cpu/embedding.h"
#include "ir/builder.h"

namespace coda::execute {

using rewrite::Buffer;
using rewrite::Plan;
using rewrite::ProgramCall;
using rewrite::Ref;
using rewrite::Step;
using rewrite::TensorArgument;

/// One run: which memory each buffer has, and the rows of the chunk at hand.
class Executor::Call {
 public:
  Call(const Executor& executor, const Sizes& sizes, int64_t tokens,
       std::span<const int64_t> sequences, const Tensors* tensors, std::byte* arena)
      : executor_(executor),
        plan_(executor.plan_),
        sequences_(sequences),
        tokens_(tokens),
        workspace_size_(sizes.workspace) {
    const Layout& layout = *sizes.layout;
    memory_.resize(plan_.buffers.size());
    for (size_t b = 0; b < memory_.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.role == Buffer::Role::local || buffer.role == Buffer::Role::saved)
        memory_[b] = arena ? arena + layout.placements[b].offset : nullptr;
      else if (tensors)
        if (const auto found = tensors->find(buffer.name); found != tensors->end())
          memory_[b] = static_cast<std::byte*>(found->second);
    }
    workspace_ = arena ? arena + layout.bytes : nullptr;
    sums_ = arena ? workspace_ + sizes.workspace : nullptr;
    rows(0, tokens);
  }

  void rows(int64_t first, int64_t count) { first_ = first, count_ = count; }

  /// Throws unless every input and output of a step has memory.
  void check(const Step& step) const {
    const auto missing = [&](const Ref& ref) {
      const Buffer& buffer = plan_.buffers[ref.buffer];
      if (memory_[ref.buffer] != nullptr || rows_of(plan_, buffer, tokens_) == 0) return;
      throw Error(
          ErrorKind::argument, "[" + plan_.name + "] '" + buffer.name + "'",
          buffer.role == Buffer::Role::output ? "memory for this output" : "memory with this input",
          "none", "step '" + step.name + "' needs it");
    };
    for (const Ref& ref : rewrite::reads(step)) missing(ref);
    for (const Ref& ref : rewrite::writes(step)) missing(ref);
  }

  /// Throws where an id or a label is none of those that there are.
  void check(const rewrite::Ids& ids) const {
    const Buffer& buffer = plan_.buffers[ids.buffer];
    if (memory_[ids.buffer] == nullptr) return;  // no step of this run needs it
    TensorView labels = view({ids.buffer, 0, 1}, {true, {}});
    std::vector<int64_t> wide;
    if (labels.dtype == DType::u8) {
      const auto* from = static_cast<const uint8_t*>(labels.data);
      wide.assign(from, from + tokens_);
      labels = vector_view(wide.data(), tokens_, DType::i64);
    }
    try {
      check_labels(labels, ids.count, ids.ignored);
    } catch (const Error& error) {
      throw Error(error.kind(), "[" + plan_.name + "] '" + buffer.name + "'", error.expected(),
                  error.got(), error.fix());
    }
  }

  size_t workspace_bytes(size_t s) const {
    return std::visit([&](const auto& call) { return workspace(s, call); }, plan_.steps[s].call);
  }

  /// Memory for the sums of a step that are to be added to what is there.
  size_t sums_bytes(size_t s) const {
    size_t bytes = 0;
    for (size_t i : executor_.kernels_[s].sums) bytes += sum_bytes(s, i);
    return bytes;
  }

  void launch(size_t s, bool adding) const {
    std::visit([&](const auto& call) { run(s, call, adding); }, plan_.steps[s].call);
  }

 private:
  std::byte* address(const Ref& ref) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    if (!memory_[ref.buffer]) return nullptr;
    const int64_t row = buffer.per_token && !buffer.chunked ? first_ : 0;
    const auto bytes = static_cast<int64_t>(size_of(executor_.storage(buffer)));
    return memory_[ref.buffer] + (row * buffer.columns + ref.first) * bytes;
  }

  TensorView matrix(const Ref& ref) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    const int64_t rows = buffer.per_token ? count_ : buffer.rows;
    const TensorView view =
        matrix_view(address(ref), rows, ref.columns, executor_.storage(buffer), buffer.columns);
    return ref.transposed ? transposed(view) : view;
  }

  TensorView view(const Ref& ref, const ir::Dims& dims) const {
    const Buffer& buffer = plan_.buffers[ref.buffer];
    const bool columns = dims.columns.kind != ir::Columns::Kind::none;
    if (dims.rows && columns) return matrix(ref);
    const DType type = executor_.storage(buffer);
    if (dims.rows) return vector_view(address(ref), count_, type);
    return columns ? vector_view(address(ref), ref.columns, type) : scalar_view(address(ref), type);
  }

  static const ir::Dims& dims_of(const ir::Program& program, const std::string& name) {
    for (const ir::Input& input : program.inputs)
      if (input.name == name) return input.dims;
    for (const ir::Output& output : program.outputs)
      if (output.name == name) return output.dims;
    throw Error(ErrorKind::internal, "executor", "an argument of the program", name);
  }

  void set(Arguments& arguments, const ir::Program& program, const TensorArgument& argument) const {
    const ir::Dims& dims = dims_of(program, argument.name);
    std::vector<TensorView> views;
    for (const Ref& ref : argument.segments) views.push_back(view(ref, dims));
    if (views.size() == 1)
      arguments.tensor(argument.name, views[0]);
    else
      arguments.tensor(argument.name, argument.along_rows ? Axis::rows : Axis::columns, views);
  }

  Arguments arguments(const ProgramCall& call, bool adding) const {
    Arguments result;
    const bool added = adding && call.adding;
    const ir::Program& program = added ? *call.adding : call.program;
    result.sizes(call.rows_are_tokens ? count_ : call.rows, call.columns);
    for (const rewrite::ProductTerm& term : call.products) {
      std::vector<TensorView> weights;
      for (const Ref& ref : term.weights) weights.push_back(matrix(ref));
      result.product(term.accumulator, matrix(term.a), weights);
    }
    for (const TensorArgument& argument : call.inputs) set(result, program, argument);
    for (const TensorArgument& argument : call.outputs) set(result, program, argument);
    if (added)
      for (const TensorArgument& argument : call.previous) set(result, program, argument);
    return result;
  }

  // --- sums that are added to what is there: made apart, then added

  size_t sum_bytes(size_t s, size_t output) const {
    const auto& call = std::get<ProgramCall>(plan_.steps[s].call);
    size_t bytes = 0;
    for (const Ref& ref : call.outputs[output].segments)
      bytes += bytes_of(plan_, plan_.buffers[ref.buffer], tokens_, executor_.type_);
    return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }

  /// Of the outputs that are sums, those that a launch adds to what is there: a sum that the plan
  /// keeps for itself begins with the first chunk.
  std::vector<size_t> added_sums(size_t s, const ProgramCall& call, bool adds) const {
    std::vector<size_t> added = executor_.kernels_[s].sums;
    std::erase_if(added, [&](size_t i) {
      return plan_.buffers[call.outputs[i].segments[0].buffer].summed ? first_ == 0 : !adds;
    });
    return added;
  }

  void divert_sums(Arguments& arguments, size_t s, const ProgramCall& call,
                   std::span<const size_t> added) const {
    std::byte* at = sums_;
    for (size_t i : added) {
      const ir::Dims& dims = dims_of(call.program, call.outputs[i].name);
      int64_t columns = 0;
      for (const Ref& ref : call.outputs[i].segments) columns += ref.columns;
      const DType type = executor_.storage(plan_.buffers[call.outputs[i].segments[0].buffer]);
      const bool vector = dims.columns.kind != ir::Columns::Kind::none;
      arguments.tensor(call.outputs[i].name,
                       vector ? vector_view(at, columns, type) : scalar_view(at, type));
      at += sum_bytes(s, i);
    }
  }

  void add_sums(size_t s, const ProgramCall& call, std::span<const size_t> added) const {
    const std::byte* at = sums_;
    for (size_t i : added) {
      const std::byte* from = at;
      for (const Ref& ref : call.outputs[i].segments) {
        const DType type = executor_.storage(plan_.buffers[ref.buffer]);
        Arguments arguments;
        arguments.tensor("a", matrix_view(from, 1, ref.columns, type));
        arguments.tensor("b", matrix_view(address(ref), 1, ref.columns, type));
        arguments.tensor("sum", matrix_view(address(ref), 1, ref.columns, type));
        executor_.add_.at(type)->launch(nullptr, arguments, workspace_, workspace_size_);
        from += ref.columns * static_cast<int64_t>(size_of(type));
      }
      at += sum_bytes(s, i);
    }
  }

  cpu::AttentionOptions options(const ir::AttentionShape& shape) const {
    cpu::AttentionOptions result;
    result.query_heads = shape.query_heads;
    result.key_heads = shape.key_heads;
    result.head_size = shape.head_size;
    result.scale = static_cast<float>(shape.scale);
    result.softcap = static_cast<float>(shape.softcap);
    result.window = shape.window;
    result.cumulative_lengths = sequences_;
    return result;
  }

  size_t workspace(size_t s, const ProgramCall& call) const {
    size_t bytes = executor_.kernels_[s].first->workspace_bytes(arguments(call, false));
    if (call.adding)
      bytes = std::max(bytes, executor_.kernels_[s].adding->workspace_bytes(arguments(call, true)));
    return bytes;
  }
  size_t workspace(size_t, const rewrite::AttentionCall& call) const {
    return cpu::attention_workspace(options(call.shape), tokens_, executor_.threads_);
  }
  size_t workspace(size_t, const rewrite::AttentionGradientCall& call) const {
    return cpu::attention_gradient_workspace(options(call.shape), tokens_, executor_.threads_);
  }
  size_t workspace(size_t, const rewrite::EmbeddingCall&) const { return 0; }
  size_t workspace(size_t, const rewrite::EmbeddingGradientCall& call) const {
    const Buffer& table = plan_.buffers[call.d_table.buffer];
    return cpu::embedding_gradient_workspace(tokens_, table.rows, table.columns,
                                             executor_.threads_);
  }

  void run(size_t s, const ProgramCall& call, bool adding) const {
    const bool adds = adding || call.adds;
    const Kernels& kernels = executor_.kernels_[s];
    const std::vector<size_t> added = added_sums(s, call, adds);
    Arguments made = arguments(call, adds);
    divert_sums(made, s, call, added);
    (adds && kernels.adding ? kernels.adding : kernels.first)
        ->launch(nullptr, made, workspace_, workspace_size_);
    add_sums(s, call, added);
  }
  void run(size_t, const rewrite::AttentionCall& call, bool) const {
    cpu::attention(options(call.shape), matrix(call.qkv), matrix(call.y), matrix(call.lse),
                   workspace_, executor_.threads_);
  }
  void run(size_t, const rewrite::AttentionGradientCall& call, bool) const {
    cpu::attention_gradient(options(call.shape), matrix(call.qkv), matrix(call.y), matrix(call.lse),
                            matrix(call.d_y), matrix(call.d_qkv), workspace_, executor_.threads_);
  }
  void run(size_t, const rewrite::EmbeddingCall& call, bool) const {
    cpu::embedding(ids(call.ids), matrix(call.table), matrix(call.out), executor_.threads_);
  }
  void run(size_t, const rewrite::EmbeddingGradientCall& call, bool adding) const {
    cpu::embedding_gradient(ids(call.ids), matrix(call.d_out), matrix(call.d_table),
                            adding || call.adding, workspace_, executor_.threads_);
  }
  TensorView ids(const Ref& ref) const { return view(ref, {true, {}}); }

  const Executor& executor_;
  const Plan& plan_;
  std::span<const int64_t> sequences_;
  int64_t tokens_, first_ = 0, count_ = 0;
  std::vector<std::byte*> memory_;
  const size_t workspace_size_;
  std::byte *workspace_ = nullptr, *sums_ = nullptr;
};

/// sum = a + b over [m, n] of one type.
Program addition(DType type) {
  const ir::Dims full{true, {ir::Columns::Kind::all, ir::symbol_size(ir::kSymbolN), {}}};
  ir::Builder builder("add");
  const ir::ElementType element{false, type};
  const Value a = builder.input({"a", ir::Input::Kind::tensor, element, full});
  const Value b = builder.input({"b", ir::Input::Kind::tensor, element, full});
  builder.output({"sum", element, full, (a + b).id()});
  return Program(std::make_shared<const ir::Program>(builder.finish()));
}

Executor::Executor(Plan plan, DType type, int threads)
    : plan_(std::move(plan)), type_(type), threads_(threads) {
  CompileOptions options;
  options.type = type;
  options.threads = threads;
  std::map<std::string, std::shared_ptr<const Kernel>> known;  // equal programs share a kernel
  const auto make = [&](const ir::Program& program) {
    const Program compiled(std::make_shared<const ir::Program>(program));
    auto& slot = known[compiled.text()];
    if (!slot) slot = std::make_shared<const Kernel>(compile(compiled, {}, options));
    return slot;
  };
  kernels_.resize(plan_.steps.size());
  for (size_t s = 0; s < plan_.steps.size(); ++s)
    if (const auto* call = std::get_if<ProgramCall>(&plan_.steps[s].call)) {
      kernels_[s].first = make(call->program);
      if (call->adding) kernels_[s].adding = make(*call->adding);
      for (size_t i = 0; i < call->outputs.size() && call->rows_are_tokens; ++i) {
        const std::vector<Ref>& segments = call->outputs[i].segments;
        if (std::any_of(segments.begin(), segments.end(), [&](const Ref& ref) {
              const Buffer& buffer = plan_.buffers[ref.buffer];
              return !buffer.per_token && (buffer.role == Buffer::Role::output || buffer.summed);
            }))
          kernels_[s].sums.push_back(i);
      }
    }
  for (DType type : {DType::f32, DType::i64})
    add_[type] = std::make_shared<const Kernel>(compile(addition(type), {}, options));
}

Layout Executor::layout(int64_t tokens) const { return *fixed_sizes(tokens).layout; }
size_t Executor::arena_bytes(int64_t tokens, std::span<const int64_t> sequences) const {
  return sizes(tokens, sequences).total();
}

Executor::Sizes Executor::sizes(int64_t tokens, std::span<const int64_t> sequences) const {
  Sizes made = fixed_sizes(tokens);
  const Call call(*this, made, tokens, sequences, nullptr, nullptr);
  for (size_t s = 0; s < plan_.steps.size(); ++s)
    if (!std::holds_alternative<ProgramCall>(plan_.steps[s].call))
      made.workspace = std::max(made.workspace, call.workspace_bytes(s));
  made.workspace =
      (made.workspace + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  return made;
}

Executor::Sizes Executor::fixed_sizes(int64_t tokens) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sizes_.find(tokens); found != sizes_.end()) return found->second;
  }
  Sizes made;
  made.layout = std::make_shared<const Layout>(lay_out(plan_, tokens, type_));
  Call call(*this, made, tokens, {}, nullptr, nullptr);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    if (!std::holds_alternative<ProgramCall>(plan_.steps[s].call)) continue;
    const bool loop = s >= plan_.chunk_begin && s < plan_.chunk_end;
    call.rows(0, loop ? std::min(tokens, plan_.chunk_rows) : tokens);
    made.workspace = std::max(made.workspace, call.workspace_bytes(s));
    made.sums = std::max(made.sums, call.sums_bytes(s));
    if (loop && tokens > plan_.chunk_rows && tokens % plan_.chunk_rows != 0) {
      call.rows(0, tokens % plan_.chunk_rows);
      made.workspace = std::max(made.workspace, call.workspace_bytes(s));
    }
  }
  const std::lock_guard lock(mutex_);
  if (sizes_.size() >= 64) sizes_.clear();  // a report of many lengths need not keep them all
  sizes_[tokens] = made;
  return made;
}

void Executor::run(const Run& run, const Tensors& tensors, void* arena, size_t arena_size) const {
  const Sizes made = sizes(run.tokens, run.sequences);
  const size_t total = made.total();
  if (arena_size < total)
    throw Error(ErrorKind::argument, "[" + plan_.name + "] arena", std::to_string(total) + " bytes",
                std::to_string(arena_size) + " bytes",
                "allocate what arena_bytes() says for these tokens and sequences");
  if (total > 0 &&
      (arena == nullptr || reinterpret_cast<uintptr_t>(arena) % kWorkspaceAlignment != 0))
    throw Error(ErrorKind::argument, "[" + plan_.name + "] arena",
                std::to_string(total) + " bytes aligned to " + std::to_string(kWorkspaceAlignment),
                arena ? "another alignment" : "a null pointer",
                "allocate what arena_bytes() says for the number of tokens");
  const size_t begin = run.forward ? 0 : plan_.backward;
  const size_t end = run.backward ? plan_.steps.size() : plan_.backward;
  Call call(*this, made, run.tokens, run.sequences, &tensors, static_cast<std::byte*>(arena));
  for (size_t s = begin; s < end; ++s) call.check(plan_.steps[s]);
  for (const rewrite::Ids& ids : plan_.ids) call.check(ids);
  for (size_t s = begin; s < end; ++s) {
    if (s < plan_.chunk_begin || s >= plan_.chunk_end) {
      call.rows(0, run.tokens);
      call.launch(s, run.accumulate);
      continue;
    }
    const size_t loop_end = std::min(end, plan_.chunk_end);
    int64_t first = 0;
    do {
      call.rows(first, std::min(plan_.chunk_rows, run.tokens - first));
      for (size_t inner = s; inner < loop_end; ++inner)
        call.launch(inner, run.accumulate || first > 0);
      first += plan_.chunk_rows;
    } while (first < run.tokens);
    s = loop_end - 1;
  }
}

}  // namespace coda::execute
