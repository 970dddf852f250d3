// SPDX-License-Identifier: Apache-2.0
#include "language/library.h"

#include <algorithm>
#include <iterator>

namespace coda::language {
namespace {

constexpr LibraryFile kFiles[] = {
#include "library_files.inc"
};

}  // namespace

std::span<const LibraryFile> library_files() { return kFiles; }

const LibraryFile& prelude_file() {
  return *std::find_if(std::begin(kFiles), std::end(kFiles),
                       [](const LibraryFile& file) { return file.name == "prelude.coda"; });
}

}  // namespace coda::language
