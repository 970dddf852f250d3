// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/tune.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/convert.h"
#include "cuda/backend/ahead.h"
#include "cuda/backend/kernel.h"
#include "cuda/check/lane.h"

namespace coda::cuda {
namespace {

constexpr int64_t kBlockRows = 16, kBlockColumns = 64;
constexpr unsigned char kPoisons[] = {0xff, 0x5a};  // the first is NaN in every float type

/// What an element may differ by, beside the largest of its block. Sums in another order differ by
/// far less; a value on the edge of two of the type's numbers goes either way.
double tolerance_of(DType type) {
  return type == DType::e5m2 ? 0x1p-1 : type == DType::e4m3 ? 0x1p-2 : 0x1p-6;
}

/// Whether a block of both agrees; where it does not, `at` is the element.
bool block_agrees(const HostMatrix& expected, const HostMatrix& got, int64_t row, int64_t column,
                  std::pair<int64_t, int64_t>* at) {
  const size_t width = size_of(expected.type);
  const int64_t rows = std::min(kBlockRows, expected.rows - row);
  const int64_t columns = std::min(kBlockColumns, expected.columns - column);
  double values[kBlockRows * kBlockColumns], others[kBlockRows * kBlockColumns];
  double largest = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const size_t offset = static_cast<size_t>((row + r) * expected.columns + column + c) * width;
      double& value = values[r * kBlockColumns + c];
      value = load_element(expected.bytes.data() + offset, expected.type);
      others[r * kBlockColumns + c] = load_element(got.bytes.data() + offset, got.type);
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  const double most = is_float(expected.type) ? largest * tolerance_of(expected.type) : 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const double a = values[r * kBlockColumns + c], b = others[r * kBlockColumns + c];
      if (a == b || std::abs(a - b) <= most || (std::isnan(a) && std::isnan(b))) continue;
      *at = {row + r, column + c};
      return false;
    }
  return true;
}

/// The output tensors of a call, as they lie: make_call() makes them contiguous.
std::vector<HostMatrix> outputs_of(const BoundCall& call,
                                   const std::vector<std::vector<std::byte>>& bytes) {
  std::vector<HostMatrix> result;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    result.push_back({bytes[i], call.outputs[i].rows, call.outputs[i].columns,
                      call.outputs[i].segments.at(0).view.dtype});
  return result;
}

/// Ends the process where a launch hangs.
struct Watched {
  explicit Watched(const std::string& what) { Watch::begin(what); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { Watch::end(); }
};

/// Runs kernels on one call, from outputs and workspaces full of a pattern.
class Verifier {
 public:
  Verifier(const std::shared_ptr<const Gpu>& gpu, const Arena& arena, const Instance& instance,
           const BoundCall& call)
      : gpu_(gpu), arena_(arena), instance_(instance), call_(call) {
    KernelOptions options;
    options.fused = false;
    expected_ = run(options, kPoisons[0]);
  }

  /// "" where the configuration gives the outputs of the unfused way, and the same bits from two
  /// patterns.
  std::string problem(const std::string& config) const {
    KernelOptions options;
    options.wish = exact_wish(config);
    const Outputs first = run(options, kPoisons[0]);
    const std::vector<HostMatrix> expected = outputs_of(call_, expected_);
    const std::vector<HostMatrix> got = outputs_of(call_, first);
    for (size_t i = 0; i < got.size(); ++i)
      if (const std::string where = difference(expected[i], got[i]); !where.empty())
        return "output '" + instance_.program->outputs[i].name + "' " + where;
    const Outputs second = run(options, kPoisons[1]);
    for (size_t i = 0; i < first.size(); ++i)
      if (first[i] != second[i])
        return "output '" + instance_.program->outputs[i].name +
               "' keeps what was there before, or differs between launches";
    return "";
  }

 private:
  using Outputs = std::vector<std::vector<std::byte>>;

  Outputs run(const KernelOptions& options, unsigned char poison) const {
    const CudaKernel kernel(instance_, gpu_, options);
    const size_t bytes = kernel.workspace_bytes(call_);
    const Memory workspace(gpu_->shared_context(), bytes);
    const Context& context = gpu_->context();
    const StreamHandle stream = arena_.stream();
    Outputs outputs;
    for (const Binding& binding : call_.outputs) {
      const View& view = binding.segments.at(0).view;
      outputs.emplace_back(static_cast<size_t>(binding.rows * binding.columns) *
                           size_of(view.dtype));
      fill(context, view.data, poison, outputs.back().size(), stream);
    }
    if (bytes > 0) fill(context, workspace.data(), poison, bytes, stream);
    const Watched watched(instance_.program->name + ": " + kernel.warm(call_));
    kernel.launch(stream, call_, workspace.data());
    arena_.synchronise();
    for (size_t i = 0; i < outputs.size(); ++i)
      copy_to_host(context, outputs[i].data(), call_.outputs[i].segments.at(0).view.data,
                   outputs[i].size(), stream);
    arena_.synchronise();
    return outputs;
  }

  std::shared_ptr<const Gpu> gpu_;
  const Arena& arena_;
  const Instance& instance_;
  const BoundCall& call_;
  Outputs expected_;
};

/// The first of the model's order, but at most two of a tile and strip: what the model misjudges
/// are tiles more than clusters.
std::vector<Candidate> varied(const std::vector<Candidate>& all, size_t count) {
  constexpr int kOfAKind = 2;
  const auto kind = [](const device::Config& c) {
    return std::tuple(c.mode, c.tile_m, c.tile_n, c.pair, c.split_k);
  };
  std::vector<Candidate> result;
  for (const Candidate& candidate : all) {
    if (result.size() == count) break;
    const auto alike = std::count_if(result.begin(), result.end(), [&](const Candidate& other) {
      return kind(other.config) == kind(candidate.config);
    });
    if (alike < kOfAKind) result.push_back(candidate);
  }
  return result;
}

}  // namespace

std::string difference(const HostMatrix& expected, const HostMatrix& got) {
  // Strips of rows are shared out; the first wrong one counts, whichever thread finds it.
  const int64_t strips = (expected.rows + kBlockRows - 1) / kBlockRows;
  std::atomic<int64_t> next{0}, first_wrong{strips};
  std::mutex mutex;
  std::pair<int64_t, int64_t> at;
  const auto work = [&] {
    for (int64_t strip; (strip = next.fetch_add(1)) < strips && strip < first_wrong;)
      for (int64_t column = 0; column < expected.columns; column += kBlockColumns) {
        std::pair<int64_t, int64_t> here;
        if (block_agrees(expected, got, strip * kBlockRows, column, &here)) continue;
        const std::lock_guard lock(mutex);
        if (strip < first_wrong) first_wrong = strip, at = here;
        break;
      }
  };
  std::vector<std::thread> threads;
  const int64_t most = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  for (int64_t i = 1; i < std::min(most, strips / 64); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (first_wrong == strips) return "";
  const auto value = [&](const HostMatrix& matrix) {
    return load_element(
        matrix.bytes.data() +
            static_cast<size_t>(at.first * matrix.columns + at.second) * size_of(matrix.type),
        matrix.type);
  };
  return fmt::format("is {} at row {}, column {}, where the unfused way has {}", value(got),
                     at.first, at.second, value(expected));
}

TunedEntry TuneRow::entry() const {
  TunedEntry result;
  result.program = program, result.layout = layout_of(call.problem);
  result.accumulators = call.problem.accumulators;
  result.m = call.problem.m, result.n = call.problem.n, result.k = call.problem.depth();
  return result;
}

std::vector<TuneRow> tune_rows(std::span<const BenchRow> rows, int count, int multiprocessors) {
  std::vector<TuneRow> result;
  for (const BenchRow& row : rows) {
    TuneRow& tuned = result.emplace_back();
    tuned.row = &row;
    auto accepted = mainloop_call(row, multiprocessors);
    if (auto* why = std::get_if<std::string>(&accepted)) {
      tuned.why_none = std::move(*why);
      continue;
    }
    tuned.call = std::get<FusedCall>(std::move(accepted));
    const ProgramShape shape = program_shape(row.instance, fused_ports(row.instance));
    tuned.program = tuned_key(shape, tuned.call.problem);
    const std::vector<Candidate> all =
        modelled_candidates(shape, tuned.call.problem, {}, &tuned.why_none);
    for (const Candidate& c : varied(all, static_cast<size_t>(count)))
      tuned.configs.push_back(to_string(c.config, c.splits));
  }
  return result;
}

void compile_candidates(std::span<const TuneRow> rows, int workers) {
  std::vector<AheadCall> calls;
  for (const TuneRow& row : rows)
    for (const std::string& config : row.configs)
      calls.push_back({&row.row->instance, row.call, exact_wish(config)});
  compile_ahead(calls, workers);
  std::vector<const Instance*> unfused;  // what they are held against
  for (const TuneRow& row : rows)
    if (!row.configs.empty()) unfused.push_back(&row.row->instance);
  compile_unfused_ahead(unfused, workers);
}

TuneResult tune(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const TuneRow& row,
                const TuneOptions& options) {
  const BenchRow& bench = *row.row;
  arena.reset();
  const auto call = std::make_shared<const BoundCall>(make_call(arena, bench.instance, bench.size));
  TuneResult result;
  std::vector<Contender> contenders{bare_contender(
      gpu, arena, bench.size, bench.size.n * row.call.problem.accumulators, bench.instance.type)};
  std::vector<size_t> timed;  // results of the contenders after the first
  for (const std::string& config : row.configs) {
    Tried& tried = result.tried.emplace_back();
    tried.config = config;
    try {
      contenders.push_back(
          coda_contender(gpu, arena, bench.instance, call, config, exact_wish(config)));
      const Watched watched(bench.name + ": " + config);
      contenders.back().launch();
      arena.synchronise();
      timed.push_back(result.tried.size() - 1);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      const std::string got = error.got();
      tried.refusal = got.substr(0, got.find('\n'));
    }
  }
  if (timed.empty()) return result;
  take_turns(gpu, arena, contenders, options.turns);
  result.bare_microseconds = contenders[0].timed.microseconds;
  for (size_t i = 0; i < timed.size(); ++i)
    result.tried[timed[i]].microseconds = contenders[i + 1].timed.microseconds;
  std::sort(timed.begin(), timed.end(), [&](size_t a, size_t b) {
    return result.tried[a].microseconds < result.tried[b].microseconds;
  });
  // The fastest that computes the right thing wins; what is slower need not be looked at.
  const Verifier verifier(gpu, arena, bench.instance, *call);
  for (const size_t i : timed) {
    Tried& tried = result.tried[i];
    tried.refusal = verifier.problem(tried.config);
    if (!tried.refusal.empty()) continue;
    TunedEntry entry = row.entry();
    entry.config = tried.config, entry.wish = exact_wish(tried.config);
    entry.microseconds = tried.microseconds;
    entry.ratio = tried.microseconds / result.bare_microseconds;
    result.entry = std::move(entry);
    break;
  }
  return result;
}

}  // namespace coda::cuda
