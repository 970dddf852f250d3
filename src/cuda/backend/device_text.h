// SPDX-License-Identifier: Apache-2.0
// The device text, embedded when coda is built: what generated kernels are compiled after.
#pragma once

#include <string>

namespace coda::cuda {

/// What the generated kernels stand on: everything, or what stand-alone kernels use.
enum class DeviceText : unsigned char { all, pointwise };

/// One CUDA source that includes nothing: device text, operation table, `generated`. Where the
/// environment has CODA_DEVICE_TEXT, the device text is read from that folder in place of the
/// embedded one; Error{io} names what cannot be read.
std::string assemble_source(DeviceText needed, const std::string& generated);

}  // namespace coda::cuda
