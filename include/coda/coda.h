// SPDX-License-Identifier: Apache-2.0
// The whole public interface.
#pragma once

#include <coda/error.h>    // IWYU pragma: export
#include <coda/kernel.h>   // IWYU pragma: export
#include <coda/log.h>      // IWYU pragma: export
#include <coda/program.h>  // IWYU pragma: export
#include <coda/version.h>  // IWYU pragma: export
