// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/device_text.h"

#include <coda/error.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "cuda/runtime/file.h"
#include "cuda/scalar/op_text.h"

namespace coda::cuda {
namespace {

struct File {
  std::string_view name, text;
};

constexpr File kFiles[] = {
#include "device_files.inc"
};

// Each file stands after those that it includes.
constexpr std::string_view kScalar[] = {"plan/types.h", "scalar/storage.cuh", "scalar/math.cuh"};
constexpr std::string_view kMainloop[] = {
    "plan/config.h",       "plan/plan.h",      "device/barrier.cuh", "device/cluster.cuh",
    "device/tma.cuh",      "device/wgmma.cuh", "device/matrix.cuh",  "device/schedule.cuh",
    "device/mainloop.cuh", "device/ports.cuh", "device/reduce.cuh",  "device/epilogue.cuh",
    "device/kernel.cuh"};
constexpr std::string_view kStandalone[] = {"standalone/pointwise.cuh", "standalone/split_sum.cuh"};

std::string embedded(std::string_view name) {
  const auto file = std::find_if(std::begin(kFiles), std::end(kFiles),
                                 [&](const File& f) { return f.name == name; });
  if (file == std::end(kFiles))
    throw Error(ErrorKind::internal, "device text", std::string(name), "no such file");
  return std::string(file->text);
}

/// The file of that name in the folder that CODA_DEVICE_TEXT names, or the embedded one.
std::string text_of(std::string_view name) {
  const char* folder = std::getenv("CODA_DEVICE_TEXT");
  if (folder == nullptr || *folder == '\0') return embedded(name);
  const std::string path = std::string(folder) + "/" + std::string(name);
  std::string text;
  if (const int status = read_file(path, text); status != 0)
    throw Error(ErrorKind::io, "CODA_DEVICE_TEXT", "a readable file '" + path + "'",
                std::generic_category().message(status),
                "name a copy of src/cuda, or unset the variable");
  return text;
}

void append_file(std::string& source, std::string_view name) {
  const std::string text = text_of(name);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view line = rest.substr(0, end);
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) source += line;
    rest.remove_prefix(end);
  }
}

}  // namespace

std::string assemble_source(DeviceText needed, const std::string& generated) {
  std::string source;
  for (const std::string_view name : kScalar) append_file(source, name);
  if (needed != DeviceText::standalone)
    for (const std::string_view name : kMainloop) append_file(source, name);
  if (needed != DeviceText::mainloop)
    for (const std::string_view name : kStandalone) append_file(source, name);
  source += "\nnamespace coda::device {\n\n" + operations_text() + "\n" + generated +
            "}  // namespace coda::device\n";
  return source;
}

}  // namespace coda::cuda
