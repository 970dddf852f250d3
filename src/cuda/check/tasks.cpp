// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/tasks.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/generate.h"

namespace coda::cuda {
namespace {

using check::Layout;

// Smaller and larger than tiles, with every kind of remainder; N is rounded up to what the program
// allows.
constexpr int64_t kShapes[][3] = {{129, 264, 96},  {33, 96, 40},     {1, 8, 8},
                                  {257, 640, 200}, {300, 520, 512},  {640, 776, 72},
                                  {128, 256, 64},  {200, 1160, 328}, {1000, 768, 256}};
// For the unfused way, in memory of any layout.
constexpr int64_t kOther[][3] = {{33, 97, 40}, {129, 131, 65}, {200, 264, 1}, {64, 640, 0}};
constexpr DType kTypes[] = {DType::bf16, DType::f16, DType::f32};
constexpr const char* kWishes[] = {"pingpong 128x192",    "cooperative 128x256", "pingpong 192x128",
                                   "pingpong 128x128",    "cooperative 256x128", "pingpong 64x256",
                                   "cooperative 256x192", "cooperative 128x128", "pingpong 64x128",
                                   "pingpong 128x64"};
constexpr const char* kClusters[] = {"2x1", "1x2", "1x1"};

class Maker {
 public:
  explicit Maker(const TaskOptions& options) : options_(options) {}

  void add_program(const std::string& name, const ir::Program& program, bool generated,
                   uint64_t seed) {
    if (options_.only) {
      const check::Case& c = *options_.only;
      add(name, program, generated, {c.m, c.n, c.k}, c.type, Layout::aligned, c.seed);
      return;
    }
    const int cases = generated ? std::min(3, options_.cases) : options_.cases;
    for (int i = 0; i < cases; ++i) {
      check::Random random(seed * 1000 + static_cast<uint64_t>(i), name);
      const auto& shape = i == 0 ? kShapes[0] : random.pick(kShapes);
      const DType type = i % 4 == 3 ? DType::f16 : DType::bf16;
      const uint64_t data = random.next();
      std::optional<ConfigWish> wish;
      if (i % 4 != 0)
        wish = parse_config(std::string(random.pick(kWishes)) + " " + random.pick(kClusters) +
                            (random.chance(0.3) ? " strip=8" : ""));
      add(name, program, generated, shape, type, Layout::aligned, data, wish);
    }
    for (int i = 0; i < 3; ++i) {
      check::Random random(seed * 1000 + 500 + static_cast<uint64_t>(i), name);
      add(name, program, generated, random.pick(kOther), kTypes[i], Layout::any, random.next());
    }
  }

  std::vector<Task> take() {
    if (options_.type)
      std::erase_if(tasks_, [&](const Task& task) { return task.c.type != *options_.type; });
    if (options_.number)
      std::erase_if(tasks_, [&](const Task& task) { return task.number != *options_.number; });
    return std::move(tasks_);
  }

 private:
  void add(const std::string& name, const ir::Program& program, bool generated,
           const int64_t (&shape)[3], DType type, Layout layout, uint64_t seed,
           const std::optional<ConfigWish>& wish = {}) {
    Task task;
    task.number = static_cast<int>(tasks_.size());
    task.name = name;
    task.layout = layout;
    task.wish = options_.wish ? options_.wish : wish;
    task.forced = options_.wish.has_value();
    task.instance = check::instance_of(program, type);
    std::vector<int64_t>& symbols = task.instance.symbols;
    seed %= 1u << 30;
    int64_t n = shape[1];
    if (generated) symbols = check::draw_sizes(program, {}, n, seed);
    for (size_t i = ir::kFirstParameter; i < symbols.size(); ++i)
      if (const auto given = options_.sizes.find(program.symbols[i]); given != options_.sizes.end())
        symbols[i] = given->second;
    const int64_t unit = check::column_unit(program, symbols);
    n = (n + unit - 1) / unit * unit;
    symbols[ir::kSymbolN] = symbols[ir::kSymbolM] = 0;
    task.c = {shape[0], n, shape[2], type, seed};
    tasks_.push_back(std::move(task));
  }

  const TaskOptions& options_;
  std::vector<Task> tasks_;
};

}  // namespace

std::string Task::text() const {
  return fmt::format("{:5} {} {} {}", number, name, check::to_string(c),
                     layout == Layout::aligned ? "aligned" : "any layout");
}

std::vector<Task> make_tasks(const TaskOptions& options) {
  Maker maker(options);
  uint64_t number = options.seed - 1;
  for (const check::NamedProgram& named : options.programs)
    maker.add_program(named.name, named.program, false, ++number);
  for (uint64_t i = 0; i < options.generated; ++i) {
    const uint64_t seed = options.seed + i;
    maker.add_program(fmt::format("generated {}", seed), check::random_program(seed), true, seed);
  }
  return maker.take();
}

}  // namespace coda::cuda
