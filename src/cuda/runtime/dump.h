// SPDX-License-Identifier: Apache-2.0
// Generated text and code as files for people: on request by CODA_DUMP (cuda, ptx, sass with commas
// between) in the folder CODA_DUMP_DIR (default coda_dump), and always for a kernel that was
// refused.
#pragma once

#include <string>
#include <string_view>

#include "cuda/runtime/cache.h"

namespace coda::cuda {

struct DumpSettings {
  bool cuda = false, ptx = false, sass = false;
  std::string folder;
  bool any() const { return cuda || ptx || sass; }
};

DumpSettings dump_settings();

/// Writes FOLDER/NAME.EXTENSION; a warning where that fails.
void dump(const DumpSettings& settings, const std::string& name, const std::string& extension,
          std::string_view bytes);

/// Writes FOLDER/NAME.cubin and its listing by cuobjdump, where that is on PATH, NAME.sass.
void dump_sass(const DumpSettings& settings, const std::string& name, std::string_view image);

/// Keeps the source of a refused kernel in CODA_DUMP_DIR, else in the cache, else in the folder for
/// temporary files; the log stands at its end. Returns its path, or "".
std::string keep_refused(Cache& cache, const std::string& name, std::string_view text,
                         std::string_view log);

}  // namespace coda::cuda
