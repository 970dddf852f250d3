// SPDX-License-Identifier: Apache-2.0
// CUDA text to machine code, through the cache on disk. A kernel that ptxas could only build with
// spills, a stack frame, serialised wgmma or an ignored setmaxnreg is refused, and the refusal
// comes from the cache as well.
#pragma once

#include <coda/error.h>

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda/runtime/cache.h"
#include "cuda/runtime/ptxas.h"

namespace coda::cuda {

struct Source {
  std::string name;  // for files and messages: letters, digits, '_', '-' and '.'
  std::string text;  // all of it: NVRTC is given no headers
};

struct CompilerOptions {
  std::string architecture = "sm_90a";
  bool line_info = false;  // for profilers
  // Accept spills and stack frames: a kernel without a mainloop is right with them, only slower.
  bool local_memory = false;
  int workers = 0;         // processes of compile_sources at a time; 0: one a core
  Cache* cache = nullptr;  // null: default_cache()
};

struct Cubin {
  std::string image;
  std::vector<KernelResources> kernels;
  bool from_cache = false;
};

/// Error{unsupported} without NVRTC, or for a kernel that is refused; Error{internal} for a text
/// that does not compile. Both name the file where the source is kept.
Cubin compile_source(const Source& source, const CompilerOptions& options = {});

/// The same for several, side by side in worker processes. An error concerns its source alone;
/// only a missing NVRTC is thrown.
using CompileResult = std::variant<Cubin, Error>;
std::vector<CompileResult> compile_sources(std::span<const Source> sources,
                                           const CompilerOptions& options = {});

/// The flags that NVRTC is given.
std::vector<std::string> compiler_flags(const CompilerOptions& options);

/// Names the outcome of compiling `source`: everything that the outcome depends on goes in.
Digest cache_key(const Source& source, const CompilerOptions& options,
                 std::string_view compiler_identity);

}  // namespace coda::cuda
