// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernel.h"

#include <coda/error.h>

#include <algorithm>

#include "base/checked.h"
#include "cpu/lower.h"
#include "cpu/products.h"
#include "cpu/runner.h"
#include "cpu/workers.h"
#include "ir/simplify.h"

namespace coda::cpu {
namespace {

constexpr size_t kAlign = 64;
constexpr int64_t kChunk = 4096;  // states combined by one worker at a time
constexpr double kWorkPerThread =
    1 << 20;  // operations below which a thread costs more than it gives

/// Hands out aligned ranges of a workspace.
class Layout {
 public:
  size_t take(size_t bytes) {
    const size_t at = total_;
    total_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return at;
  }
  size_t total() const { return total_; }

 private:
  size_t total_ = 0;
};

/// Everything about a call that follows from the program and the shapes.
struct Plan {
  const BoundCall& call;
  const Kernels& kernels;
  const Mainloop& mainloop;
  Grid grid;
  Lowered lowered;
  int workers = 1;
  Groups groups{};
  ProductPlan products;
  std::vector<int> accumulators;  // inputs
  std::vector<size_t> whole;      // unfused: each accumulator's matrix in the workspace
  size_t worker_begin = 0, worker_bytes = 0;
  size_t tile_arena = 0, block_arena = 0, panels = 0;  // in a worker's memory
  std::vector<size_t> tiles;                           // fused: each accumulator's tile there

  int64_t units() const { return groups.count * grid.tiles_n; }
  std::byte* worker(std::byte* base, int index) const {
    return base + worker_begin + static_cast<size_t>(index) * worker_bytes;
  }
};

double work_of(const BoundCall& call, const ir::Program& program) {
  double each = 4.0 * static_cast<double>(program.nodes.size());
  for (const auto& products : call.products)
    for (const Product& product : products) each += 2.0 * static_cast<double>(product.k);
  return each * static_cast<double>(call.m) * static_cast<double>(call.n);
}

Plan make_plan(const Instance& instance, const BoundCall& call, const Options& options, Isa isa,
               const Mainloop& mainloop, bool late_stores) {
  const ir::Program& program = *instance.program;
  const Kernels& table = kernels(isa);
  Plan plan{call, table, mainloop, make_grid(program, call.symbols), {}};
  plan.lowered = lower(program, instance, call, plan.grid, table, late_stores);
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].kind == ir::Input::Kind::accumulator)
      plan.accumulators.push_back(static_cast<int>(i));
  const double worth = work_of(call, program) / kWorkPerThread;
  const auto useful = static_cast<int64_t>(std::clamp(worth, 1.0, 1e6));
  plan.workers =
      worker_count(options.threads, std::min(useful, plan.grid.tiles_m * plan.grid.tiles_n));
  plan.groups = make_groups(call, plan.grid, plan.workers);
  plan.products = ProductPlan(call, plan.grid, plan.groups, mainloop);

  Layout shared;
  for (Reduction& r : plan.lowered.reductions) {
    const size_t state = table.reduce[static_cast<int>(r.family)][r.integer].state_bytes;
    const int64_t states = checked_multiply(r.elements, r.parts, "partial reductions");
    r.offset = shared.take(static_cast<size_t>(
        checked_multiply(states, static_cast<int64_t>(state), "partial reductions")));
  }
  for (Completed& c : plan.lowered.completed)
    c.offset = shared.take(static_cast<size_t>(plan.lowered.reductions[c.reduction].elements) *
                           size_of(c.lane));
  const size_t whole =
      static_cast<size_t>(checked_multiply(call.m, call.n, "M * N")) * sizeof(float);
  Layout own;
  size_t tile_bytes = plan.lowered.main.tile_bytes, block_bytes = plan.lowered.main.block_bytes;
  for (const Tape& tape : plan.lowered.finish) {
    tile_bytes = std::max(tile_bytes, tape.tile_bytes);
    block_bytes = std::max(block_bytes, tape.block_bytes);
  }
  plan.tile_arena = own.take(tile_bytes);
  plan.block_arena = own.take(block_bytes);
  for (size_t a = 0; a < plan.accumulators.size(); ++a) {
    if (options.fused)
      plan.tiles.push_back(
          own.take(static_cast<size_t>(plan.grid.tile_m * plan.grid.tile_n) * sizeof(float)));
    else
      plan.whole.push_back(shared.take(whole));
  }
  plan.panels = own.take(plan.products.bytes());
  plan.worker_begin = shared.total();
  plan.worker_bytes = own.total();
  return plan;
}

/// visit(tile) for the tiles of the units that `next` hands out: a group of row tiles in one
/// column.
template <class Next, class Visit>
void for_tiles(const Plan& plan, const Next& next, const Visit& visit) {
  for (int64_t unit = next(); unit >= 0; unit = next()) {
    const int64_t first = unit / plan.grid.tiles_n * plan.groups.row_tiles;
    const int64_t end = std::min(first + plan.groups.row_tiles, plan.grid.tiles_m);
    for (int64_t row = first; row < end; ++row)
      visit(plan.grid.tile(row, unit % plan.grid.tiles_n));
  }
}

/// All accumulators, whole, into the workspace.
void multiply(const Plan& plan, std::byte* base) {
  run_workers(plan.workers, plan.units(), [&](int worker, const auto& next) {
    Products products(plan.products, plan.grid, plan.groups, plan.kernels, plan.mainloop,
                      plan.worker(base, worker) + plan.panels);
    for_tiles(plan, next, [&](const Tile& tile) {
      for (size_t a = 0; a < plan.accumulators.size(); ++a)
        products.compute(
            plan.accumulators[a], tile,
            reinterpret_cast<float*>(base + plan.whole[a]) + tile.row * plan.grid.n + tile.column,
            plan.grid.n);
    });
  });
}

/// The main tape over all tiles, and fused, the products before it.
void run_tiles(const Plan& plan, const ir::Program& program, std::byte* base) {
  const CallMemory memory{plan.call, plan.lowered.reductions, plan.lowered.completed, base};
  const bool fused = plan.whole.empty();
  run_workers(plan.workers, plan.units(), [&](int worker, const auto& next) {
    std::byte* own = plan.worker(base, worker);
    Products products(plan.products, plan.grid, plan.groups, plan.kernels, plan.mainloop,
                      own + plan.panels);
    Runner runner(plan.lowered.main, plan.kernels, memory, own + plan.tile_arena,
                  own + plan.block_arena);
    std::vector<const float*> data(program.inputs.size());
    for_tiles(plan, next, [&](const Tile& tile) {
      for (size_t a = 0; a < plan.accumulators.size(); ++a) {
        const int input = plan.accumulators[a];
        if (fused) {
          float* to = reinterpret_cast<float*>(own + plan.tiles[a]);
          products.compute(input, tile, to, tile.columns);
          data[input] = to;
        } else {
          data[input] = reinterpret_cast<const float*>(base + plan.whole[a]) +
                        tile.row * plan.grid.n + tile.column;
        }
      }
      runner.run(tile, {data, fused ? tile.columns : plan.grid.n});
    });
  });
}

/// Combines the parts of each reduction, first to last, and finishes its values.
void complete(const Plan& plan, std::byte* base) {
  struct Unit {
    int reduction;
    int64_t begin, count;
  };
  std::vector<Unit> units;
  double work = 0;
  for (size_t i = 0; i < plan.lowered.reductions.size(); ++i) {
    const Reduction& r = plan.lowered.reductions[i];
    work += static_cast<double>(r.elements) * static_cast<double>(r.parts);
    for (int64_t begin = 0; begin < r.elements; begin += kChunk)
      units.push_back({static_cast<int>(i), begin, std::min(kChunk, r.elements - begin)});
  }
  const auto useful = static_cast<int64_t>(work / (kWorkPerThread / 16));
  const auto count = static_cast<int64_t>(units.size());
  run_workers(
      worker_count(plan.workers, std::min(useful, count)), count, [&](int, const auto& next) {
        for (int64_t unit = next(); unit >= 0; unit = next()) {
          const auto [index, begin, states] = units[static_cast<size_t>(unit)];
          const Reduction& r = plan.lowered.reductions[index];
          const Reducer& reducer = plan.kernels.reduce[static_cast<int>(r.family)][r.integer];
          const auto part = [&, first = begin](int64_t p) {
            return base + r.offset +
                   static_cast<size_t>(p * r.elements + first) * reducer.state_bytes;
          };
          for (int64_t p = 1; p < r.parts; ++p) reducer.combine(part(0), part(p), states);
          for (const Completed& c : plan.lowered.completed)
            if (c.reduction == index)
              reducer.finish(part(0), states, c.finish, c.terms,
                             base + c.offset + static_cast<size_t>(begin) * size_of(c.lane));
        }
      });
}

/// The outputs that are not tiles: vectors, tables and numbers.
void finish_outputs(const Plan& plan, const Instance& instance, std::byte* base) {
  const CallMemory memory{plan.call, {}, plan.lowered.completed, base};
  for (size_t i = 0; i < plan.lowered.finish.size(); ++i) {
    const ir::Dims& dims = instance.program->outputs[plan.lowered.finish_outputs[i]].dims;
    const bool columns = extent_of(dims, plan.call.symbols).tile_columns();
    if ((dims.rows && plan.grid.m == 0) || (columns && plan.grid.n == 0)) continue;
    const int64_t tiles_m = dims.rows ? plan.grid.tiles_m : 1,
                  tiles_n = columns ? plan.grid.tiles_n : 1;
    const double elements =
        static_cast<double>(dims.rows ? plan.grid.m : 1) * static_cast<double>(plan.grid.tile_n);
    const auto useful = static_cast<int64_t>(elements / (kWorkPerThread / 16));
    run_workers(worker_count(plan.workers, std::min(useful, tiles_m * tiles_n)), tiles_m * tiles_n,
                [&](int worker, const auto& next) {
                  std::byte* own = plan.worker(base, worker);
                  Runner runner(plan.lowered.finish[i], plan.kernels, memory, own + plan.tile_arena,
                                own + plan.block_arena);
                  for (int64_t unit = next(); unit >= 0; unit = next())
                    runner.run(plan.grid.tile(unit / tiles_n, unit % tiles_n), {});
                });
  }
}

}  // namespace

Kernel::Kernel(Instance instance, const Options& options)
    : instance_(std::move(instance)), options_(options), isa_(options.isa.value_or(best_isa())) {
  if (!supports(isa_))
    throw Error(ErrorKind::unsupported, "cpu::compile",
                "an instruction set that this processor has", "a wider one",
                "leave the choice to coda");
  instance_.program = std::make_shared<const ir::Program>(ir::eliminate(*instance_.program));
  if (!options.plain_mainloop) mainloop_ = make_onednn_mainloop();
  if (!mainloop_) mainloop_ = make_plain_mainloop(isa_);
}

size_t Kernel::workspace_bytes(const BoundCall& call) const {
  size_t bytes = 0;  // pointers may be null here, so both orders of stores must fit
  for (const bool late_stores : {false, true}) {
    const Plan plan = make_plan(instance_, call, options_, isa_, *mainloop_, late_stores);
    bytes =
        std::max(bytes, plan.worker_begin + static_cast<size_t>(plan.workers) * plan.worker_bytes);
  }
  return bytes + kAlign;
}

void Kernel::launch(const BoundCall& call, std::byte* workspace) const {
  const Plan plan = make_plan(instance_, call, options_, isa_, *mainloop_, in_place(call));
  std::byte* base = workspace + (kAlign - reinterpret_cast<uintptr_t>(workspace) % kAlign) % kAlign;
  if (!plan.whole.empty()) multiply(plan, base);
  run_tiles(plan, *instance_.program, base);
  complete(plan, base);
  finish_outputs(plan, instance_, base);
}

std::shared_ptr<const Kernel> compile(Instance instance, const Options& options) {
  return std::make_shared<const Kernel>(std::move(instance), options);
}

}  // namespace coda::cpu
