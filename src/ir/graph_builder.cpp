// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>
#include <coda/graph.h>

#include "ir/builder.h"

namespace coda {
namespace {

using ir::Columns;
using ir::Input;

ir::Columns columns(int64_t size) {
  return {Columns::Kind::all, ir::constant_size(size), ir::Size{}};
}

int64_t positive(std::string_view name, int64_t size) {
  if (size < 1)
    throw Error(ErrorKind::shape, "'" + std::string(name) + "'", "sizes above 0",
                std::to_string(size));
  return size;
}

/// A node on the builder of the operands, without its place there; bare numbers are none.
std::pair<ir::Builder*, ir::Whole> gather(ir::WholeOp op, std::initializer_list<Value> args) {
  const char* name = ir::name_of(op);
  std::vector<ir::ValueId> ids;
  ir::Builder* builder = nullptr;
  for (const Value& arg : args) {
    if (arg.is_number() || (builder && arg.builder() != builder))
      throw Error(ErrorKind::program, "[" + std::string(name) + "]", "values of one graph",
                  arg.is_number() ? "a number" : "values of two builders");
    builder = arg.builder();
    ids.push_back(arg.id());
  }
  return {builder, ir::Whole{std::move(op), std::move(ids)}};
}

Value whole(ir::WholeOp op, std::initializer_list<Value> args) {
  auto [builder, node] = gather(std::move(op), args);
  return builder->node(std::move(node));
}

/// Gradients of one weight are added, so sums of weights are nodes; what users write has none.
void refuse_computed_weights(const ir::Program& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.info[i].weight_rows != 0 && !std::holds_alternative<ir::InputValue>(graph.nodes[i]))
      throw Error(ErrorKind::program, "graph '" + graph.name + "'",
                  "weights as operands of matmul and embedding alone", "a sum of weights",
                  "add the products: matmul(x, a) + matmul(x, b)");
  for (const ir::Output& output : graph.outputs)
    if (graph.info[output.value].weight_rows != 0)
      throw Error(ErrorKind::program, "output '" + output.name + "'",
                  "a value over tokens, a vector or a number", "a weight",
                  "its memory is the caller's already");
}

ir::Composite composite(ir::Composite::Kind kind, double eps = 0, bool unit_offset = false) {
  ir::Composite result{kind};
  result.eps = eps;
  result.unit_offset = unit_offset;
  return result;
}

int64_t width(Value x) {
  return x.is_number() ? 0 : x.builder()->program().info[x.id()].dims.columns.width.numerator;
}

}  // namespace

Graph::Graph(std::shared_ptr<const ir::Program> ir) : ir_(std::move(ir)) {}
const char* Graph::name() const noexcept { return ir_->name.c_str(); }

GraphBuilder::GraphBuilder(std::string_view name) : builder_(new ir::Builder(name)) {
  builder_->make_graph();
}
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;

Value GraphBuilder::tokens(std::string_view name, DType dtype) {
  if (is_float(dtype))
    throw Error(ErrorKind::dtype, "'" + std::string(name) + "'", "i64, i32 or u8", name_of(dtype),
                "ids, labels and positions are integers");
  return builder_->input({std::string(name), Input::Kind::tensor, {false, dtype}, {true, {}}});
}

Value GraphBuilder::token_scalars(std::string_view name) {
  return builder_->input({std::string(name), Input::Kind::tensor, {false, DType::f32}, {true, {}}});
}

Value GraphBuilder::activations(std::string_view name, int64_t width) {
  return builder_->input(
      {std::string(name), Input::Kind::tensor, {true}, {true, columns(positive(name, width))}});
}

Value GraphBuilder::weight(std::string_view name, int64_t out, int64_t in) {
  return builder_->input({std::string(name),
                          Input::Kind::weight,
                          {true},
                          {false, columns(positive(name, in))},
                          positive(name, out)});
}

Value GraphBuilder::vector(std::string_view name, int64_t size) {
  return builder_->input(
      {std::string(name), Input::Kind::tensor, {true}, {false, columns(positive(name, size))}});
}

Value GraphBuilder::table(std::string_view name, int64_t size) {
  return builder_->input({std::string(name),
                          Input::Kind::tensor,
                          {false, DType::f32},
                          {false, columns(positive(name, size))}});
}

Value GraphBuilder::scalar(std::string_view name) {
  return builder_->input({std::string(name), Input::Kind::tensor, {false, DType::f32}, {}});
}

void GraphBuilder::name(Value value, std::string_view name) { builder_->name(value, name); }

Value GraphBuilder::end_block(Value value) {
  const ir::ValueId id = builder_->id(value);
  const ir::ValueInfo& info = builder_->program().info[id];
  if (!info.dims.rows || info.dims.columns.kind != Columns::Kind::all ||
      info.number != ir::Number::real)
    throw Error(ErrorKind::shape, "end_block", "a matrix over tokens [M, d]",
                ir::to_string(info.dims, builder_->program()));
  return builder_->node(ir::Round{id, {true}});
}

void GraphBuilder::output(std::string_view name, Value value) {
  const ir::ValueInfo& info = builder_->program().info[builder_->id(value)];
  const bool matrix = info.dims.rows && info.dims.columns.kind == Columns::Kind::all;
  ir::ElementType type{matrix, DType::f32};
  if (info.number != ir::Number::real) type = {false, DType::i64};
  builder_->output({std::string(name), type, info.dims, value.id()});
}

Graph GraphBuilder::build() {
  refuse_computed_weights(builder_->program());
  return Graph(std::make_shared<const ir::Program>(builder_->finish()));
}

using Kind = ir::Composite::Kind;

Value matmul(Value a, Value weight) { return whole(ir::Product{}, {a, weight}); }
Value rms_norm(Value x, Value w, double eps, bool unit_offset) {
  return whole(composite(Kind::rms_norm, eps, unit_offset), {x, w});
}
Value layer_norm(Value x, Value w, Value b, double eps) {
  return whole(composite(Kind::layer_norm, eps), {x, w, b});
}
Value swiglu(Value gate, Value up) { return whole(composite(Kind::swiglu), {gate, up}); }
Value geglu(Value gate, Value up) { return whole(composite(Kind::geglu), {gate, up}); }

Value rope(Value x, Value positions, Value frequencies, double scale) {
  ir::Composite op = composite(Kind::rope);
  op.head_size = 2 * width(frequencies);
  op.scale = scale;
  return whole(op, {x, positions, frequencies});
}

Value head_norm(Value x, Value w, double eps, bool unit_offset) {
  ir::Composite op = composite(Kind::head_norm, eps, unit_offset);
  op.head_size = width(w);
  return whole(op, {x, w});
}

Value softcap(Value x, double cap) {
  if (!(cap > 0))
    throw Error(ErrorKind::argument, "[softcap] cap", "a number above 0", std::to_string(cap));
  return cap * tanh(x / cap);
}

Value embedding(Value ids, Value table, int64_t padding) {
  return whole(ir::Embedding{padding}, {ids, table});
}

Value attention(Value q, Value k, Value v, const AttentionOptions& options) {
  const ir::AttentionShape shape{options.query_heads, options.key_heads, options.head_size,
                                 options.scale,       options.softcap,   options.window};
  const auto [builder, parts] = gather(ir::Attention{shape, 0}, {q, k, v});
  ir::check_attention(builder->program(), parts);
  return whole(ir::Attention{shape, 0}, {whole(ir::Concat{}, {q, k, v})});
}

Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options) {
  ir::Composite op = composite(Kind::cross_entropy);
  op.ignored = options.ignored;
  op.smoothing = options.smoothing;
  return whole(op, {logits, labels});
}

Value z_loss(Value logits, Value labels, int64_t ignored) {
  ir::Composite op = composite(Kind::z_loss);
  op.ignored = ignored;
  return whole(op, {logits, labels});
}

Value total(Value x) {
  if (x.is_number()) throw Error(ErrorKind::program, "[total]", "a value of a graph", "a number");
  return x.builder()->reduce(ir::ReduceOp::sum, {}, x);
}

}  // namespace coda
