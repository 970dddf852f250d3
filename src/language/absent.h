// SPDX-License-Identifier: Apache-2.0
// What to write in place of well-known names that the language does not have.
#pragma once

#include <string_view>

namespace coda::language {

/// The fix in the message about `name`; empty where nothing is known of it.
std::string_view absent_fix(std::string_view name);

}  // namespace coda::language
