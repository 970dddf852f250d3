// SPDX-License-Identifier: Apache-2.0
#include "rewrite/places.h"

#include <coda/error.h>

#include <algorithm>

namespace coda::rewrite {

using ir::Columns;
using ir::Dims;
using ir::ValueId;

namespace {

int64_t column_count(const Dims& dims) {
  const Columns& columns = dims.columns;
  switch (columns.kind) {
    case Columns::Kind::none:
      return 1;
    case Columns::Kind::all:
      return columns.width.numerator;
    case Columns::Kind::group:
      return columns.width.numerator / columns.size.numerator;
    case Columns::Kind::repeat:
      return columns.size.numerator;
  }
  return 1;
}

}  // namespace

Places::Places(const ir::Program& graph, const Regions& regions, Plan& plan)
    : graph_(graph), regions_(regions), plan_(plan), where_(graph.nodes.size()) {
  for (const ir::Input& input : graph.inputs) add_input(input);
  for (const ir::Output& output : graph.outputs) add_output(output);
  for (auto& [base, parts] : slices_)
    if (where_[base].empty()) place_slices(base, parts);
  for (ValueId v : ir::live_nodes(graph_))
    if (ir::whole<ir::Concat>(node(v)) && info(v).dims.rows) place_concat(v);
}

int Places::add_buffer(Buffer buffer) {
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<int>(plan_.buffers.size()) - 1;
}

Ref Places::spare(int64_t columns, ir::ElementType type, bool per_token) {
  Buffer buffer;
  buffer.name = "unused";
  buffer.per_token = per_token;
  buffer.columns = columns;
  buffer.type = type;
  return {add_buffer(buffer), 0, columns};
}

void Places::add_input(const ir::Input& input) {
  Buffer buffer{input.name, Buffer::Role::input};
  buffer.per_token = input.dims.rows;
  buffer.rows = input.weight_rows ? input.weight_rows : 1;
  buffer.columns = column_count(input.dims);
  buffer.type = input.type;
  inputs_.push_back(add_buffer(buffer));
}

ir::ElementType Places::type_of(ValueId v) const {
  const ir::ValueInfo& value = info(v);
  if (value.number == ir::Number::mask) return {false, DType::u8};
  if (value.number == ir::Number::integer) return {false, DType::i64};
  const auto* attention = ir::whole<ir::Attention>(node(v));
  const bool matrix = value.dims.rows && value.dims.columns.kind == Columns::Kind::all;
  if (attention && attention->part == 1) return {false, DType::f32};
  return {matrix, DType::f32};
}

Buffer Places::buffer_for(ValueId v) const {
  Buffer buffer;
  buffer.name = graph_.names[v].empty() ? "%" + std::to_string(v) : graph_.names[v];
  buffer.per_token = info(v).dims.rows;
  buffer.columns = column_count(info(v).dims);
  buffer.type = type_of(v);
  return buffer;
}

/// An output is the memory of the value it names; a vector whose slices are outputs lies in theirs.
void Places::add_output(const ir::Output& output) {
  const ir::ValueInfo& value = info(output.value);
  if (value.weight_rows != 0) {
    Buffer buffer{output.name,       Buffer::Role::output,     false,
                  value.weight_rows, column_count(value.dims), {false, DType::f32}};
    collect_gradients(output.value, add_buffer(buffer));
    return;
  }
  const ValueId v = ir::whole<ir::Period>(node(output.value)) ? ir::operands(node(output.value))[0]
                                                              : output.value;
  Buffer buffer = buffer_for(v);
  buffer.name = output.name;
  buffer.role = Buffer::Role::output;
  const auto* slice = ir::whole<ir::Slice>(node(v));
  const ValueId base = slice ? ir::operands(node(v))[0] : v;
  if (std::holds_alternative<ir::InputValue>(node(base)) || ir::whole<ir::Concat>(node(base)) ||
      (slice && info(v).dims.rows) || (!slice && !where_[base].empty() && !on_tile(base)))
    throw Error(ErrorKind::program, "output '" + output.name + "'",
                "a value of its own for each output", "another name of one that is there",
                "compute something from it, such as 1.0 * x");
  if (slice) buffer.columns = slice->width;
  const int index = add_buffer(buffer);
  slices_[base].push_back({slice ? slice->first : 0, index});
  if (!slice && !where_[base].empty())
    twins_[base].push_back({index, 0, plan_.buffers[index].columns});
  else if (!slice)
    where_[base] = {{index, 0, plan_.buffers[index].columns}};
}

/// The products and embeddings whose sum is one gradient.
void Places::collect_gradients(ValueId v, int buffer) {
  if (std::holds_alternative<ir::Elementwise>(node(v))) {
    for (ValueId id : ir::operands(node(v))) collect_gradients(id, buffer);
    return;
  }
  gradients_.push_back({v, buffer});
}

/// Whether a program computes v, which can then store it twice: gradients of two biases that are
/// added to one sum are one value, and two concatenations may share a part.
bool Places::on_tile(ValueId v) const {
  return regions_.home[v] >= 0 && !regions_.regions[regions_.home[v]].opaque;
}

/// The slices of a vector that are outputs, and the columns between them.
void Places::place_slices(ValueId base, std::vector<std::pair<int64_t, int>>& parts) {
  std::sort(parts.begin(), parts.end());
  int64_t at = 0;
  const auto fill = [&](int64_t until) {  // columns that no output wants
    if (at < until) where_[base].push_back(spare(until - at, {false, DType::f32}, false));
    at = std::max(at, until);
  };
  for (const auto& [first, index] : parts) {
    if (first < at)
      throw Error(ErrorKind::program, "output '" + plan_.buffers[index].name + "'",
                  "a value of its own for each output", "columns of another output",
                  "compute something from it, such as 1.0 * x");
    fill(first);
    where_[base].push_back({index, 0, plan_.buffers[index].columns});
    at += plan_.buffers[index].columns;
  }
  fill(column_count(info(base).dims));
}

/// The values of a concatenation of tiles lie in its buffer.
void Places::place_concat(ValueId v) {
  const int index = add_buffer(buffer_for(v));
  int64_t first = 0;
  for (ValueId part : ir::operands(node(v))) {
    const int64_t width = column_count(info(part).dims);
    const bool taken = !where_[part].empty();
    if (std::holds_alternative<ir::InputValue>(node(part)) || (taken && !on_tile(part)))
      throw Error(ErrorKind::unsupported, "concat", "values that programs compute",
                  "an input, or the result of attention or an embedding",
                  "compute something from it, such as 1.0 * x");
    if (taken)
      twins_[part].push_back({index, first, width});
    else
      where_[part] = {{index, first, width}};
    first += width;
  }
  where_[v] = {{index, 0, first}};
}

std::vector<Ref> Places::of(ValueId v) {
  if (const auto* input = std::get_if<ir::InputValue>(&node(v))) {
    const int index = inputs_[input->input];
    return {{index, 0, plan_.buffers[index].columns}};
  }
  if (const auto* slice = ir::whole<ir::Slice>(node(v))) {
    std::vector<Ref> base = of(ir::operands(node(v))[0]);
    return {{base[0].buffer, base[0].first + slice->first, slice->width}};
  }
  if (ir::whole<ir::Concat>(node(v)) && !info(v).dims.rows) {
    std::vector<Ref> all;
    for (ValueId part : ir::operands(node(v)))
      for (const Ref& ref : of(part)) all.push_back(ref);
    return all;
  }
  if (ir::whole<ir::Repeat>(node(v)) || ir::whole<ir::Period>(node(v)))
    return of(ir::operands(node(v))[0]);
  if (where_[v].empty()) {
    const int index = add_buffer(buffer_for(v));
    where_[v] = {{index, 0, plan_.buffers[index].columns}};
  }
  return where_[v];
}

std::vector<Ref> Places::twins(ValueId v) const {
  const auto found = twins_.find(v);
  return found == twins_.end() ? std::vector<Ref>{} : found->second;
}

void Places::note_block_ends(ValueId backward) {
  for (ValueId v = 0; v < backward; ++v) {
    if (!ends_block(graph_, v) || where_[v].size() != 1) continue;
    Buffer& buffer = plan_.buffers[where_[v][0].buffer];
    buffer.ends_block = where_[v][0].columns == buffer.columns;
  }
}

}  // namespace coda::rewrite
