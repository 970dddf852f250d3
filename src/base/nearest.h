// SPDX-License-Identifier: Apache-2.0
// The suggestion in messages about unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace coda {

/// The known name that begins as `name` does and that few typing errors turn into it (one in four
/// letters); empty where none is close.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

/// "did you mean 'weight'?" where a known name is close to `name`, otherwise "the names are a, b,
/// c".
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

}  // namespace coda
