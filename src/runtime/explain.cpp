// SPDX-License-Identifier: Apache-2.0
#include "runtime/explain.h"

#include <coda/error.h>

#include <set>

#include "ir/simplify.h"

namespace coda {
namespace {

DType chosen(const ir::ElementType& element, DType type) {
  return element.generic ? type : element.dtype;
}

TensorCost tensor_cost(const std::string& name, const ir::ElementType& element,
                       const ir::Dims& dims, const ir::Program& program, DType type,
                       const std::vector<int64_t>& symbols) {
  return {name, name_of(chosen(element, type)) + to_string(dims, program),
          bytes(element, dims, type, symbols)};
}

void count_loads(Explanation& result, const ir::Program& program,
                 const std::vector<int64_t>& symbols) {
  const auto m = static_cast<double>(result.m), n = static_cast<double>(result.n);
  const auto k = static_cast<double>(result.k), width = static_cast<double>(size_of(result.type));
  const std::string type = name_of(result.type);
  bool first = true;
  for (const ir::Input& input : program.inputs) {
    if (input.kind == ir::Input::Kind::scalar) continue;
    if (input.kind == ir::Input::Kind::tensor) {
      result.loads.push_back(
          tensor_cost(input.name, input.type, input.dims, program, result.type, symbols));
      continue;
    }
    if (first) result.loads.push_back({"A", type + "[m, k]", m * k * width});
    first = false;
    result.loads.push_back({"B of " + input.name, type + "[n, k]", n * k * width});
    result.product_flops += 2 * m * n * k;
  }
}

void count_operations(Explanation& result, const ir::Program& program,
                      const std::vector<int64_t>& symbols) {
  for (ir::ValueId id : ir::live_nodes(program)) {
    const auto over = [&](ir::ValueId value) {
      return elements(program.info[value].dims, symbols);
    };
    if (const auto* reduce = std::get_if<ir::Reduce>(&program.nodes[id]))
      result.epilogue_flops += over(reduce->arg);
    else if (std::holds_alternative<ir::Elementwise>(program.nodes[id]))
      result.epilogue_flops += over(id);
    if (const auto* round = std::get_if<ir::Round>(&program.nodes[id]))
      result.roundings.push_back("round to " +
                                 std::string(name_of(chosen(round->type, result.type))) +
                                 (program.names[id].empty() ? "" : " in " + program.names[id]));
  }
}

void count_stores(Explanation& result, const ir::Program& program,
                  const std::vector<int64_t>& symbols) {
  for (const ir::Output& output : program.outputs) {
    result.stores.push_back(
        tensor_cost(output.name, output.type, output.dims, program, result.type, symbols));
    const DType stored = chosen(output.type, result.type);
    if (is_float(stored) && stored != DType::f32)
      result.roundings.push_back(output.name + " stored as " + name_of(stored));
  }
}

/// The unfused sequence also rounds every accumulator to T.
int unfused_roundings(const Explanation& result, const ir::Program& program) {
  auto count = static_cast<int>(result.roundings.size());
  if (result.type != DType::f32)
    for (const ir::Input& input : program.inputs)
      count += input.kind == ir::Input::Kind::accumulator;
  return count;
}

void find_saved(Explanation& result, const Program& program, const std::vector<int64_t>& symbols) {
  try {
    const Derivative derivative = differentiate(program);
    std::set<std::string> upstream;
    for (const ir::Output& output : derivative.forward.ir().outputs)
      upstream.insert("d_" + output.name);
    for (const ir::Input& input : derivative.backward.ir().inputs)
      if (input.kind == ir::Input::Kind::tensor && !upstream.contains(input.name))
        result.saved.push_back(tensor_cost(input.name, input.type, input.dims,
                                           derivative.backward.ir(), result.type, symbols));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::program) throw;
    result.saved_note = error.what();
  }
}

double sum(const std::vector<TensorCost>& tensors) {
  double total = 0;
  for (const TensorCost& tensor : tensors) total += tensor.bytes;
  return total;
}

}  // namespace

double elements(const ir::Dims& dims, const std::vector<int64_t>& symbols) {
  double count = dims.rows ? static_cast<double>(symbols[ir::kSymbolM]) : 1;
  const auto value = [&](const ir::Size& size) {
    return static_cast<double>(evaluate(size, symbols, "explain"));
  };
  switch (dims.columns.kind) {
    case ir::Columns::Kind::none:
      return count;
    case ir::Columns::Kind::all:
      return count * value(dims.columns.width);
    case ir::Columns::Kind::group:
      return count * value(dims.columns.width / dims.columns.size);
    case ir::Columns::Kind::repeat:
      return count * value(dims.columns.size);
  }
  return count;
}

double bytes(const ir::ElementType& element, const ir::Dims& dims, DType type,
             const std::vector<int64_t>& symbols) {
  return elements(dims, symbols) * static_cast<double>(size_of(chosen(element, type)));
}

double Explanation::bytes_loaded() const { return sum(loads); }
double Explanation::bytes_stored() const { return sum(stores); }

double Explanation::intensity() const {
  const double moved = bytes_loaded() + bytes_stored();
  return moved > 0 ? (product_flops + epilogue_flops) / moved : 0;
}

Explanation explain(const Program& program, const Instance& instance, int64_t m, int64_t n,
                    int64_t k) {
  const std::pair<const char*, int64_t> sizes[] = {{"m", m}, {"n", n}, {"k", k}};
  for (const auto& [name, size] : sizes)
    if (size < 0)
      throw Error(ErrorKind::argument, std::string("explain: ") + name, "a size of at least 0",
                  std::to_string(size));
  const ir::Program& ir = *instance.program;
  std::vector<int64_t> symbols = instance.symbols;
  symbols[ir::kSymbolN] = n;
  symbols[ir::kSymbolM] = m;
  Explanation result;
  result.program = ir.name;
  result.m = m, result.n = n, result.k = k, result.type = instance.type;
  count_loads(result, ir, symbols);
  count_operations(result, ir, symbols);
  count_stores(result, ir, symbols);
  result.unfused_roundings = unfused_roundings(result, ir);
  result.unfused = unfused_kernels(ir, instance.type, symbols, k);
  find_saved(result, program, symbols);
  return result;
}

}  // namespace coda
