// SPDX-License-Identifier: Apache-2.0
// What command lines say about programs: which one, and the values chosen for it.
#pragma once

#include <coda/program.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "call/call.h"

namespace coda::tool {

/// The programs that `name` stands for: a file (all of its programs), FILE:PROGRAM, or one program
/// of the library by its name. Throws Error{io} for a file that cannot be read, Error{argument} for
/// a name that is neither, and what parsing throws.
std::vector<Program> find_programs(const std::string& name);
std::vector<Program> find_programs(const std::vector<std::string>& names);

/// Every program of the library, in its files' order.
std::vector<Program> library_programs();

/// The flags that fix a program's type and sizes.
struct Choices {
  std::string type = "bf16";
  std::vector<std::string> sizes;  // "dh=64"
};
void add_choices(CLI::App& command, Choices& choices);

/// The values of --size, by name. Throws Error{argument} unless each reads NAME=NUMBER and is a
/// size of one of `programs`.
std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts,
                                           const std::vector<Program>& programs);

/// A program with its choices. Throws Error{argument} where a size of the program was not given.
Instance instantiate(const Program& program, const Choices& choices,
                     const std::map<std::string, int64_t>& sizes);

}  // namespace coda::tool
