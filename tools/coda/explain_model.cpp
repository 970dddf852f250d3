// SPDX-License-Identifier: Apache-2.0
#include "explain_model.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <algorithm>

#include "language/printer.h"
#include "nn/model.h"
#include "processor.h"
#include "rewrite/labels.h"
#include "rewrite/rewrite.h"
#include "train/trainer.h"

namespace coda::tool {
namespace {

/// Bytes of any model that fits a machine stay within 64 bits.
constexpr int64_t kMostTokens = int64_t{1} << 32;

int64_t tokens_of(const ModelOptions& options) {
  if (options.tokens && *options.tokens >= 1 && *options.tokens <= kMostTokens)
    return *options.tokens;
  throw Error(ErrorKind::argument, "--tokens", "the tokens of a step, a number from 1 to 2^32",
              options.tokens ? fmt::format("{}", *options.tokens) : "none",
              "a batch of 4 sequences of 2048 is --tokens 8192");
}

std::vector<rewrite::Machine> machines_of(const ModelOptions& options, DType type) {
  std::vector<rewrite::Machine> machines;
  for (const std::string& name : options.machines)
    if (name != "cpu" && !rewrite::known_machine(name, type))
      throw Error(ErrorKind::argument, "--machine", "H100, H200 or cpu", "'" + name + "'",
                  "several are written with commas: --machine H100,cpu");
  for (const std::string& name : options.machines)
    machines.push_back(name == "cpu" ? measure_processor(type)
                                     : *rewrite::known_machine(name, type));
  return machines;
}

/// A gradient of everything that the block takes in T, given those of what it hands on.
rewrite::Options block_options(const ir::Program& graph) {
  rewrite::Options options;
  for (const ir::Output& output : graph.outputs) options.of.push_back(output.name);
  for (const ir::Input& input : graph.inputs)
    if (input.type.generic) options.wrt.push_back(input.name);
  return options;
}

BlockPlan block_plan(const ir::Program& graph, bool fused, DType type) {
  rewrite::Options options = block_options(graph);
  options.fused = fused;
  BlockPlan block{rewrite::labelled(rewrite::rewrite(graph, options)), {}};
  block.cost = rewrite::cost_of(block.plan, type);
  return block;
}

struct Pass {
  const char* name;
  const char* what;
};
constexpr Pass kPasses[] = {
    {"graph", "as the model was built"},
    {"expand", "composites have become arithmetic"},
    {"defer", "factors per token have moved behind products"},
    {"join", "products of one operand are side by side"},
    {"differentiate", "with the gradients, and what is saved for them"},
    {"sum_products", "gradients that are added are one product"},
    {"cut", "each product with the work that rides on it, as a plan"},
    {"chunk", "steps on logits run for some tokens at a time; a block has none"},
};

int dump_passes(const Shell& shell, const ir::Program& graph) {
  Json list = Json::array();
  const auto show = [&](const char* name, const std::string& text) {
    const auto* pass = std::find_if(std::begin(kPasses), std::end(kPasses), [&](const Pass& known) {
      return std::string_view(known.name) == name;
    });
    if (shell.json)
      list.push_back({{"pass", name}, {"ir", text}});
    else
      fmt::print("{}{}\n{}", pass == std::begin(kPasses) ? "" : "\n",
                 paint(Colour::bold,
                       fmt::format("== {}: {}", name, pass == std::end(kPasses) ? "" : pass->what)),
                 text);
  };
  rewrite::Options options = block_options(graph);
  options.dump = show;
  show("graph", ir::dump(graph));
  rewrite::rewrite(graph, options);
  if (shell.json) print_json({{"passes", list}});
  return kOk;
}

Json kernels_json(const ModelReport& report, const BlockPlan& block, bool backward) {
  Json list = Json::array();
  for (size_t s = 0; s < block.plan.steps.size(); ++s) {
    const rewrite::StepCost& step = block.cost.steps[s];
    if (step.attention || step.backward != backward) continue;
    const rewrite::Description description = rewrite::describe(block.plan, block.plan.steps[s]);
    Json seconds = Json::object();
    for (const rewrite::Machine& machine : report.machines)
      seconds[machine.name] = rewrite::seconds(step, report.tokens, machine);
    const auto& call = std::get<rewrite::ProgramCall>(block.plan.steps[s].call);
    list.push_back({{"name", step.name},
                    {"gemm", step.gemm},
                    {"products", description.products},
                    {"work", description.work},
                    {"inputs", description.inputs},
                    {"outputs", description.outputs},
                    {"bytes_read", rewrite::bytes_read(step, report.tokens)},
                    {"bytes_written", rewrite::bytes_written(step, report.tokens)},
                    {"product_flops", rewrite::product_flops(step, report.tokens)},
                    {"seconds", seconds},
                    {"program", language::print_program(call.program)}});
  }
  return list;
}

Json phase_json(const ModelReport& report, const BlockPlan& block, bool backward) {
  const BlockSums sums = report.sums(block, backward);
  const rewrite::Cost::Part& part = backward ? block.cost.backward : block.cost.forward;
  Json seconds = Json::object();
  for (size_t i = 0; i < sums.seconds.size(); ++i)
    seconds[report.machines[i].name] = sums.seconds[i];
  return {{"gemms", sums.gemms},
          {"passes", sums.passes},
          {"matrix_bytes_per_token", part.matrices.total()},
          {"matrices", report.multiples(sums.widths)},
          {"bytes_read", sums.read},
          {"bytes_written", sums.written},
          {"product_flops", sums.flops},
          {"seconds", seconds},
          {"kernels", kernels_json(report, block, backward)}};
}

Json block_json(const ModelReport& report, const BlockPlan& block) {
  const rewrite::Cost::Saved& saved = block.cost.saved;
  return {{"forward", phase_json(report, block, false)},
          {"backward", phase_json(report, block, true)},
          {"saved",
           {{"matrix_bytes_per_token", saved.matrices},
            {"matrices", report.multiples(saved.widths)},
            {"row_bytes_per_token", saved.rows},
            {"attention_bytes_per_token", saved.attention}}}};
}

}  // namespace

BlockSums ModelReport::sums(const BlockPlan& block, bool backward) const {
  BlockSums sums;
  sums.seconds.resize(machines.size());
  for (const rewrite::StepCost& step : block.cost.steps) {
    if (step.attention || step.backward != backward) continue;
    ++(step.gemm ? sums.gemms : sums.passes);
    sums.read += rewrite::bytes_read(step, tokens);
    sums.written += rewrite::bytes_written(step, tokens);
    sums.flops += rewrite::product_flops(step, tokens);
    for (size_t i = 0; i < machines.size(); ++i)
      sums.seconds[i] += rewrite::seconds(step, tokens, machines[i]);
  }
  sums.widths = (backward ? block.cost.backward : block.cost.forward).widths;
  return sums;
}

std::string ModelReport::multiples(const rewrite::Widths& widths) const {
  const int64_t d = config.hidden, f = config.ffn;
  const int64_t q = config.query_columns(), kv = config.key_columns();
  for (const int64_t width : {d, q, kv, q + kv, q + 2 * kv, 2 * kv})
    if (width == f || width == 2 * f) return {};
  double by_d = 0, by_f = 0;
  for (const auto& [columns, bytes] : widths) {
    const bool wide = columns == f || columns == 2 * f;
    (wide ? by_f : by_d) += static_cast<double>(bytes) / static_cast<double>(wide ? f : d);
  }
  return fmt::format("{:.4g} Md + {:.4g} Mf", by_d, by_f);
}

Json as_json(const ModelReport& report) {
  Json machines = Json::array(), peak = Json::array();
  for (const rewrite::Machine& machine : report.machines)
    machines.push_back({{"name", machine.name},
                        {"flops_per_second", machine.products},
                        {"bytes_per_second", machine.bandwidth},
                        {"memory_bytes", machine.memory},
                        {"measured", machine.name == "cpu"}});
  const train::Footprint& memory = report.memory;
  for (const train::TensorBytes& tensor : memory.peak)
    peak.push_back({{"tensor", tensor.name}, {"count", tensor.count}, {"bytes", tensor.bytes}});
  return {{"model",
           {{"hidden", report.config.hidden},
            {"ffn", report.config.ffn},
            {"layers", report.config.layers},
            {"heads", report.config.heads},
            {"key_heads", report.config.key_heads},
            {"head_size", report.config.head_size},
            {"vocabulary", report.config.vocabulary},
            {"parameters", memory.parameters}}},
          {"tokens", report.tokens},
          {"type", name_of(report.type)},
          {"machines", machines},
          {"block",
           {{"before", block_json(report, report.before)},
            {"after", block_json(report, report.after)}}},
          {"training_bytes",
           {{"weights", memory.weights},
            {"masters", memory.masters},
            {"moments", memory.moments},
            {"gradients", memory.gradients},
            {"activations", memory.arena},
            {"total", memory.total()},
            {"peak", peak}}}};
}

int explain_model(const Shell& shell, const ModelOptions& options) {
  ModelReport report;
  if (!options.dump_passes) report.tokens = tokens_of(options);
  report.config = nn::load_config(options.config);
  const Graph graph = nn::block_graph(report.config);
  if (options.dump_passes) return dump_passes(shell, graph.ir());
  report.type = *dtype_from_name(options.type);
  report.state = options.state == "f32" ? train::StateType::f32 : train::StateType::model;
  report.machines = machines_of(options, report.type);
  report.before = block_plan(graph.ir(), false, report.type);
  report.after = block_plan(graph.ir(), true, report.type);
  train::TrainerOptions training;
  training.type = report.type;
  training.state = report.state;
  report.memory = train::footprint(report.config, train::training_plan(report.config, training),
                                   report.tokens, report.type, report.state);
  if (shell.json)
    print_json(as_json(report));
  else
    print_text(report, options.programs);
  return kOk;
}

}  // namespace coda::tool
