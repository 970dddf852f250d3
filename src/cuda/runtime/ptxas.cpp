// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/ptxas.h"

#include <algorithm>
#include <charconv>

namespace coda::cuda {
namespace {

/// setmaxnreg is ignored (C7504, C7508); registers do not suffice for wgmma (C7511), or wgmma is
/// serialised for another reason.
constexpr std::string_view kFatalNotes[] = {"C7504", "C7508", "C7510", "C7511",
                                            "C7515", "C7519", "C7520"};

/// The number that ends right before `text` in `line`; 0 where there is none.
int number_before(std::string_view line, std::string_view text) {
  const size_t end = line.find(text);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  const size_t end = line.find(after);
  return end == std::string_view::npos ? std::string_view{} : line.substr(0, end);
}

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<KernelResources> parse_ptxas_log(std::string_view log) {
  std::vector<KernelResources> kernels;
  for_each_line(log, [&](std::string_view line) {
    if (const std::string_view name = between(line, "Compiling entry function '", "'");
        !name.empty())
      kernels.push_back({std::string(name)});
    if (kernels.empty()) return;
    KernelResources& kernel = kernels.back();
    const auto raise = [&](int& value, std::string_view text) {
      value = std::max(value, number_before(line, text));
    };
    raise(kernel.stack_bytes, " bytes stack frame");
    raise(kernel.stack_bytes, " bytes cumulative stack size");
    raise(kernel.spill_store_bytes, " bytes spill stores");
    raise(kernel.spill_load_bytes, " bytes spill loads");
    raise(kernel.registers, " registers");
    raise(kernel.barriers, " barriers");
    raise(kernel.shared_bytes, " bytes smem");
  });
  return kernels;
}

std::string find_faults(std::string_view log, const std::vector<KernelResources>& kernels) {
  std::string faults;
  const auto add = [&](std::string_view fault) {
    if (!faults.empty()) faults += '\n';
    faults += fault;
  };
  for (const KernelResources& kernel : kernels) {
    if (kernel.spill_store_bytes != 0 || kernel.spill_load_bytes != 0)
      add(kernel.name + ": " + std::to_string(kernel.spill_store_bytes) +
          " bytes of spill stores, " + std::to_string(kernel.spill_load_bytes) + " of spill loads");
    else if (kernel.stack_bytes != 0)
      add(kernel.name + ": a stack frame of " + std::to_string(kernel.stack_bytes) + " bytes");
  }
  for_each_line(log, [&](std::string_view line) {
    for (const std::string_view note : kFatalNotes)
      if (line.find(note) != std::string_view::npos) add(line);
  });
  return faults;
}

}  // namespace coda::cuda
