// SPDX-License-Identifier: Apache-2.0
#include "check/check.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "call/backend.h"
#include "check/draw.h"

namespace coda::check {
namespace {

constexpr Device kCpu{};
constexpr int64_t kGradientElements = 256;  // of M x N: every element is moved
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool has_accumulator(const ir::Program& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(), [](const ir::Input& input) {
    return input.kind == ir::Input::Kind::accumulator;
  });
}

/// A case with the choices that follow from it.
struct Prepared {
  Prepared(const Program& program, const Case& c, const Options& options)
      : symbols(draw_sizes(program.ir(), options.sizes, c.n, c.seed)) {
    for (size_t i = ir::kFirstParameter; i < symbols.size(); ++i) {
      values.push_back({program.ir().symbols[i], symbols[i]});
      sizes[program.ir().symbols[i]] = symbols[i];
    }
    compile.type = c.type;
    compile.sizes = values;
    compile.threads = 1;
    instance = instantiate(std::make_shared<const ir::Program>(program.ir()), compile);
    symbols[ir::kSymbolM] = c.m, symbols[ir::kSymbolN] = c.n;
  }

  std::vector<int64_t> symbols;
  std::vector<SizeValue> values;
  std::map<std::string, int64_t> sizes;
  CompileOptions compile;
  Instance instance;
};

std::string repeat_command(const Options& options, const Row& row) {
  std::string command =
      fmt::format("{} --case {} --seed {}", options.command, to_string(row.c), row.c.seed);
  for (const auto& [name, value] : row.sizes) command += fmt::format(" --size {}={}", name, value);
  return command;
}

void finish(Row& row, const Options& options) {
  if (!row.ok) row.repeat = repeat_command(options, row);
}

/// Binds, telling M and N only where the tensors do not.
BoundCall bind_drawn(const Instance& instance, DrawnCall& drawn) {
  try {
    return bind(instance, drawn.arguments(), kCpu);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::argument) throw;
    drawn.tell_sizes();
    return bind(instance, drawn.arguments(), kCpu);
  }
}

/// Compares every output of a finished run; the worst one fills the row.
void compare_outputs(const ir::Program& program, const BoundCall& call,
                     const std::vector<reference::Dense>& expected, Row& row) {
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const reference::Comparison result = reference::compare(call.outputs[o], expected[o]);
    if (o > 0 && result.ratio <= row.ratio) continue;
    row.ratio = result.ratio;
    row.output = program.outputs[o].name;
    if (!result.ok()) row.ok = false, row.message = to_string(result);
  }
}

/// The least N from `n` on that the program allows.
int64_t allowed_columns(const Program& program, int64_t n, const Options& options) {
  const int64_t unit =
      column_unit(program.ir(), draw_sizes(program.ir(), options.sizes, n, options.seed));
  return (n + unit - 1) / unit * unit;
}

/// Arguments whose shapes follow from an N that the program does not allow: bind() must refuse it.
Row check_refusal(const Program& program, int64_t n, const Options& options) {
  Row row;
  row.what = fmt::format("refusal of N = {}", n);
  row.c = {3, n, 8, DType::f32, options.seed};
  const Prepared prepared(program, row.c, options);
  row.sizes = prepared.sizes;
  const ir::Program& ir = program.ir();
  Arguments arguments;
  const auto view = [&](const ir::Dims& dims, DType type) {
    using Kind = ir::Columns::Kind;
    const auto symbol_value = [&](const ir::Size& size) {
      double value = static_cast<double>(size.numerator) / static_cast<double>(size.denominator);
      for (const auto& [symbol, power] : size.powers)
        value *= std::pow(static_cast<double>(prepared.symbols[symbol]), power);
      return value;
    };
    double columns = symbol_value(dims.columns.width);
    if (dims.columns.kind == Kind::group) columns /= symbol_value(dims.columns.size);
    if (dims.columns.kind == Kind::repeat) columns = symbol_value(dims.columns.size);
    const auto count = static_cast<int64_t>(columns);
    if (dims.columns.kind == Kind::none)
      return dims.rows ? vector_view(nullptr, row.c.m, type) : scalar_view(nullptr, type);
    return dims.rows ? matrix_view(nullptr, row.c.m, count, type)
                     : vector_view(nullptr, count, type);
  };
  for (const ir::Input& input : ir.inputs) {
    if (input.kind == ir::Input::Kind::accumulator)
      arguments.product(input.name, matrix_view(nullptr, row.c.m, row.c.k, row.c.type),
                        matrix_view(nullptr, n, row.c.k, row.c.type));
    else if (input.kind == ir::Input::Kind::scalar)
      arguments.scalar(input.name, 1);
    else
      arguments.tensor(input.name, view(input.dims, storage(input.type, prepared.instance)));
  }
  for (const ir::Output& output : ir.outputs)
    arguments.tensor(output.name, view(output.dims, storage(output.type, prepared.instance)));
  arguments.sizes(row.c.m, n);
  try {
    bind(prepared.instance, arguments, kCpu, Memory::may_be_null);
    row.ok = false, row.ratio = HUGE_VAL;
    row.message = "accepted, though pairs or groups of columns do not divide N";
  } catch (const Error& error) {
    row.message = error.what();
  }
  return row;
}

/// A piece of work that yields rows.
struct Job {
  enum class Kind : unsigned char { run, gradient, refusal } kind;
  Case c;
};

std::vector<Job> list_jobs(const Program& program, const Options& options) {
  if (options.only) {
    Case small = *options.only;
    std::vector<Job> jobs{{Job::Kind::run, small}};
    if (small.m * small.n <= kGradientElements) jobs.push_back({Job::Kind::gradient, small});
    return jobs;
  }
  static constexpr int64_t kAllM[] = {0, 1, 31, 33, 128, 129, 1000};
  static constexpr int64_t kAllN[] = {1, 8, 97, 131, 256, 1160};
  static constexpr int64_t kAllK[] = {0, 1, 8, 40, 520};
  static constexpr int64_t kQuick[][3] = {{1, 1, 1},      {3, 8, 8},     {33, 97, 40},
                                          {128, 256, 64}, {129, 131, 0}, {200, 264, 96},
                                          {0, 8, 8},      {64, 640, 33}};
  std::vector<Job> jobs;
  std::set<std::tuple<int64_t, int64_t, int64_t, DType>> seen;
  std::set<int64_t> refused;
  const bool product = has_accumulator(program.ir());
  const auto add = [&](int64_t m, int64_t n, int64_t k) {
    const int64_t allowed = allowed_columns(program, n, options);
    if (allowed != n && refused.insert(n).second)
      jobs.push_back({Job::Kind::refusal, {m, n, k, DType::f32}});
    for (const DType type : kTypes) {
      const int64_t depth = product ? k : 0;
      if (options.type && *options.type != type) continue;
      if (!seen.insert({m, allowed, depth, type}).second) continue;
      jobs.push_back({Job::Kind::run, {m, allowed, depth, type}});
    }
  };
  jobs.push_back({Job::Kind::gradient, {3, allowed_columns(program, 5, options), 0, DType::f32}});
  jobs.push_back({Job::Kind::gradient, {1, allowed_columns(program, 9, options), 0, DType::f32}});
  if (options.all) {
    for (const int64_t n : kAllN)
      for (const int64_t m : kAllM)
        for (const int64_t k : kAllK) add(m, n, k);
  } else {
    for (const auto& shape : kQuick) add(shape[0], shape[1], shape[2]);
  }
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].c.seed = options.seed * 4096 + i;
  return jobs;
}

std::vector<Row> run_job(const Program& program, const Job& job, const Options& options) {
  try {
    switch (job.kind) {
      case Job::Kind::run:
        return check_runs(program, job.c, options);
      case Job::Kind::gradient:
        return check_gradient(program, job.c, options);
      case Job::Kind::refusal:
        return {check_refusal(program, job.c.n, options)};
    }
  } catch (const Error& error) {
    Row row;
    row.what = job.kind == Job::Kind::gradient ? "gradient" : "refusal";
    row.c = job.c, row.ok = false, row.ratio = HUGE_VAL, row.message = error.what();
    return {row};
  }
  return {};
}

}  // namespace

std::string to_string(const Case& c) {
  return fmt::format("{}x{}x{}:{}", c.m, c.n, c.k, name_of(c.type));
}

Case parse_case(std::string_view text) {
  Case result;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto number = [&](int64_t& value, char after) {
    const auto [stop, error] = std::from_chars(at, end, value);
    const bool right = error == std::errc() && value >= 0 && stop != end && *stop == after;
    at = right ? stop + 1 : end;
    return right;
  };
  const bool sizes = number(result.m, 'x') && number(result.n, 'x') && number(result.k, ':');
  const auto type = dtype_from_name(std::string_view(at, static_cast<size_t>(end - at)));
  if (!sizes || !type)
    throw Error(ErrorKind::argument, "--case", "MxNxK:TYPE, such as 33x96x40:bf16",
                "'" + std::string(text) + "'");
  result.type = *type;
  return result;
}

void run_on_cpu(const Program& program, const CompileOptions& options, const Arguments& arguments) {
  const Kernel kernel = compile(program, kCpu, options);
  const size_t size = kernel.workspace_bytes(arguments);
  struct Free {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{kWorkspaceAlignment}); }
  };
  const std::unique_ptr<void, Free> workspace(
      ::operator new (size + 1, std::align_val_t{kWorkspaceAlignment}));
  kernel.launch(nullptr, arguments, workspace.get(), size);
}

std::vector<Row> check_runs(const Program& program, const Case& c, const Options& options) {
  std::vector<Row> rows;
  Row base;
  base.c = c;
  try {
    const Prepared prepared(program, c, options);
    base.sizes = prepared.sizes;
    DrawnCall drawn(prepared.instance, prepared.symbols, c.k, c.seed);
    const BoundCall call = bind_drawn(prepared.instance, drawn);
    const std::vector<reference::Dense> expected = reference::evaluate(
        program.ir(), prepared.symbols, reference::inputs_of(program.ir(), call), {.type = c.type});
    for (const bool fused : {true, false}) {
      Row row = base;
      row.what = fused ? "fused" : "unfused";
      drawn.restore();
      CompileOptions compile = prepared.compile;
      compile.fused = fused;
      try {
        options.run(program, compile, drawn.arguments());
        compare_outputs(program.ir(), call, expected, row);
        if (const std::string damage = drawn.find_damage(call); !damage.empty())
          row.ok = false, row.ratio = HUGE_VAL, row.message = damage;
      } catch (const Error& error) {
        row.ok = false, row.ratio = HUGE_VAL, row.message = error.what();
      }
      rows.push_back(std::move(row));
    }
  } catch (const Error& error) {
    Row row = base;
    row.what = "binding", row.ok = false, row.ratio = HUGE_VAL, row.message = error.what();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> check_case(const Program& program, const Case& c, const Options& options) {
  std::vector<Row> rows = check_runs(program, c, options);
  if (c.m * c.n <= kGradientElements)
    for (Row& row : run_job(program, {Job::Kind::gradient, c}, options))
      rows.push_back(std::move(row));
  for (Row& row : rows) finish(row, options);
  return rows;
}

Report check(const Program& program, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Report report;
  report.program = program.name();
  report.seed = options.seed;
  const std::vector<Job> jobs = list_jobs(program, options);
  const bool limited = !options.all && !options.only;
  std::vector<std::vector<Row>> results(jobs.size());
  std::atomic<size_t> next{0};
  std::atomic<int> done{0}, skipped{0};
  std::mutex progress;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < jobs.size();) {
      if (limited && seconds_since(start) > options.seconds) {
        ++skipped;
        continue;
      }
      results[i] = run_job(program, jobs[i], options);
      const std::lock_guard lock(progress);
      ++done;
      if (options.progress) options.progress(done, static_cast<int>(jobs.size()));
    }
  };
  const unsigned count = options.threads > 0 ? static_cast<unsigned>(options.threads)
                                             : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < count && i < jobs.size(); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  for (std::vector<Row>& rows : results)
    for (Row& row : rows) {
      finish(row, options);
      report.failures += !row.ok;
      report.rows.push_back(std::move(row));
    }
  report.skipped = skipped;
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace coda::check
