// SPDX-License-Identifier: Apache-2.0
// The IR: plain nodes with integer ids, immutable once built.
//
// A program is a list of nodes in evaluation order (operands come before users). Each node has one
// value; `info` holds what infer() derives about it: which dimensions it has, its number class and
// its stage. Nodes that yield two values in the text (split, moments) are two nodes here.
//
// A graph is the same with whole matrices for tiles: widths are constants, every value is complete,
// and nodes of ir/whole.h (products with weights, attention, ...) may stand in it. A program is a
// cut of such a graph.
#pragma once

#include <coda/dtype.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "ir/size.h"
#include "ir/whole.h"

namespace coda::ir {

/// A storage type; `generic` is the type parameter T, chosen at the call.
struct ElementType {
  bool generic = false;
  DType dtype = DType::f32;
  bool operator==(const ElementType&) const = default;
};

/// The column extent of a value. `width` is n/2, n or 2n (in symbols: N/2, N, 2N).
struct Columns {
  enum class Kind : unsigned char {
    none,    // one value for all columns
    all,     // one per column
    group,   // one per `size` neighbouring columns: column j has value j / size
    repeat,  // `size` values that repeat: column j has value j % size
  };
  Kind kind = Kind::none;
  Size width;
  Size size;
  bool operator==(const Columns&) const = default;
};

/// What a value varies over: rows or not, and columns.
struct Dims {
  bool rows = false;
  Columns columns;
  bool operator==(const Dims&) const = default;
  bool is_scalar() const { return !rows && columns.kind == Columns::Kind::none; }
  /// Whether it varies over the elements of the tile itself (or over groups inside it).
  bool is_tile() const {
    return rows && (columns.kind == Columns::Kind::all || columns.kind == Columns::Kind::group);
  }
};

enum class Number : unsigned char { real, integer, mask };

/// A value is known while the tile is on chip, or complete only after every tile was seen.
enum class Stage : unsigned char { tile, complete };

struct ValueInfo {
  Dims dims;
  Number number = Number::real;
  Stage stage = Stage::tile;
  /// In graphs: of a parameter's matrix [rows, columns] or its gradient; 0: it varies over tokens.
  int64_t weight_rows = 0;
  bool operator==(const ValueInfo&) const = default;
};

struct RealConstant {
  double value;
};
struct IntegerConstant {
  int64_t value;
};
struct SizeParameter {
  int symbol;
};  // M, N or a size parameter, as an integer
struct Index {
  bool row;
  Size width = symbol_size(kSymbolN);
};  // row index m, or column index n of a full-width value; graphs have other widths
struct InputValue {
  int input;
};  // a load, a scalar or an accumulator
struct Elementwise {
  Op op;
  std::array<ValueId, 3> args;
};
struct Round {
  ValueId arg;
  ElementType type;
};
struct Split {
  ValueId arg;
  Size half;
  int part;
};  // columns j (part 0) or j+half (part 1) of each 2*half
struct Join {
  ValueId a, b;
  Size half;
};
struct Swap {
  ValueId arg;
  Size half, group;
};
struct Reduce {
  ReduceOp op;
  Dims kept;
  ValueId arg;
};

using Node = std::variant<RealConstant, IntegerConstant, SizeParameter, Index, InputValue,
                          Elementwise, Round, Split, Join, Swap, Reduce, Whole>;

struct Input {
  enum class Kind : unsigned char { accumulator, tensor, scalar, weight };
  std::string name;
  Kind kind;
  ElementType type;
  Dims dims;                // of a weight: columns alone
  int64_t weight_rows = 0;  // a weight's first dimension
};

struct Output {
  std::string name;
  ElementType type;
  Dims dims;
  ValueId value;
};

struct Program {
  std::string name;
  bool graph = false;  // whole matrices for tiles
  std::vector<std::string> symbols{"n",
                                   "M"};  // names of symbols; parameters from kFirstParameter on
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<ValueInfo> info;
  std::vector<std::string> names;  // of each node; empty where the text gives none
  std::vector<Output> outputs;
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

/// The operands of a node, in order.
std::vector<ValueId> operands(const Node& node);

/// The same node with operand i replaced by map(operand i).
template <class Map>
Node with_operands(Node node, const Map& map) {
  std::visit(
      Overloaded{[](auto&) {},
                 [&](Elementwise& n) {
                   for (int i = 0; i < info(n.op).arity; ++i) n.args[i] = map(n.args[i]);
                 },
                 [&](Round& n) { n.arg = map(n.arg); }, [&](Split& n) { n.arg = map(n.arg); },
                 [&](Join& n) { n.a = map(n.a), n.b = map(n.b); },
                 [&](Swap& n) { n.arg = map(n.arg); }, [&](Reduce& n) { n.arg = map(n.arg); },
                 [&](Whole& n) {
                   for (ValueId& arg : n.args) arg = map(arg);
                 }},
      node);
  return node;
}

/// Derives the dimensions, number class and stage of `node` from those of its operands.
/// Throws Error{program} when the node is not valid or not tile-local; the error names the rule.
ValueInfo infer(const Program& program, const Node& node);

/// The same for nodes of ir/whole.h: infer() calls it in a graph.
ValueInfo infer_whole(const Program& program, const Whole& node);

/// Checks attention whose arguments are still queries, keys and values apart: each width by its
/// heads, and the options.
void check_attention(const Program& program, const Whole& node);

/// Throws unless values of the input's type can be loaded.
void check_input(const Input& input);

/// Throws unless `output` can hold the value it names.
void check_output(const Program& program, const Output& output);

/// Checks a whole program: order of nodes, stored info, names, inputs and outputs. Called after
/// every pass.
void verify(const Program& program);

/// "[m, n/2]", "[m, n:dh]", "[]"; the text of the language.
std::string to_string(const Dims& dims, const Program& program);
std::string to_string(const ElementType& type);

/// One line a node, "%3 = mul %1 %2 : real [m, n]"; for --dump-passes and the messages of tests.
std::string dump(const Program& program);

}  // namespace coda::ir
