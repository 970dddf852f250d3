// SPDX-License-Identifier: Apache-2.0
// Arbitrary text is the config.json of a model, which comes back from its written form as the same
// model, or is refused with coda::Error.
#include <coda/error.h>

#include <cstdio>
#include <cstdlib>

#include "nn/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const coda::nn::ModelConfig config =
        coda::nn::parse_config({reinterpret_cast<const char*>(data), size});
    const std::string text = coda::nn::write_config(config);
    const std::string again = coda::nn::write_config(coda::nn::parse_config(text));
    if (text != again) {
      std::fprintf(stderr, "%s\n--- again\n%s\n", text.c_str(), again.c_str());
      std::abort();
    }
  } catch (const coda::Error& error) {
    if (error.kind() == coda::ErrorKind::internal) std::abort();
  }
  return 0;
}
