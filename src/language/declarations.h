// SPDX-License-Identifier: Apache-2.0
// The small grammars inside a program that ProgramBuilder takes as text as well: declarations,
// types, dimensions and sizes. Size names are the size parameters of `program`. All throw Error
// with a position.
#pragma once

#include "ir/program.h"
#include "language/cursor.h"

namespace coda::language {

struct Declaration {
  Token name;
  ir::Input::Kind kind = ir::Input::Kind::tensor;
  ir::ElementType type;
  ir::Dims dims;
};

/// NAME ":" ( "acc" | DTYPE ["[" dims "]"] )
Declaration parse_declaration(Cursor& cursor, const ir::Program& program);

/// The declaration of an output: the same, in memory.
Declaration parse_output(Cursor& cursor, const ir::Program& program);

/// "T" or the name of a storage type.
ir::ElementType parse_type(Cursor& cursor);

/// "[" dims "]"
ir::Dims parse_dims(Cursor& cursor, const ir::Program& program);

/// (INT | NAME) { ("*" | "/") (INT | NAME) }; above 0 and, if constant, an integer.
ir::Size parse_size(Cursor& cursor, const ir::Program& program);

/// A name that is not reserved.
Token parse_new_name(Cursor& cursor, std::string_view what);

}  // namespace coda::language
