// SPDX-License-Identifier: Apache-2.0
// The report of coda explain --model as text of fewer than 100 columns.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "explain_model.h"
#include "language/printer.h"
#include "rewrite/labels.h"

namespace coda::tool {
namespace {

using Row = std::vector<std::string>;
constexpr size_t kColumns = 98;

/// Four digits, or all before the point, and at most four behind it.
std::string number(double value) {
  if (value == 0) return "0";
  const int digits = static_cast<int>(std::floor(std::log10(value)));
  return fmt::format("{:.{}f}", value, std::clamp(3 - digits, 0, 4));
}

std::string ratio(double before, double after) {
  return after > 0 ? fmt::format("{:.2f} x", before / after) : "";
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

/// One kernel: what it multiplies and the program on it, at most `width` columns where it can be.
struct KernelText {
  std::string heading, rest;
};

KernelText kernel_text(const rewrite::Description& d) {
  const std::string moved =
      (d.inputs.empty() ? "" : joined(d.inputs) + " ") + "-> " + joined(d.outputs);
  if (d.products.empty()) return {"pass", d.work + (d.work.empty() ? "" : " | ") + moved};
  return {d.products, d.work.empty() ? moved : d.work + " | " + moved};
}

/// `text` in lines of at most kColumns, broken at spaces, under an indentation.
void print_wrapped(const std::string& text) {
  constexpr std::string_view kIndent = "      ";
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && kIndent.size() + line.size() + 1 + word.size() > kColumns) {
      fmt::print("{}{}\n", kIndent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) fmt::print("{}{}\n", kIndent, line);
}

/// Numbers behind a heading; on a line of their own where it leaves no room.
std::string row_text(const std::string& heading, const Row& cells) {
  const size_t width = kColumns - 10 * cells.size();
  std::string line = heading.size() > width ? heading + "\n" + std::string(width, ' ')
                                            : heading + std::string(width - heading.size(), ' ');
  for (const std::string& cell : cells) line += fmt::format("{:>10}", cell);
  return line;
}

void print_kernels(const ModelReport& report, const BlockPlan& block, const char* title,
                   bool backward) {
  Row head{"reads MB", "writes MB", "GFLOP"};
  for (const rewrite::Machine& machine : report.machines) head.push_back(machine.name + " ms");
  fmt::print("{}\n", paint(Colour::bold, row_text(title, head)));
  for (size_t s = 0; s < block.plan.steps.size(); ++s) {
    const rewrite::StepCost& step = block.cost.steps[s];
    if (step.attention || step.backward != backward) continue;
    const KernelText text = kernel_text(rewrite::describe(block.plan, block.plan.steps[s]));
    Row cells{number(rewrite::bytes_read(step, report.tokens) / 1e6),
              number(rewrite::bytes_written(step, report.tokens) / 1e6),
              number(rewrite::product_flops(step, report.tokens) / 1e9)};
    for (const rewrite::Machine& machine : report.machines)
      cells.push_back(number(rewrite::seconds(step, report.tokens, machine) * 1e3));
    fmt::print("{}\n", row_text("  " + text.heading, cells));
    print_wrapped(text.rest);
  }
  fmt::print("\n");
}

void add_phase(std::vector<Row>& rows, const ModelReport& report, const char* title,
               const std::vector<bool>& phases) {
  BlockSums before, after;
  for (const bool backward : phases)
    for (const bool fused : {false, true}) {
      const BlockSums sums = report.sums(fused ? report.after : report.before, backward);
      BlockSums& to = fused ? after : before;
      to.gemms += sums.gemms;
      to.passes += sums.passes;
      to.read += sums.read, to.written += sums.written, to.flops += sums.flops;
      to.seconds.resize(sums.seconds.size());
      for (size_t i = 0; i < sums.seconds.size(); ++i) to.seconds[i] += sums.seconds[i];
      for (const auto& [columns, bytes] : sums.widths) to.widths[columns] += bytes;
    }
  rows.push_back({title, "", "", ""});
  const auto add = [&](const std::string& name, double a, double b) {
    rows.push_back({"  " + name, number(a), number(b), ratio(a, b)});
  };
  rows.push_back({"  GEMMs and passes", fmt::format("{} and {}", before.gemms, before.passes),
                  fmt::format("{} and {}", after.gemms, after.passes), ""});
  if (const std::string text = report.multiples(before.widths); !text.empty())
    rows.push_back({"  matrices, bytes", text, report.multiples(after.widths), ""});
  add("all moved, MB", (before.read + before.written) / 1e6, (after.read + after.written) / 1e6);
  add("products, GFLOP", before.flops / 1e9, after.flops / 1e9);
  for (size_t i = 0; i < report.machines.size(); ++i)
    add(report.machines[i].name + " roofline, ms", before.seconds[i] * 1e3, after.seconds[i] * 1e3);
}

void print_totals(const ModelReport& report) {
  std::vector<Row> rows{{"one block", "before", "after", "ratio"}};
  add_phase(rows, report, "forward", {false});
  add_phase(rows, report, "backward", {true});
  add_phase(rows, report, "both", {false, true});
  const auto saved = [&](const BlockPlan& block) {
    return static_cast<double>(block.cost.saved.matrices + block.cost.saved.rows) *
           static_cast<double>(report.tokens) / 1e6;
  };
  rows.push_back({"saved for the backward", "", "", ""});
  if (const std::string text = report.multiples(report.before.cost.saved.widths); !text.empty())
    rows.push_back(
        {"  matrices, bytes", text, report.multiples(report.after.cost.saved.widths), ""});
  rows.push_back({"  MB", number(saved(report.before)), number(saved(report.after)),
                  ratio(saved(report.before), saved(report.after))});
  print_table(rows, {false, true, true, true});
}

std::string gigabytes(size_t bytes) { return number(static_cast<double>(bytes) / 1e9); }

void print_memory(const ModelReport& report) {
  const train::Footprint& memory = report.memory;
  const char* state = report.state == train::StateType::f32 ? "f32" : name_of(report.type);
  std::vector<Row> rows{{"training", "", "GB"}};
  rows.push_back({"weights", name_of(report.type), gigabytes(memory.weights)});
  if (memory.masters) rows.push_back({"masters", "f32", gigabytes(memory.masters)});
  rows.push_back({"moments", state, gigabytes(memory.moments)});
  rows.push_back({"gradients", "f32", gigabytes(memory.gradients)});
  rows.push_back({"activations", "", gigabytes(memory.arena)});
  constexpr size_t kShown = 8;
  size_t others = 0;
  for (size_t i = 0; i < memory.peak.size(); ++i) {
    const train::TensorBytes& tensor = memory.peak[i];
    if (i >= kShown) {
      others += tensor.bytes;
      continue;
    }
    rows.push_back({"  " + tensor.name, tensor.count > 1 ? fmt::format("x {}", tensor.count) : "",
                    gigabytes(tensor.bytes)});
  }
  if (others > 0) rows.push_back({"  others", "", gigabytes(others)});
  rows.push_back({"total", "", gigabytes(memory.total())});
  print_table(rows, {false, false, true});
  std::string fits;
  for (const rewrite::Machine& machine : report.machines)
    fits += fmt::format("{}{} ({:.0f} GB): {}", fits.empty() ? "" : ", ", machine.name,
                        machine.memory / 1e9,
                        static_cast<double>(memory.total()) <= machine.memory ? "yes" : "no");
  fmt::print("\nfits      {}\n", fits);
}

void print_programs(const BlockPlan& block) {
  for (size_t s = 0; s < block.plan.steps.size(); ++s) {
    const rewrite::Description description = rewrite::describe(block.plan, block.plan.steps[s]);
    if (block.cost.steps[s].attention || description.work.empty()) continue;
    const auto& call = std::get<rewrite::ProgramCall>(block.plan.steps[s].call);
    fmt::print("\n# {}\n{}", description.products.empty() ? "a pass" : "on " + description.products,
               language::print_program(call.program));
  }
}

}  // namespace

void print_text(const ModelReport& report, bool programs) {
  const nn::ModelConfig& c = report.config;
  fmt::print("{}: d = {}, f = {}, {} layers, {} heads of {}, {} for keys, vocabulary {}\n",
             paint(Colour::bold, "model"), c.hidden, c.ffn, c.layers, c.heads, c.head_size,
             c.key_heads, c.vocabulary);
  fmt::print("{} parameters; M = {} tokens, T = {}\n", report.memory.parameters, report.tokens,
             name_of(report.type));
  for (const rewrite::Machine& machine : report.machines)
    fmt::print("{}: {} TFLOP/s in products of {}, {} GB/s of memory, {}\n", machine.name,
               number(machine.products / 1e12), name_of(report.type),
               number(machine.bandwidth / 1e9),
               machine.name == "cpu" ? "measured here" : "by its data sheet");
  fmt::print("\n");
  print_kernels(report, report.before, "before, forward", false);
  print_kernels(report, report.before, "before, backward", true);
  print_kernels(report, report.after, "after, forward", false);
  print_kernels(report, report.after, "after, backward", true);
  print_totals(report);
  fmt::print("\n");
  print_memory(report);
  if (programs) print_programs(report.after);
}

}  // namespace coda::tool
