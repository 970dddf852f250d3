// SPDX-License-Identifier: Apache-2.0
// The device text, embedded when coda is built: what generated kernels are compiled after.
#pragma once

#include <string>

namespace coda::cuda {

/// What the generated kernels stand on: the Hopper mainloop, the text of stand-alone kernels, or
/// both.
enum class DeviceText : unsigned char { mainloop, standalone, both };

/// One CUDA source that includes nothing: device text, operation table, `generated`. Where the
/// environment has CODA_DEVICE_TEXT, the device text is read from that folder, a copy of src/cuda,
/// in place of the embedded one; Error{io} names what cannot be read.
std::string assemble_source(DeviceText needed, const std::string& generated);

}  // namespace coda::cuda
