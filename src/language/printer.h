// SPDX-License-Identifier: Apache-2.0
// Programs to text. parse_file(print(p)) gives the same program, and printing that gives the same
// text.
//
// Named nodes, nodes used more than once, halves of split and moments, and parts of long
// expressions become statements; every other node is written where it is used. Names that are no
// words of the language, reserved or taken are changed, those of inputs, outputs and sizes last.
// Nodes that neither have a name nor reach an output are left out.
#pragma once

#include <string>

#include "ir/program.h"

namespace coda::language {

/// A whole file: the version line and the program.
std::string print(const ir::Program& program);

/// The program alone, for files of several.
std::string print_program(const ir::Program& program);

}  // namespace coda::language
