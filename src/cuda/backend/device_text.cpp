// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/device_text.h"

#include <coda/error.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <system_error>

#include "cuda/codegen/op_text.h"
#include "cuda/runtime/file.h"

namespace coda::cuda {
namespace {

struct File {
  std::string_view name, text;
};

constexpr File kFiles[] = {
#include "device_files.inc"
};

// Each file stands after those that it includes.
constexpr std::string_view kAll[] = {"plan",   "barrier",  "cluster",  "tma",       "wgmma",
                                     "matrix", "schedule", "mainloop", "ports",     "math",
                                     "reduce", "epilogue", "kernel",   "split_sum", "pointwise"};
constexpr std::string_view kPointwise[] = {"plan", "barrier", "matrix", "math", "pointwise"};

std::string embedded(std::string_view name) {
  const auto file = std::find_if(std::begin(kFiles), std::end(kFiles), [&](const File& f) {
    return f.name.substr(0, f.name.find('.')) == name;
  });
  if (file == std::end(kFiles))
    throw Error(ErrorKind::internal, "device text", std::string(name) + ".cuh", "no such file");
  return std::string(file->text);
}

/// The file of that name in the folder that CODA_DEVICE_TEXT names, or the embedded one.
std::string text_of(std::string_view name) {
  const char* folder = std::getenv("CODA_DEVICE_TEXT");
  if (folder == nullptr || *folder == '\0') return embedded(name);
  const std::string path = std::string(folder) + "/" + std::string(name) + ".cuh";
  std::string text;
  if (const int status = read_file(path, text); status != 0)
    throw Error(ErrorKind::io, "CODA_DEVICE_TEXT", "a readable file '" + path + "'",
                std::generic_category().message(status),
                "name a folder with all files of src/cuda/device, or unset the variable");
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
  const std::span<const std::string_view> names =
      needed == DeviceText::all ? std::span<const std::string_view>(kAll)
                                : std::span<const std::string_view>(kPointwise);
  std::string source;
  for (const std::string_view name : names) append_file(source, name);
  source += "\nnamespace coda::device {\n\n" + operations_text() + "\n" + generated +
            "}  // namespace coda::device\n";
  return source;
}

}  // namespace coda::cuda
