// SPDX-License-Identifier: Apache-2.0
// CUDA's libraries are opened while the program runs, never linked: one binary serves machines with
// and without them. This is the one place that knows where they may lie.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace coda {

/// An open library; never closed, since code of it may be running until the process ends.
struct CudaLibrary {
  void* handle = nullptr;  // null: not found
  std::string path;        // of the file, where the system tells it

  explicit operator bool() const { return handle != nullptr; }

  /// The function called `name`, or null.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
};

/// Where to look, in this order.
struct CudaSearch {
  bool process = true;               // libraries that are loaded already: a framework's own
  std::vector<std::string> folders;  // each is tried with every name
  bool system = true;                // where the system's loader looks, then /usr/local/cuda*

  /// The folders of CODA_CUDA_PATH (colons between them), CUDA_HOME and CUDA_PATH, then those of
  /// nvidia-* wheels of the Python in use.
  static CudaSearch from_environment();
  /// For messages: "loaded libraries, /opt/cuda/lib64, the system's libraries".
  std::string text() const;
};

/// Opens the first of `names` ("libnvrtc.so.13", "libnvrtc.so.12") that is found.
CudaLibrary open_cuda_library(std::span<const char* const> names,
                              const CudaSearch& search = CudaSearch::from_environment());

}  // namespace coda
