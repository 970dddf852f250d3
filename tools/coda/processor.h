// SPDX-License-Identifier: Apache-2.0
// How fast the processor at hand is, by two short measurements: a matrix product as coda runs it,
// and a copy of more memory than caches hold.
#pragma once

#include <coda/dtype.h>

#include "rewrite/roofline.h"

namespace coda::tool {

/// The machine "cpu" with all its cores, for products of T = `type`; about a third of a second.
rewrite::Machine measure_processor(DType type);

}  // namespace coda::tool
