// SPDX-License-Identifier: Apache-2.0
#include "rewrite/region_program.h"

#include <coda/error.h>

#include <cctype>

namespace coda::rewrite {
namespace {

using ir::Columns;
using ir::Dims;
using ir::ValueId;

class RegionProgram {
 public:
  RegionProgram(const ir::Program& graph, Regions& regions, Places& places, int index)
      : graph_(graph),
        regions_(regions),
        places_(places),
        index_(index),
        region_(regions.regions[index]),
        builder_("region") {}

  Step run() {
    for (ValueId v : region_.products) add_product(v);
    std::set<ValueId> stores = region_.stores;
    for (ValueId v : stores) add_output(v);
    call_.columns = region_.columns;
    call_.program = ir::eliminate(builder_.finish());
    call_.program.name = step_name();
    return {step_name(), std::move(call_)};
  }

 private:
  std::string step_name() const {
    std::string name;
    for (const ir::Output& output : call_.program.outputs)
      name += (name.empty() ? "" : "_") + output.name;
    return name;
  }

  std::string fresh(std::string name) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "v" + name;
    const std::string base = name;
    for (int i = 2; taken_.count(name) || reserved(name); ++i)
      name = base + "_" + std::to_string(i);
    taken_.insert(name);
    return name;
  }

  static bool reserved(const std::string& name) {
    static const std::set<std::string> kWords{
        "m",     "n",       "M",    "N",     "T",    "_",    "inf",     "nan",       "acc",
        "fn",    "program", "coda", "f64",   "f32",  "bf16", "f16",     "e4m3",      "e5m2",
        "i64",   "i32",     "u8",   "neg",   "abs",  "min",  "max",     "clamp",     "where",
        "exp",   "log",     "sqrt", "rsqrt", "tanh", "erf",  "sigmoid", "sin",       "cos",
        "round", "split",   "join", "swap",  "sum",  "mean", "moments", "logsumexp", "argmax"};
    return kWords.count(name) > 0;
  }

  std::string name_of(ValueId v) {
    if (const auto* input = std::get_if<ir::InputValue>(&graph_.nodes[v]))
      return graph_.inputs[input->input].name;
    return places_.buffer(places_.one(v)).name;
  }

  void add_product(ValueId v) {
    const std::string name = fresh(region_.products.size() == 1 ? "a"
                                   : v == region_.products[0]   ? "a"
                                                                : "b");
    const Value value = builder_.input({name, ir::Input::Kind::accumulator, {}, {}});
    known_[v] = value.id();
    const std::vector<ValueId> args = ir::operands(graph_.nodes[v]);
    const auto* gradient = ir::whole<ir::InputGradient>(graph_.nodes[v]);
    const auto* forward = ir::whole<ir::Product>(graph_.nodes[v]);
    size_t at = 0;
    for (size_t t = 0; at < args.size(); ++t) {
      const int segments = forward ? forward->segments : gradient->segments[t];
      Ref a = places_.one(args[at]);
      mark(graph_, regions_, args[at++]);
      if (forward) {
        ProductTerm term{name, a, {}};
        for (int s = 0; s < segments; ++s) term.weights.push_back(places_.one(args[at++]));
        call_.products.push_back(std::move(term));
        continue;
      }
      // A W_i for the columns of each segment: segments along K.
      for (int s = 0; s < segments; ++s) {
        Ref weight = places_.one(args[at]);
        Ref part = a;
        part.columns = graph_.info[args[at]].weight_rows;
        a.first += part.columns;
        weight.transposed = true;
        call_.products.push_back({name, part, {weight}});
        ++at;
      }
    }
  }

  // --- values

  ir::Size relative(const ir::Size& width) const {
    return ir::symbol_size(ir::kSymbolN) * width / ir::constant_size(region_.columns);
  }
  Dims relative(Dims dims) const {
    if (dims.columns.kind != Columns::Kind::none) dims.columns.width = relative(dims.columns.width);
    return dims;
  }

  ValueId value(ValueId v) {
    if (const auto found = known_.find(v); found != known_.end()) return found->second;
    const ValueId made = make(v);
    return known_[v] = made;
  }

  bool loaded(ValueId v) const {
    const ir::Node& n = graph_.nodes[v];
    if (std::holds_alternative<ir::InputValue>(n) || ir::whole<ir::Slice>(n) ||
        ir::whole<ir::Concat>(n) || ir::whole<ir::Repeat>(n) || ir::whole<ir::Period>(n))
      return true;
    const int home = regions_.home[v];
    return home >= 0 && home < index_;
  }

  ValueId make(ValueId v) {
    if (loaded(v)) return load(v);
    ir::Node made = ir::with_operands(graph_.nodes[v], [&](ValueId id) { return value(id); });
    if (auto* reduce = std::get_if<ir::Reduce>(&made)) reduce->kept = relative(reduce->kept);
    if (auto* index = std::get_if<ir::Index>(&made); index && !index->row) return column(*index);
    return builder_.node(made).id();
  }

  /// Column j of a value of half width is column j of the first half of all.
  ValueId column(const ir::Index& index) {
    const int64_t width = index.width.numerator;
    const Value all = builder_.node(ir::Index{false});
    if (width == region_.columns) return all.id();
    if (2 * width == region_.columns)
      return builder_.node(ir::Split{all.id(), ir::constant_size(width), 0}).id();
    throw Error(ErrorKind::unsupported, "column index", "the width of the product or half of it",
                std::to_string(width) + " beside " + std::to_string(region_.columns));
  }

  ValueId load(ValueId v) {
    mark(graph_, regions_, v);
    TensorArgument argument{fresh(name_of(v)), places_.of(v)};
    ir::ElementType type = places_.buffer(argument.segments[0]).type;
    const Value made = builder_.input(
        {argument.name, ir::Input::Kind::tensor, type, relative(graph_.info[v].dims)});
    call_.inputs.push_back(std::move(argument));
    return made.id();
  }

  void add_output(ValueId v) {
    TensorArgument argument{"", places_.of(v)};
    const Buffer buffer = places_.buffer(argument.segments[0]);  // value() may add others
    const Dims dims = relative(graph_.info[v].dims);
    const ValueId made = value(v);
    argument.name = fresh(buffer.name);
    builder_.output({argument.name, buffer.type, dims, made});
    call_.outputs.push_back(std::move(argument));
    for (const Ref& twin : places_.twins(v)) {
      const Buffer& other = places_.buffer(twin);
      TensorArgument copy{fresh(other.name), {twin}};
      builder_.output({copy.name, other.type, dims, made});
      call_.outputs.push_back(std::move(copy));
    }
  }

  const ir::Program& graph_;
  Regions& regions_;
  Places& places_;
  const int index_;
  const Region& region_;
  ir::Builder builder_;
  ProgramCall call_;
  std::map<ValueId, ValueId> known_;
  std::set<std::string> taken_;
};

}  // namespace

Step region_step(const ir::Program& graph, Regions& regions, Places& places, int index) {
  return RegionProgram(graph, regions, places, index).run();
}

}  // namespace coda::rewrite
