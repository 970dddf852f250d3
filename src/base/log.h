// SPDX-License-Identifier: Apache-2.0
// How the layers of the library say something. Nothing else in it prints.
#pragma once

#include <coda/log.h>

#include <string_view>

namespace coda {

/// Whether a message of this level is passed on: ask before building an expensive one.
bool log_enabled(LogLevel level) noexcept;

void log(LogLevel level, std::string_view message);

/// The level that CODA_LOG names; warning for no text and for any other.
LogLevel log_level_from(std::string_view text) noexcept;

}  // namespace coda
