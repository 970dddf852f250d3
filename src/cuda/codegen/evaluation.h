// SPDX-License-Identifier: Apache-2.0
// Straight-line CUDA text that evaluates values of a program at one row and one column.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "call/call.h"

namespace coda::cuda {

/// Sizes as CUDA expressions: N and M are members of the arguments `p`, size parameters are known.
struct Sizes {
  const Instance& instance;

  std::string operator()(const ir::Size& size) const;
  std::string count(const ir::Columns& columns) const;
};

/// Writes the evaluation of nodes at one place: statements in order, each node once per column it
/// is needed at. Every value is a function of (row, column); split, join and swap only change the
/// column.
class Evaluation {
 public:
  /// reduced(id, column) is the expression of a finished reduction at `row` and that column.
  using Reduced = std::function<std::string(ir::ValueId, const std::string&)>;

  Evaluation(const ir::Program& program, const Instance& instance, const Reduced& reduced)
      : program_(program), instance_(instance), sizes_{instance}, reduced_(reduced) {}

  /// A column variable that already exists in the text.
  int place(const ir::Columns& columns, const std::string& variable);

  /// The variable that holds `id` at a place (-1: a value without columns).
  std::string value(ir::ValueId id, int at);

  std::string take() { return std::move(text_); }

 private:
  struct Place {
    ir::Columns columns;
    std::string variable;
    int from;          // the place it was derived from; -1: given
    std::string text;  // by which expression
  };

  void line(const std::string& text) { text_ += "    " + text + "\n"; }
  int derived(int from, const ir::Columns& columns, const std::string& text);
  int narrowed(int at, const ir::Columns& columns);
  std::string column(int at) const { return at < 0 ? "0" : places_[at].variable; }
  std::string memory(int input, ir::Number number, int at) const;
  std::string expression(ir::ValueId id, int at);

  const ir::Program& program_;
  const Instance& instance_;
  Sizes sizes_;
  const Reduced& reduced_;
  std::vector<Place> places_;
  std::map<std::pair<ir::ValueId, int>, std::string> values_;
  std::string text_;
};

}  // namespace coda::cuda
