// SPDX-License-Identifier: Apache-2.0
// Whole files, read and written in one step. A write shows either the old file or the new one,
// never a part, also after a crash and with several writers.
#pragma once

#include <string>
#include <string_view>

namespace coda::cuda {

/// 0, or the errno of what failed; `bytes` is then unspecified. EINVAL: not a regular file. `touch`
/// sets the time of last change to now, where that is allowed.
int read_file(const std::string& path, std::string& bytes, bool touch = false);

/// Names of files that are still being written start so; one that a crash left behind is rubbish.
inline constexpr std::string_view kTemporaryPrefix = ".coda-";

/// Writes a temporary file beside `path`, flushes it to the disk and renames it. 0, or the errno of
/// what failed; no temporary file stays behind.
int write_file(const std::string& path, std::string_view bytes);

/// Makes `folder` and those above it; the last one for this user alone. 0, or an errno.
int make_folder(const std::string& folder);

}  // namespace coda::cuda
