// SPDX-License-Identifier: Apache-2.0
// The commands of the tool, one file each. Each function adds its command to `app`.
#pragma once

#include "shell.h"

namespace coda::tool {

void add_check(CLI::App& app, Shell& shell);
void add_grad(CLI::App& app, Shell& shell);
void add_explain(CLI::App& app, Shell& shell);
void add_bench(CLI::App& app, Shell& shell);
void add_tune(CLI::App& app, Shell& shell);
void add_compile(CLI::App& app, Shell& shell);
void add_train(CLI::App& app, Shell& shell);
void add_generate(CLI::App& app, Shell& shell);
void add_doctor(CLI::App& app, Shell& shell);

}  // namespace coda::tool
