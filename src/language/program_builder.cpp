// SPDX-License-Identifier: Apache-2.0
// The public ProgramBuilder: ir::Builder with declarations in the words of the language.
#include <coda/error.h>
#include <coda/program.h>

#include <set>
#include <string>

#include "ir/builder.h"
#include "language/cursor.h"
#include "language/declarations.h"
#include "language/words.h"

namespace coda {

using language::Cursor;
using language::Token;

struct ProgramBuilder::State {
  explicit State(std::string_view name) : ir(name) {}
  ir::Builder ir;
  std::set<std::string, std::less<>> names;

  /// Runs `read` on all of `text`.
  template <class Read>
  auto parse(std::string_view text, const Read& read) {
    const language::Source source = language::tokenize(text, "'" + std::string(text) + "'");
    Cursor cursor(source);
    auto result = read(cursor);
    if (!cursor.is(Token::Kind::end)) cursor.fail("nothing more");
    return result;
  }

  ir::Size size(std::string_view text) {
    return parse(text, [&](Cursor& cursor) { return parse_size(cursor, ir.program()); });
  }

  std::string new_name(std::string_view name) {
    if (!language::is_name(name) || language::is_reserved(name))
      throw Error(ErrorKind::program, where(), "a name that is not a reserved word",
                  "'" + std::string(name) + "'", "use letters, digits and _");
    if (!names.emplace(name).second)
      throw Error(ErrorKind::program, where(), "a name that is new", "'" + std::string(name) + "'",
                  "each name is set once: choose another");
    return std::string(name);
  }

  std::string where() const { return "program '" + ir.program().name + "'"; }
};

ProgramBuilder::ProgramBuilder(std::string_view name) : state_(std::make_unique<State>(name)) {
  state_->new_name(name);
  state_->names.clear();
}
ProgramBuilder::~ProgramBuilder() = default;
ProgramBuilder::ProgramBuilder(ProgramBuilder&&) noexcept = default;

Value ProgramBuilder::size(std::string_view name) {
  return state_->ir.node(ir::SizeParameter{state_->ir.size_parameter(state_->new_name(name))});
}

Value ProgramBuilder::input(std::string_view declaration) {
  return state_->parse(declaration, [&](Cursor& cursor) {
    const auto input = parse_declaration(cursor, state_->ir.program());
    return state_->ir.input(
        {state_->new_name(input.name.text), input.kind, input.type, input.dims});
  });
}

Value ProgramBuilder::row_index() { return state_->ir.node(ir::Index{true}); }
Value ProgramBuilder::column_index() { return state_->ir.node(ir::Index{false}); }
Value ProgramBuilder::rows() { return state_->ir.node(ir::SizeParameter{ir::kSymbolM}); }
Value ProgramBuilder::columns() { return state_->ir.node(ir::SizeParameter{ir::kSymbolN}); }

Value ProgramBuilder::reduce(std::string_view reduction, Value x) {
  return state_->parse(reduction, [&](Cursor& cursor) {
    const auto op = language::reduction(cursor.peek().text);
    if (!op || *op == ir::ReduceOp::moments_mean)
      cursor.fail("sum, max, min, mean, logsumexp or argmax", "moments() gives mean and variance");
    cursor.take();
    return state_->ir.reduce(*op, parse_dims(cursor, state_->ir.program()), x);
  });
}

ProgramBuilder::Pair ProgramBuilder::moments(std::string_view kept, Value x) {
  const ir::Dims dims =
      state_->parse(kept, [&](Cursor& cursor) { return parse_dims(cursor, state_->ir.program()); });
  const Value mean = state_->ir.reduce(ir::ReduceOp::moments_mean, dims, x);
  return {mean, state_->ir.reduce(ir::ReduceOp::moments_var, dims, x)};
}

ProgramBuilder::Pair ProgramBuilder::split(Value x, std::string_view half) {
  const ir::Size size = state_->size(half);
  const ir::ValueId arg = state_->ir.id(x);
  const Value first = state_->ir.node(ir::Split{arg, size, 0});
  return {first, state_->ir.node(ir::Split{arg, size, 1})};
}

Value ProgramBuilder::join(Value a, Value b, std::string_view half) {
  const ir::ValueId first = state_->ir.id(a);
  return state_->ir.node(ir::Join{first, state_->ir.id(b), state_->size(half)});
}

Value ProgramBuilder::swap(Value x, std::string_view half, std::string_view group) {
  return state_->ir.node(ir::Swap{state_->ir.id(x), state_->size(half), state_->size(group)});
}

Value ProgramBuilder::round(Value x, std::string_view type) {
  return state_->parse(type, [&](Cursor& cursor) {
    return state_->ir.node(ir::Round{state_->ir.id(x), language::parse_type(cursor)});
  });
}

void ProgramBuilder::name(Value x, std::string_view name) {
  state_->ir.name(x, state_->new_name(name));
}

void ProgramBuilder::output(std::string_view declaration, Value x) {
  state_->parse(declaration, [&](Cursor& cursor) {
    const auto output = parse_output(cursor, state_->ir.program());
    state_->ir.output(
        {state_->new_name(output.name.text), output.type, output.dims, state_->ir.id(x)});
    return 0;
  });
}

Program ProgramBuilder::build() {
  return Program(std::make_shared<const ir::Program>(state_->ir.finish()));
}

}  // namespace coda
