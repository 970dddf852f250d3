// SPDX-License-Identifier: Apache-2.0
// One run of NVRTC: text in, cubin and log out. NVRTC runs one translation at a time in a process.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cuda/runtime/library.h"

namespace coda::cuda {

struct Translation {
  bool compiled = false;  // false: the log says why
  std::string log;        // of compiler and ptxas
  std::string image;      // the cubin
  std::string ptx;        // where asked for
};

/// `name` stands for the file in messages and line information.
Translation translate(const Nvrtc& nvrtc, const std::string& name, const std::string& text,
                      std::span<const std::string> flags, bool with_ptx = false);

/// For files: everything but the PTX.
std::string encode(const Translation& translation);
std::optional<Translation> decode_translation(std::string_view bytes);

}  // namespace coda::cuda
