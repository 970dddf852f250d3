// SPDX-License-Identifier: Apache-2.0
#include "train_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rewrite/cost.h"
#include "rewrite/labels.h"
#include "rewrite/roofline.h"
#include "train/footprint.h"

namespace coda::tool {
namespace {

/// Steps that multiply and compute alike: those of all layers.
struct Row {
  std::string products, work;
  int runs = 0;
  double bytes = 0;
};

double bytes_of(const rewrite::StepCost& step, int64_t tokens) {
  return rewrite::bytes_read(step, tokens) + rewrite::bytes_written(step, tokens);
}

std::vector<Row> rows_of(const rewrite::Plan& plan, const rewrite::Cost& cost, int64_t tokens) {
  std::vector<Row> rows;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const rewrite::Description step = rewrite::describe(plan, plan.steps[s]);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) {
      return known.products == step.products && known.work == step.work;
    });
    if (row == rows.end()) row = rows.insert(rows.end(), {step.products, step.work});
    ++row->runs;
    row->bytes += bytes_of(cost.steps[s], tokens);
  }
  return rows;
}

double total(const rewrite::Cost& cost, int64_t tokens) {
  double bytes = 0;
  for (const rewrite::StepCost& step : cost.steps) bytes += bytes_of(step, tokens);
  return bytes;
}

std::string count(size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

void print_programs(const train::Trainer& trainer, const train::TrainerOptions& options,
                    int64_t tokens) {
  const rewrite::Plan plan = rewrite::labelled(trainer.training().plan());
  const rewrite::Cost cost = rewrite::cost_of(plan, options.type);
  fmt::print(stderr, "each {} tokens run\n  {:>4}  {:34} {:34} {:>8}\n", tokens, "runs", "product",
             "program on its epilogue, or pass", "MB moved");
  for (const Row& row : rows_of(plan, cost, tokens))
    fmt::print(stderr, "  {:>4}  {:34} {:34} {:>8.1f}\n", row.runs, row.products,
               row.work.empty() ? "store" : row.work, 1e-6 * row.bytes);
  const double moved = 1e-6 * total(cost, tokens);
  if (!options.fused) {
    fmt::print(stderr, "{:.0f} MB moved in {}, unfused\n\n", moved,
               count(plan.steps.size(), "step"));
    return;
  }
  train::TrainerOptions apart = options;
  apart.fused = false;
  const rewrite::Plan unfused = train::training_plan(trainer.config(), apart);
  const double before = 1e-6 * total(rewrite::cost_of(unfused, options.type), tokens);
  fmt::print(stderr,
             "{:.0f} MB moved in {}; unfused it would be {:.0f} MB in {}: {:.0f} MB saved\n\n",
             moved, count(plan.steps.size(), "step"), before, count(unfused.steps.size(), "step"),
             before - moved);
}

void print_memory(const train::Trainer& trainer, int64_t tokens) {
  const execute::Executor& executor = trainer.training();
  const execute::Layout layout = executor.layout(tokens);
  const std::vector<train::TensorBytes> tensors = train::peak_tensors(executor.plan(), layout);
  const auto line = [](const std::string& name, int count, size_t bytes) {
    fmt::print(stderr, "  {:24} {:>5} {:>12.3f} MB\n", name,
               count > 1 ? fmt::format("x {}", count) : "", 1e-6 * static_cast<double>(bytes));
  };
  constexpr size_t kShown = 10;
  size_t others = 0;
  fmt::print(stderr, "memory of the plan, at its peak:\n");
  for (size_t i = 0; i < tensors.size(); ++i)
    if (i < kShown)
      line(tensors[i].name, tensors[i].count, tensors[i].bytes);
    else
      others += tensors[i].bytes;
  if (others > 0) line("others", 1, others);
  line("all buffers", 1, layout.bytes);
}

}  // namespace coda::tool
