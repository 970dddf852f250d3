// SPDX-License-Identifier: Apache-2.0
// The text of a .coda file to verified programs (docs/language.md).
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"

namespace coda::language {

/// The programs of `text` in order. `filename` is for messages. Throws Error{syntax} where the text
/// does not follow the grammar, Error{program} where it is not a valid program; both with line and
/// column.
std::vector<ir::Program> parse_file(std::string_view text, std::string_view filename);

/// The programs of the file at `path`. Throws also Error{io} when it cannot be read.
std::vector<ir::Program> load_file(std::string_view path);

}  // namespace coda::language
