// SPDX-License-Identifier: Apache-2.0
// The programs of library/, embedded at build time, so that an installed binary needs no data
// files.
#pragma once

#include <span>
#include <string_view>

namespace coda::language {

struct LibraryFile {
  std::string_view name;  // "norm.coda"
  std::string_view text;
};

/// Every file of library/, sorted by name, prelude.coda included.
std::span<const LibraryFile> library_files();

/// The fns that every program sees.
const LibraryFile& prelude_file();

}  // namespace coda::language
