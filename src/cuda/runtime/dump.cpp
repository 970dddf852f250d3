// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/dump.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "cuda/runtime/file.h"
#include "cuda/runtime/process.h"

namespace coda::cuda {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// 0, or an errno.
int write_into(const std::string& folder, const std::string& file, std::string_view bytes) {
  const int error = make_folder(folder);
  return error != 0 ? error : write_file(folder + "/" + file, bytes);
}

}  // namespace

DumpSettings dump_settings() {
  DumpSettings settings;
  settings.folder = environment("CODA_DUMP_DIR");
  if (settings.folder.empty()) settings.folder = "coda_dump";
  const std::string list = environment("CODA_DUMP");
  for (std::string_view rest = list; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "cuda")
      settings.cuda = true;
    else if (word == "ptx")
      settings.ptx = true;
    else if (word == "sass")
      settings.sass = true;
    else
      log(LogLevel::warning, "CODA_DUMP: expected cuda, ptx or sass, got " + std::string(word));
  }
  return settings;
}

void dump(const DumpSettings& settings, const std::string& name, const std::string& extension,
          std::string_view bytes) {
  const std::string file = name + "." + extension;
  if (const int error = write_into(settings.folder, file, bytes); error != 0)
    log(LogLevel::warning,
        "CODA_DUMP: " + settings.folder + "/" + file + ": " + std::strerror(error));
}

void dump_sass(const DumpSettings& settings, const std::string& name, std::string_view image) {
  dump(settings, name, "cubin", image);
  const std::string stem = settings.folder + "/" + name;
  const ProcessEnd end = run_process({"cuobjdump", "-sass", stem + ".cubin"}, stem + ".sass");
  if (end.exit_code != 0)
    log(LogLevel::warning, "CODA_DUMP: sass needs cuobjdump on PATH; " + stem + ".cubin is there");
}

std::string keep_refused(Cache& cache, const std::string& name, std::string_view text,
                         std::string_view log) {
  std::string bytes(text);
  bytes += "\n/*\n";
  bytes += log;
  bytes += "\n*/\n";
  const std::string unique = name + "-" + hex(sha256(text)).substr(0, 16), file = unique + ".cu";
  if (const std::string folder = environment("CODA_DUMP_DIR");
      !folder.empty() && write_into(folder, file, bytes) == 0)
    return folder + "/" + file;
  if (std::string path = cache.keep_source(unique, bytes); !path.empty()) return path;
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error).string();
  if (!error && write_file(folder + "/coda-" + file, bytes) == 0) return folder + "/coda-" + file;
  return {};
}

}  // namespace coda::cuda
