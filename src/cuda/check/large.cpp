// SPDX-License-Identifier: Apache-2.0
#include "cuda/check/large.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/convert.h"
#include "check/for_each.h"
#include "cuda/backend/kernel.h"
#include "cuda/check/lane.h"

namespace coda::cuda {
namespace {

// What outputs hold before the first and the second launch. What holds both in turn was not
// written; the first is NaN in every float type.
constexpr unsigned char kPoison[] = {0xff, 0xee};

/// What two launches left in an output.
struct Written {
  std::atomic<int64_t> unwritten{0}, different{0}, nans{0};
};

template <class T>
int64_t count_nans(const std::byte* data, size_t count, T magnitude, T infinity) {
  int64_t nans = 0;
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, data + i * sizeof element, sizeof element);
    nans += static_cast<T>(element & magnitude) > infinity;
  }
  return nans;
}

int64_t count_nans(const std::byte* data, size_t count, DType type) {
  if (!is_float(type)) return 0;
  if (type == DType::bf16) return count_nans<uint16_t>(data, count, 0x7fff, 0x7f80);
  if (type == DType::f32) return count_nans<uint32_t>(data, count, 0x7fffffff, 0x7f800000);
  int64_t nans = 0;
  for (size_t i = 0; i < count; ++i)
    nans += std::isnan(load_element(data + i * size_of(type), type));
  return nans;
}

bool all_of(const std::byte* element, size_t width, unsigned char value) {
  return std::all_of(element, element + width, [&](std::byte b) { return b == std::byte{value}; });
}

void inspect(const std::vector<std::byte>& first, const std::vector<std::byte>& second, DType type,
             int threads, Written& written) {
  constexpr size_t kAtOnce = 1 << 20;  // elements
  const size_t width = size_of(type), count = first.size() / width;
  check::for_each((count + kAtOnce - 1) / kAtOnce, threads, [&](size_t block) {
    const size_t begin = block * kAtOnce, end = std::min(begin + kAtOnce, count);
    const std::byte *const a = first.data() + begin * width, *const b =
                                                                 second.data() + begin * width;
    written.nans += count_nans(a, end - begin, type);
    if (std::memcmp(a, b, (end - begin) * width) == 0) return;
    for (size_t i = 0; i < end - begin; ++i) {
      const std::byte *const x = a + i * width, *const y = b + i * width;
      if (std::memcmp(x, y, width) == 0) continue;
      const bool kept = all_of(x, width, kPoison[0]) && all_of(y, width, kPoison[1]);
      ++(kept ? written.unwritten : written.different);
    }
  });
}

class Verification {
 public:
  Verification(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
               const LargeOptions& options)
      : gpu_(gpu), arena_(arena), row_(row), options_(options) {
    arena_.reset();
    call_ = make_call(arena_, row.instance, row.size);
    fetch_ = [this](std::byte* to, const std::byte* from, int64_t width, int64_t pitch,
                    int64_t height) {
      const auto bytes = static_cast<size_t>(width), lines = static_cast<size_t>(height);
      if (lines == 1 || pitch == width)
        copy_to_host(gpu_->context(), to, from, bytes * lines, arena_.stream());
      else
        copy_lines_to_host(gpu_->context(), to, from, bytes, static_cast<size_t>(pitch), lines,
                           arena_.stream());
      arena_.synchronise();
    };
  }

  void run(LargeResult& result) {
    KernelOptions how;
    how.wish = options_.wish;
    const CudaKernel kernel(row_.instance, gpu_, how);
    result.way = kernel.warm(call_);
    launch_twice(kernel, result);
    const ir::Program& program = *row_.instance.program;
    check::Samples samples = check::choose_samples(program, call_.symbols, row_.size.depth(),
                                                   options_.counts, options_.seed);
    result.samples = samples.parts.size();
    result.uncovered = std::move(samples.uncovered);
    // Of each output the finding that is worst.
    std::map<size_t, check::Finding> worst;
    std::map<size_t, int> bad;
    for (const check::Finding& finding :
         check::check_parts(row_.instance, call_, samples.parts, fetch_, options_.threads)) {
      result.elements += finding.comparison.elements;
      result.ratio = std::max(result.ratio, finding.comparison.ratio);
      if (finding.comparison.ok()) continue;
      ++bad[finding.output];
      check::Finding& kept = worst.try_emplace(finding.output, finding).first->second;
      if (finding.comparison.ratio > kept.comparison.ratio) kept = finding;
    }
    for (const auto& [output, finding] : worst)
      fail(result,
           fmt::format("'{}': {} ({} of {} samples are wrong)", program.outputs[output].name,
                       to_string(finding.comparison), bad[output], samples.parts.size()));
  }

 private:
  static void fail(LargeResult& result, const std::string& message) {
    result.ok = false;
    result.message += (result.message.empty() ? "" : "; ") + message;
  }

  std::vector<std::byte> contents(const Binding& output) const {
    if (output.rows * output.columns == 0) return {};
    return std::move(
        check::cut(output, {0, output.rows}, {0, output.columns}, fetch_).memory.at(0));
  }

  void launch_twice(const CudaKernel& kernel, LargeResult& result) {
    const size_t bytes = kernel.workspace_bytes(call_);
    const Memory workspace(gpu_->shared_context(), bytes + kCanary);
    auto* const at = static_cast<std::byte*>(workspace.data());
    const ir::Program& program = *row_.instance.program;
    std::vector<std::vector<std::byte>> first;
    for (const unsigned char poison : kPoison) {
      for (const Binding& output : call_.outputs)
        for (const Segment& segment : output.segments)
          fill(gpu_->context(), segment.view.data, poison,
               static_cast<size_t>(output.rows * output.columns) * size_of(segment.view.dtype),
               arena_.stream());
      fill(gpu_->context(), at, 0xff, bytes + kCanary, arena_.stream());
      arena_.synchronise();
      Watch::begin(row_.name + " " + result.way);
      kernel.launch(arena_.stream(), call_, at);
      arena_.synchronise();
      Watch::end();
      std::vector<std::byte> canary(kCanary);
      fetch_(canary.data(), at + bytes, kCanary, kCanary, 1);
      if (!all_of(canary.data(), kCanary, 0xff))
        fail(result, "memory behind the workspace was written");
      if (poison == kPoison[0])
        for (const Binding& output : call_.outputs) first.push_back(contents(output));
    }
    for (size_t o = 0; o < first.size(); ++o) {
      Written written;
      const DType type = storage(program.outputs[o].type, row_.instance);
      inspect(first[o], contents(call_.outputs[o]), type, options_.threads, written);
      const auto report = [&](int64_t count, const char* what) {
        if (count > 0)
          fail(result, fmt::format("'{}': {} of {} elements {}", program.outputs[o].name, count,
                                   first[o].size() / size_of(type), what));
      };
      report(written.unwritten, "were not written");
      report(written.different, "have other bits after the second launch");
      // What was not written is NaN as well.
      report(written.nans - (is_float(type) ? written.unwritten.load() : 0), "are NaN");
      first[o] = {};
    }
  }

  std::shared_ptr<const Gpu> gpu_;
  Arena& arena_;
  const BenchRow& row_;
  const LargeOptions& options_;
  BoundCall call_;
  check::Fetch fetch_;
};

}  // namespace

LargeResult verify(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const BenchRow& row,
                   const LargeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  LargeResult result;
  result.name = row.name, result.size = row.size;
  try {
    Verification(gpu, arena, row, options).run(result);
  } catch (const Error& error) {
    Watch::end();
    result.ok = false, result.lost = error.kind() == ErrorKind::device;
    result.message += (result.message.empty() ? "" : "; ") + std::string(error.what());
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<LargeResult> verify_rows(const std::shared_ptr<const Gpu>& gpu,
                                     const std::vector<BenchRow>& rows, const LargeOptions& options,
                                     const std::function<void(const BenchRow&)>& begin,
                                     const std::function<void(const LargeResult&)>& end) {
  Watch::start(kHangSeconds);
  Arena arena(gpu, kBenchBytes);
  std::vector<LargeResult> results;
  for (const BenchRow& row : rows) {
    begin(row);
    results.push_back(verify(gpu, arena, row, options));
    end(results.back());
    if (results.back().lost) break;
  }
  return results;
}

}  // namespace coda::cuda
