// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, checked in full against the size of the file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/safetensors.h"

namespace coda::train {

struct Header {
  std::vector<StoredTensor> tensors;  // sorted by name; their bytes lie in the file
  std::map<std::string, std::string> metadata;
};

/// `path` is for messages.
Header read_header(const std::string& path, std::span<const std::byte> file);

}  // namespace coda::train
