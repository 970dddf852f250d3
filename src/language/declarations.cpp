// SPDX-License-Identifier: Apache-2.0
#include "language/declarations.h"

#include <algorithm>

#include "base/nearest.h"
#include "language/words.h"

namespace coda::language {
namespace {

using Kind = Token::Kind;

std::vector<std::string_view> type_names() {
  std::vector<std::string_view> names{"T"};
  for (DType type : all_dtypes) names.push_back(name_of(type));
  return names;
}

bool is_size(const Token& token, const ir::Program& program) {
  const auto first = program.symbols.begin() + ir::kFirstParameter;
  return token.kind == Kind::integer ||
         std::find(first, program.symbols.end(), token.text) != program.symbols.end();
}

/// What helps where columns are something else than a width.
std::string columns_fix(const Cursor& cursor, const ir::Program& program) {
  const std::string text(cursor.peek().text);
  if (text == "2" && cursor.is("*", 1)) return "write 2n";
  if (is_size(cursor.peek(), program))
    return "a table of " + text + " elements that repeats along the columns is [n % " + text + "]";
  if (cursor.is("m") || cursor.is("M")) return "rows come first: [m, n]";
  if (cursor.is("N")) return "write n";
  return "dims are m (rows) and n (columns); weights are not declared: product() binds them at the "
         "call";
}

ir::Columns parse_columns(Cursor& cursor, const ir::Program& program) {
  constexpr std::string_view kWidths = "a column width: n, n/2 or 2n";
  const ir::Size n = ir::symbol_size(ir::kSymbolN), two = ir::constant_size(2);
  ir::Columns columns{ir::Columns::Kind::all, n, ir::Size{}};
  if (cursor.is(Kind::integer) && cursor.peek().text == "2" && cursor.is("n", 1)) {
    cursor.take(), cursor.take();
    columns.width = n * two;
  } else if (cursor.accept("n")) {
    if (cursor.accept("/")) {
      if (!cursor.is(Kind::integer) || cursor.peek().text != "2")
        cursor.fail("2: a width is n, n/2 or 2n");
      cursor.take();
      columns.width = n / two;
    }
  } else {
    cursor.fail(kWidths, columns_fix(cursor, program));
  }
  if (cursor.accept(":"))
    columns.kind = ir::Columns::Kind::group;
  else if (cursor.accept("%"))
    columns.kind = ir::Columns::Kind::repeat;
  else
    return columns;
  columns.size = parse_size(cursor, program);
  return columns;
}

ir::Size parse_size_factor(Cursor& cursor, const ir::Program& program) {
  const Token& token = cursor.peek();
  if (token.kind == Kind::integer) {
    if (token.integer == 0 || token.integer > INT64_MAX) cursor.fail("a size from 1 to 2^63 - 1");
    return ir::constant_size(static_cast<int64_t>(cursor.take().integer));
  }
  if (token.kind != Kind::name) cursor.fail("a size: an integer or a size parameter");
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i) {
    if (program.symbols[i] != token.text) continue;
    cursor.take();
    return ir::symbol_size(static_cast<int>(i));
  }
  const std::vector<std::string_view> sizes(program.symbols.begin() + ir::kFirstParameter,
                                            program.symbols.end());
  cursor.fail("a size parameter or an integer",
              sizes.empty() ? "declare size parameters after the name of the program: <dh>"
                            : suggestion(token.text, sizes));
}

}  // namespace

Token parse_new_name(Cursor& cursor, std::string_view what) {
  const Token& token = cursor.peek();
  if (token.kind != Kind::name) cursor.fail(what);
  if (is_reserved(token.text))
    cursor.fail("a name that is not a reserved word", "choose another name");
  return cursor.take();
}

Declaration parse_declaration(Cursor& cursor, const ir::Program& program) {
  Declaration result{parse_new_name(cursor, "a name")};
  cursor.expect(":", "write the type after the name, as in x: T[m, n]");
  if (cursor.accept("acc")) {
    result.kind = ir::Input::Kind::accumulator;
    if (cursor.is("[")) cursor.fail("',' or ')': an accumulator is over [m, n] without saying so");
    return result;
  }
  result.type = parse_type(cursor);
  if (cursor.is("["))
    result.dims = parse_dims(cursor, program);
  else
    result.kind = ir::Input::Kind::scalar;
  return result;
}

Declaration parse_output(Cursor& cursor, const ir::Program& program) {
  const Declaration output = parse_declaration(cursor, program);
  if (output.kind == ir::Input::Kind::tensor) return output;
  const std::string name(output.name.text), type = to_string(output.type);
  const bool accumulator = output.kind == ir::Input::Kind::accumulator;
  throw Error(ErrorKind::program, cursor.where(output.name), "an output in memory",
              name + ": " + (accumulator ? "acc" : type),
              "write " + name + ": " + (accumulator ? "T[m, n]" : type + "[] for one number"));
}

ir::ElementType parse_type(Cursor& cursor) {
  const Token& token = cursor.peek();
  if (token.kind == Kind::name) {
    const auto dtype = dtype_from_name(token.text);
    if (dtype || token.text == "T") {
      cursor.take();
      return {!dtype, dtype.value_or(DType::f32)};
    }
  }
  cursor.fail("a storage type", suggestion(token.text, type_names()));
}

ir::Dims parse_dims(Cursor& cursor, const ir::Program& program) {
  cursor.expect("[");
  ir::Dims dims;
  if (cursor.accept("]")) return dims;
  if (cursor.accept("m")) {
    dims.rows = true;
    if (cursor.accept("]")) return dims;
    cursor.expect(",");
  } else if (!cursor.is("n") && !cursor.is(Kind::integer)) {
    cursor.fail("dimensions: m, then columns n, n/2 or 2n, or nothing",
                cursor.is("M") ? "write m" : columns_fix(cursor, program));
  }
  dims.columns = parse_columns(cursor, program);
  if (cursor.is(",")) {
    Cursor after = cursor;
    after.take();
    cursor.fail("']'", columns_fix(after, program));
  }
  cursor.expect("]");
  return dims;
}

ir::Size parse_size(Cursor& cursor, const ir::Program& program) {
  const Token first = cursor.peek();
  try {
    ir::Size size = parse_size_factor(cursor, program);
    while (cursor.is("*") || cursor.is("/")) {
      const bool times = cursor.take().text == "*";
      const ir::Size factor = parse_size_factor(cursor, program);
      size = times ? size * factor : size / factor;
    }
    if (size.is_constant() && size.denominator != 1)
      throw Error(ErrorKind::program, cursor.where(first), "a size that divides exactly",
                  to_string(size, program.symbols), "choose a size without remainder");
    return size;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::shape) throw;
    rethrow_at(cursor.where(first));
  }
}

}  // namespace coda::language
