// SPDX-License-Identifier: Apache-2.0
// coda bench: the fused program, the unfused one and the bare matrix product, in turns in one run.
#include <coda/error.h>
#include <coda/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <new>

#include "bare_product.h"
#include "base/convert.h"
#include "check/draw.h"
#include "commands.h"
#include "cpu/mainloop.h"
#include "cuda.h"
#include "programs.h"
#include "reference/reference.h"

namespace coda::tool {
namespace {

struct Options {
  std::string file, device = "cpu";
  CudaBench cuda;
  int64_t m = 1024, n = 1024, k = 1024;
  int threads = 1;
  double seconds = 3;
  uint64_t seed = 1;
  Choices choices;
};

/// Contiguous tensors of random values for one call.
class Data {
 public:
  Data(const Instance& instance, const Options& options) : options_(options), type_(instance.type) {
    symbols_ = instance.symbols;
    symbols_[ir::kSymbolN] = options.n;
    symbols_[ir::kSymbolM] = options.m;
    const ir::Program& program = *instance.program;
    const std::vector<check::Source> sources = check::sources_of(program);
    for (size_t i = 0; i < program.inputs.size(); ++i)
      add_input(program.inputs[i], storage(program.inputs[i].type, instance), sources[i]);
    for (const ir::Output& output : program.outputs)
      arguments_.tensor(output.name, tensor(output.name, output.dims,
                                            storage(output.type, instance), check::Source::normal));
    arguments_.sizes(options.m, options.n);
  }

  const Arguments& arguments() const { return arguments_; }

  /// One bare product for each accumulator, or none.
  std::vector<std::function<void()>> bare_products() {
    std::vector<std::function<void()>> calls;
    for (const TensorView& b : weights_) {
      const TensorView c = matrix(options_.m, options_.n, type_, "bare", check::Source::normal, 1);
      calls.push_back(bare_product(options_.m, options_.n, options_.k, type_, a_.data, b.data,
                                   c.data, options_.threads));
      if (!calls.back()) return {};
    }
    return calls;
  }

 private:
  std::byte* memory(int64_t count, DType type, const std::string& name, check::Source source,
                    double scale) {
    check::Random random(options_.seed, name);
    std::vector<std::byte>& bytes =
        buffers_.emplace_back(static_cast<size_t>(count) * size_of(type));
    for (int64_t i = 0; i < count; ++i) {
      const double value =
          is_float(type) ? scale * check::draw_real(source, random)
                         : static_cast<double>(check::draw_integer(source, options_.n, random));
      store_element(bytes.data() + static_cast<size_t>(i) * size_of(type), type, value);
    }
    return bytes.data();
  }

  TensorView matrix(int64_t rows, int64_t columns, DType type, const std::string& name,
                    check::Source source, double scale) {
    return matrix_view(memory(rows * columns, type, name, source, scale), rows, columns, type);
  }

  TensorView tensor(const std::string& name, const ir::Dims& dims, DType type,
                    check::Source source) {
    const auto [rows, columns] = reference::extent(dims, symbols_);
    const bool wide = dims.columns.kind != ir::Columns::Kind::none;
    if (dims.rows && wide) return matrix(rows, columns, type, name, source, 1);
    std::byte* data = memory(rows * columns, type, name, source, 1);
    return dims.rows || wide ? vector_view(data, rows * columns, type) : scalar_view(data, type);
  }

  /// Accumulators share A; weights are scaled so that products stay near N(0, 1).
  void add_input(const ir::Input& input, DType type, check::Source source) {
    if (input.kind == ir::Input::Kind::tensor) {
      arguments_.tensor(input.name, tensor(input.name, input.dims, type, source));
    } else if (input.kind == ir::Input::Kind::scalar) {
      check::Random random(options_.seed, input.name);
      arguments_.scalar(input.name,
                        is_float(type)
                            ? check::draw_real(check::Source::positive, random)
                            : static_cast<double>(check::draw_integer(source, options_.n, random)));
    } else {
      const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(options_.k, 1)));
      if (weights_.empty())
        a_ = matrix(options_.m, options_.k, type_, "A", check::Source::normal, 1);
      weights_.push_back(
          matrix(options_.n, options_.k, type_, "B " + input.name, check::Source::normal, scale));
      arguments_.product(input.name, a_, weights_.back());
    }
  }

  const Options& options_;
  DType type_;
  std::vector<int64_t> symbols_;
  std::deque<std::vector<std::byte>> buffers_;
  TensorView a_;
  std::vector<TensorView> weights_;
  Arguments arguments_;
};

/// A way of computing, and how long each of its calls took.
struct Contender {
  std::string name;
  std::function<void()> call;
  std::vector<double> seconds;

  double median() const {
    std::vector<double> sorted = seconds;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
};

std::function<void()> launcher(const Program& program, const Instance& instance,
                               const Options& options, const Data& data, bool fused) {
  std::vector<SizeValue> sizes;
  for (size_t i = ir::kFirstParameter; i < instance.symbols.size(); ++i)
    sizes.push_back({instance.program->symbols[i], instance.symbols[i]});
  CompileOptions compile_options;
  compile_options.type = instance.type;
  compile_options.sizes = sizes;
  compile_options.fused = fused;
  compile_options.threads = options.threads;
  const Kernel kernel = compile(program, Device{}, compile_options);
  const size_t size = kernel.workspace_bytes(data.arguments());
  constexpr std::align_val_t kAlignment{kWorkspaceAlignment};
  const std::shared_ptr<void> workspace(::operator new(size, kAlignment),
                                        [](void* p) { ::operator delete(p, kAlignment); });
  return [=, &data] { kernel.launch(nullptr, data.arguments(), workspace.get(), size); };
}

/// One call each in turn, until the time is over and each ran five times. The first calls are not
/// counted.
void measure(std::vector<Contender>& contenders, double limit,
             const std::function<void(double)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (const Contender& contender : contenders) contender.call();
  const auto start = Clock::now();
  for (int round = 0; round < 5 || since(start) < limit; ++round) {
    for (Contender& contender : contenders) {
      const auto begin = Clock::now();
      contender.call();
      contender.seconds.push_back(since(begin));
    }
    tell(since(start));
  }
}

bool native_bf16() {
  const auto mainloop = cpu::make_onednn_mainloop();
  return mainloop != nullptr && mainloop->takes(DType::bf16);
}

Json measure_program(const Shell& shell, const Options& options, const Program& program,
                     const Instance& instance) {
  progress(shell, fmt::format("{}: drawing data", program.name()));
  Data data(instance, options);
  std::vector<Contender> contenders{
      {"fused", launcher(program, instance, options, data, true), {}},
      {"unfused", launcher(program, instance, options, data, false), {}}};
  if (const auto products = data.bare_products(); !products.empty())
    contenders.push_back({"bare product",
                          [products] {
                            for (const auto& call : products) call();
                          },
                          {}});
  measure(contenders, options.seconds, [&](double seconds) {
    progress(shell,
             fmt::format("{}: {:.0f} of {:.0f} s", program.name(), seconds, options.seconds));
  });
  progress(shell, "");

  Json results = Json::array();
  std::vector<std::vector<std::string>> rows{{"", "ms", "/ fused", "calls"}};
  for (const Contender& contender : contenders) {
    const double median = contender.median();
    results.push_back({{"name", contender.name},
                       {"median_seconds", median},
                       {"calls", contender.seconds.size()}});
    rows.push_back({contender.name, fmt::format("{:.3f}", 1e3 * median),
                    fmt::format("{:.3f}", median / contenders[0].median()),
                    fmt::format("{}", contender.seconds.size())});
  }
  if (!shell.json) {
    fmt::print("{}: T = {}, M = {}, N = {}, K = {}, {} thread{}, cpu\n",
               paint(Colour::bold, program.name()), name_of(instance.type), options.m, options.n,
               options.k, options.threads, options.threads == 1 ? "" : "s");
    print_table(rows, {false, true, true, true});
    if (instance.type == DType::bf16 && contenders.size() > 2 && !native_bf16())
      fmt::print(
          "bf16 is emulated in the bare product on this processor; --type f32 compares alike\n");
  }
  return {{"program", program.name()},
          {"type", name_of(instance.type)},
          {"m", options.m},
          {"n", options.n},
          {"k", options.k},
          {"threads", options.threads},
          {"device", "cpu"},
          {"results", results}};
}

int run_on_cuda(const Shell& shell, const Options& options) {
  std::vector<Instance> instances;
  if (!options.file.empty()) {
    const std::vector<Program> programs = find_programs(options.file);
    const auto sizes = parse_sizes(options.choices.sizes, programs);
    for (const Program& program : programs)
      instances.push_back(instantiate(program, options.choices, sizes));
  }
  CudaBench cuda = options.cuda;
  cuda.m = options.m, cuda.n = options.n, cuda.k = options.k, cuda.seconds = options.seconds;
  return bench_on_cuda(shell, instances, cuda);
}

/// --suite names what is timed, on cuda and without a program.
void check_suite(const Options& options) {
  if (options.cuda.suite.empty()) return;
  if (options.device != "cuda")
    throw Error(ErrorKind::argument, "--suite " + options.cuda.suite, "--device cuda",
                "--device " + options.device, "the suites are made of calls on a GPU");
  if (!options.file.empty())
    throw Error(ErrorKind::argument, "--suite " + options.cuda.suite, "no program beside it",
                options.file, "leave one of the two out");
}

int run(const Shell& shell, const Options& options) {
  if (options.m < 1 || options.n < 1 || options.k < 0 || options.threads < 1)
    throw Error(ErrorKind::argument, "bench", "m, n and threads of at least 1, k of at least 0",
                fmt::format("m = {}, n = {}, k = {}, threads = {}", options.m, options.n, options.k,
                            options.threads));
  if (options.cuda.rounds < 1 || options.cuda.candidates < 1)
    throw Error(
        ErrorKind::argument, "bench", "rounds and candidates of at least 1",
        fmt::format("rounds = {}, candidates = {}", options.cuda.rounds, options.cuda.candidates));
  check_suite(options);
  if (options.device == "cuda") return run_on_cuda(shell, options);
  if (options.file.empty())
    throw Error(ErrorKind::argument, "bench", "a program", "none",
                "name a file or a program of the library");
  const std::vector<Program> programs = find_programs(options.file);
  const auto sizes = parse_sizes(options.choices.sizes, programs);
  Json list = Json::array();
  for (const Program& program : programs)
    list.push_back(
        measure_program(shell, options, program, instantiate(program, options.choices, sizes)));
  if (shell.json) print_json({{"programs", list}});
  return kOk;
}

}  // namespace

void add_bench(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, shell, "bench", "time a program beside the bare matrix product",
                  [&shell, options] { return run(shell, *options); });
  command->add_option("FILE", options->file,
                      "FILE, FILE:PROGRAM or a program of the library; on cuda, none: a suite");
  command
      ->add_option("--suite", options->cuda.suite,
                   "on cuda: kernels, those of models (also without FILE); generated, programs "
                   "of the generator")
      ->check(CLI::IsMember({"kernels", "generated"}));
  command->add_option("--device", options->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--layout", options->cuda.layout,
                   "on cuda: NT, the forward product; NN or TN, a gradient")
      ->check(CLI::IsMember({"NT", "NN", "TN"}))
      ->capture_default_str();
  command->add_option("--config", options->cuda.config,
                      "on cuda: the configuration, \"pingpong 128x192 2x1 chunk=64\"");
  command
      ->add_option("--candidates", options->cuda.candidates,
                   "on cuda: how many of the best configurations")
      ->capture_default_str();
  command->add_option("--only", options->cuda.only,
                      "on cuda: rows of the suite whose name has this in it");
  command->add_option("--rounds", options->cuda.rounds, "on cuda: slots of each way of computing")
      ->capture_default_str();
  command->add_option("--commit", options->cuda.commit, "on cuda: coda's commit, kept with --json");
  command->add_option("-m,--m", options->m, "rows: tokens")->capture_default_str();
  command->add_option("-n,--n", options->n, "columns: output features")->capture_default_str();
  command->add_option("-k,--k", options->k, "input features of the matrix product")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "workers")->capture_default_str();
  command->add_option("--seconds", options->seconds, "how long to measure")->capture_default_str();
  command->add_option("--seed", options->seed, "of the drawn data")->capture_default_str();
  add_choices(*command, options->choices);
}

}  // namespace coda::tool
