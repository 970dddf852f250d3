// SPDX-License-Identifier: Apache-2.0
// Configurations and ports as CUDA text: the initialisers that a generated program type has.
#pragma once

#include <string>

#include "cuda/plan/config.h"

namespace coda::device {

/// The names of enumerators, without the type's.
const char* text_of(Width width);
const char* text_of(Type type);

/// "{.kind = Kind::tile_in, ...}" with every field.
std::string port_text(const Port& port);

/// "{.mode = Mode::pingpong, ...}" with every field.
std::string config_text(const Config& config);

}  // namespace coda::device
