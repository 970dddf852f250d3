// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call/backend.h"

namespace coda {

std::shared_ptr<const Executable> compile_for_cpu(const Instance& instance,
                                                  const CompileOptions& options);

}  // namespace coda
