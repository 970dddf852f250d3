// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes are a safetensors file, of which every tensor's bytes can be read, or are refused
// with coda::Error.
#include <coda/error.h>

#include <cstdlib>

#include "train/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const coda::train::Header header =
        coda::train::read_header("fuzz", std::as_bytes(std::span(data, size)));
    unsigned sum = 0;
    for (const coda::train::StoredTensor& tensor : header.tensors) {
      if (static_cast<size_t>(tensor.elements()) * size_of(tensor.type) != tensor.bytes.size())
        std::abort();
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    }
    static volatile unsigned sink;
    sink = sum;
  } catch (const coda::Error& error) {
    if (error.kind() == coda::ErrorKind::internal) std::abort();
  }
  return 0;
}
