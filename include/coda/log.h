// SPDX-License-Identifier: Apache-2.0
// Where messages go. The library prints nothing by itself except, by default, warnings and errors
// to stderr. The environment variable CODA_LOG (debug, info, warning, error, off) chooses the least
// level that is passed on, to stderr and to a callback alike; it is read once.
#pragma once

#include <coda/export.h>

namespace coda {

enum class LogLevel : int { debug, info, warning, error, off };

/// `level` is a LogLevel; `message` is one line without a newline, valid during the call alone.
using LogCallback = void (*)(int level, const char* message, void* user);

/// Sends messages to `callback`, which may be called from any thread, instead of stderr; null
/// restores stderr. `user` is handed through.
CODA_API void set_log_callback(LogCallback callback, void* user);

}  // namespace coda
