// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/nearest.h"
#include "call/call.h"
#include "call/divisibility.h"
#include "call/overlap.h"
#include "call/resolve.h"
#include "call/where.h"

namespace coda {
namespace {

using Kind = ir::Input::Kind;

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

bool has_columns(const ir::Dims& dims) { return dims.columns.kind != ir::Columns::Kind::none; }

class Binder {
 public:
  Binder(const Instance& instance, const Arguments::State& given, Device device, Memory memory)
      : instance_(instance),
        program_(*instance.program),
        given_(given),
        device_(device),
        memory_(memory),
        extents_(program_) {}

  BoundCall run() {
    check_names();
    call_.symbols = instance_.symbols;
    if (given_.sizes) bind_sizes();
    const size_t inputs = program_.inputs.size();
    call_.inputs.resize(inputs);
    call_.products.resize(inputs);
    call_.scalars.assign(inputs, std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < inputs; ++i) {
      const ir::Input& input = program_.inputs[i];
      if (input.kind == Kind::scalar) call_.scalars[i] = bind_scalar(input);
      if (input.kind == Kind::tensor)
        call_.inputs[i] = bind_tensor(input.name, input.type, input.dims);
      if (input.kind == Kind::accumulator) call_.products[i] = bind_products(input.name);
    }
    for (const ir::Output& output : program_.outputs)
      call_.outputs.push_back(bind_tensor(output.name, output.type, output.dims));
    extents_.finish(call_.symbols);
    call_.m = call_.symbols[ir::kSymbolM];
    call_.n = call_.symbols[ir::kSymbolN];
    check_volume();
    check_columns();
    check_outputs();
    return std::move(call_);
  }

 private:
  Where place(std::string_view name) const { return {program_, name}; }

  // ---- names
  // -------------------------------------------------------------------------------------------

  void check_names() const {
    std::vector<std::string_view> names;
    for (const ir::Input& input : program_.inputs) names.push_back(input.name);
    for (const ir::Output& output : program_.outputs) names.push_back(output.name);
    const auto refuse_unknown = [&](std::string_view name, const char* how) {
      if (const ir::Input* input = find_input(name))
        place(name).refuse(ErrorKind::argument, way_of(input->kind), how,
                           fix_of(input->kind, name));
      if (find_output(name))
        place(name).refuse(ErrorKind::argument, "a tensor", how, fix_of(Kind::tensor, name));
      place(name).refuse(ErrorKind::argument, "the name of an argument", "an unknown name",
                         suggestion(name, names));
    };
    for (const auto& [name, tensor] : given_.tensors) {
      const ir::Input* input = find_input(name);
      if (!find_output(name) && !(input && input->kind == Kind::tensor))
        refuse_unknown(name, "a tensor");
    }
    for (const auto& [name, value] : given_.scalars) {
      const ir::Input* input = find_input(name);
      if (!input || input->kind != Kind::scalar) refuse_unknown(name, "a number");
    }
    for (const auto& [name, terms] : given_.products) {
      const ir::Input* input = find_input(name);
      if (!input || input->kind != Kind::accumulator) refuse_unknown(name, "a product");
    }
  }

  const ir::Input* find_input(std::string_view name) const {
    for (const ir::Input& input : program_.inputs)
      if (input.name == name) return &input;
    return nullptr;
  }

  bool find_output(std::string_view name) const {
    return std::any_of(program_.outputs.begin(), program_.outputs.end(),
                       [&](const ir::Output& output) { return output.name == name; });
  }

  static const char* way_of(Kind kind) {
    return kind == Kind::scalar ? "a number" : kind == Kind::tensor ? "a tensor" : "a product";
  }

  static std::string fix_of(Kind kind, std::string_view name) {
    const std::string quoted = "(\"" + std::string(name) + "\", ";
    if (kind == Kind::scalar) return "pass it with scalar" + quoted + "value)";
    if (kind == Kind::tensor) return "pass it with tensor" + quoted + "view)";
    return "pass it with product" + quoted + "a, b)";
  }

  [[noreturn]] void refuse_missing(std::string_view name, Kind kind,
                                   const std::string& type) const {
    place(name).refuse(ErrorKind::argument, way_of(kind) + (" " + type), "none",
                       fix_of(kind, name));
  }

  // ---- one argument
  // ------------------------------------------------------------------------------------

  void bind_sizes() {
    const auto [m, n] = *given_.sizes;
    if (m < 0 || n < 0)
      place({}).refuse(ErrorKind::shape, "sizes of at least 0",
                       "sizes(" + std::to_string(m) + ", " + std::to_string(n) + ")",
                       "pass the real sizes");
    extents_.rows(m, place({}));
    extents_.columns(n, place({}));
  }

  /// The number as the program sees it: rounded to float32, or an exact integer of the declared
  /// type.
  double bind_scalar(const ir::Input& input) const {
    const auto at = given_.scalars.find(input.name);
    if (at == given_.scalars.end()) refuse_missing(input.name, input.kind, to_string(input.type));
    const double value = at->second;
    if (input.type.dtype == DType::f32) return static_cast<float>(value);
    const double limit =
        input.type.dtype == DType::i32 ? 2147483648.0 : 9007199254740992.0;  // 2^31, 2^53
    if (std::trunc(value) != value || !(value >= -limit && value < limit))
      place(input.name)
          .refuse(ErrorKind::argument,
                  std::string("an integer that ") + name_of(input.type.dtype) +
                      (limit < 1e10 ? " holds" : " and a double both hold"),
                  number_text(value), "pass a whole number in range");
    return value;
  }

  Binding bind_tensor(const std::string& name, const ir::ElementType& type, const ir::Dims& dims) {
    const auto at = given_.tensors.find(name);
    if (at == given_.tensors.end())
      refuse_missing(name, Kind::tensor, to_string(type) + to_string(dims, program_));
    const DType wanted = storage(type, instance_);
    const char* fix = type.generic ? "convert the tensor, or compile with another type T"
                                   : "convert the tensor, or change the declaration";
    const Expected expected{dims.rows, has_columns(dims), fix, device_, memory_};
    const Where where = place(name);
    Binding binding = resolve(at->second.axis, at->second.segments, wanted, expected, where);
    if (dims.rows) extents_.rows(binding.rows, where);
    extents_.columns(dims.columns, binding.columns, call_.symbols, where);
    return binding;
  }

  std::vector<Product> bind_products(const std::string& name) {
    const auto at = given_.products.find(name);
    if (at == given_.products.end()) refuse_missing(name, Kind::accumulator, "of matrices");
    const std::vector<Arguments::State::Term>& terms = at->second;
    const DType type = terms[0].a.dtype;
    const bool fits = type == DType::f32 || type == DType::bf16 || type == DType::f16 ||
                      (type == DType::f64 && instance_.type == DType::f64);
    const Expected expected{true, true, "convert it to the type of the first operand A", device_,
                            memory_};
    std::vector<Product> products;
    for (size_t i = 0; i < terms.size(); ++i) {
      Where where = place(name);
      where.product = static_cast<int>(i);
      where.operand = 'A';
      if (!fits)
        where.refuse(ErrorKind::dtype, "f32, bf16 or f16", name_of(type), "convert the operands");
      Product product;
      product.a = resolve(Axis::rows, {&terms[i].a, 1}, type, expected, where);
      product.k = product.a.columns;
      extents_.rows(product.a.rows, where);
      where.operand = 'B';
      product.b = resolve(Axis::rows, terms[i].b, type, expected, where);
      extents_.columns(product.b.rows, where);
      if (product.b.columns != product.k)
        where.refuse(ErrorKind::shape,
                     "K = " + std::to_string(product.k) + " columns as operand A has",
                     std::to_string(product.b.columns),
                     "pass B as [N, K]; transposed(view) exchanges the two");
      products.push_back(std::move(product));
    }
    return products;
  }

  // ---- the call as a whole
  // -----------------------------------------------------------------------------

  /// Backends count elements and bytes of M x 2N and of M x K and N x K in 64 bits.
  void check_volume() const {
    const auto check = [&](const char* what, int64_t a, int64_t b) {
      int64_t elements, bytes;
      if (__builtin_mul_overflow(a, b, &elements) ||
          __builtin_mul_overflow(elements, int64_t{16}, &bytes))
        place({}).refuse(ErrorKind::shape, std::string(what) + " below 2^59 elements",
                         std::to_string(a) + " * " + std::to_string(b), "use smaller sizes");
    };
    check("M * N", std::max<int64_t>(call_.m, 1), std::max<int64_t>(call_.n, 1));
    for (const std::vector<Product>& products : call_.products)
      for (const Product& product : products) {
        check("M * K", std::max<int64_t>(call_.m, 1), product.k);
        check("N * K", std::max<int64_t>(call_.n, 1), product.k);
      }
  }

  void check_columns() const {
    const std::vector<Unit> units = check_units(program_, call_.symbols);
    const auto check = [&](const Binding& binding, const ir::Dims& dims, Where where) {
      extents_.check_columns(dims.columns, binding.columns, call_.symbols, where);
      if (binding.axis == Axis::columns && has_columns(dims) &&
          dims.columns.kind != ir::Columns::Kind::repeat)
        check_seams(units, binding, dims.columns, where);
    };
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const ir::Input& input = program_.inputs[i];
      if (input.kind == Kind::tensor) check(call_.inputs[i], input.dims, place(input.name));
      for (const Product& product : call_.products[i])
        check_seams(units, product.b, input.dims.columns, place(input.name));
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      check(call_.outputs[i], program_.outputs[i].dims, place(program_.outputs[i].name));
  }

  void check_seams(const std::vector<Unit>& units, const Binding& binding,
                   const ir::Columns& columns, Where where) const {
    if (binding.segments.size() < 2) return;
    const int64_t size =
        columns.kind == ir::Columns::Kind::group
            ? evaluate_at(columns.size, call_.symbols, [&] { return where.text(); })
            : 1;
    for (size_t i = 1; i < binding.segments.size(); ++i) {
      where.segment = static_cast<int>(i);
      check_seam(units, binding.segments[i].begin * size, factor_of_n(columns.width), where);
    }
  }

  /// Every output element has memory of its own.
  void check_outputs() const {
    struct Part {
      Region region;
      std::string_view name;
      const Binding* binding;
      const ir::Dims* dims;  // null for operands
      bool output;
    };
    std::vector<Part> parts;
    parts.reserve(16);
    const auto add = [&](const Binding& binding, std::string_view name, const ir::Dims* dims,
                         bool output) {
      for (const Segment& segment : binding.segments) {
        const auto [rows, columns] = extent(binding, segment);
        if (output && overlaps_itself(segment.view, rows, columns))
          place(name).refuse(
              ErrorKind::argument, "an address of its own for each element of an output",
              "strides " + std::to_string(segment.view.row_stride) + ", " +
                  std::to_string(segment.view.column_stride) + " that repeat addresses",
              "pass a view whose elements do not share memory");
        parts.push_back({region_of(segment.view, rows, columns), name, &binding, dims, output});
      }
    };
    for (size_t i = 0; i < call_.outputs.size(); ++i)
      add(call_.outputs[i], program_.outputs[i].name, &program_.outputs[i].dims, true);
    const size_t outputs = parts.size();
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      const ir::Input& input = program_.inputs[i];
      if (input.kind == Kind::tensor) add(call_.inputs[i], input.name, &input.dims, false);
      for (const Product& product : call_.products[i])
        add(product.a, input.name, nullptr, false), add(product.b, input.name, nullptr, false);
    }
    std::vector<const Binding*> updated(outputs,
                                        nullptr);  // the input that an output part is the update of
    for (size_t i = 0; i < outputs; ++i) {
      for (size_t j = i + 1; j < parts.size(); ++j) {
        const Part &a = parts[i], &b = parts[j];
        if (!overlap(a.region, b.region)) continue;
        const bool tile = b.dims && a.dims->rows && a.dims->columns.kind == ir::Columns::Kind::all;
        const bool in_place = tile && !b.output && *a.dims == *b.dims &&
                              same(*a.binding, *b.binding) &&
                              (updated[i] == nullptr || updated[i] == b.binding);
        if (in_place) {
          updated[i] = b.binding;
          continue;
        }
        const Part &named = b.output ? b : a, &other = b.output ? a : b;
        const bool updatable = tile && !b.output;
        place(named.name)
            .refuse(ErrorKind::argument, "memory that nothing else of the call uses",
                    std::string("memory shared with ") + (other.output ? "output '" : "input '") +
                        std::string(other.name) + "'",
                    updatable ? "give it its own memory, or the very view of one input tile (an "
                                "update in place)"
                              : "give it its own memory");
      }
    }
  }

  static std::pair<int64_t, int64_t> extent(const Binding& binding, const Segment& segment) {
    const int64_t length = segment.end - segment.begin;
    return binding.axis == Axis::rows ? std::pair{length, binding.columns}
                                      : std::pair{binding.rows, length};
  }

  /// Whether two bindings of the same dims are the same view.
  static bool same(const Binding& a, const Binding& b) {
    const bool one = a.segments.size() == 1;
    return (one || a.axis == b.axis) &&
           std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                      [&](const Segment& x, const Segment& y) {
                        return x.view.data == y.view.data &&
                               x.view.row_stride == y.view.row_stride &&
                               x.view.column_stride == y.view.column_stride &&
                               x.view.dtype == y.view.dtype &&
                               (one || (x.begin == y.begin && x.end == y.end));
                      });
  }

  const Instance& instance_;
  const ir::Program& program_;
  const Arguments::State& given_;
  const Device device_;
  const Memory memory_;
  Extents extents_;
  BoundCall call_;
};

}  // namespace

BoundCall bind(const Instance& instance, const Arguments& arguments, Device device, Memory memory) {
  return Binder(instance, arguments.state(), device, memory).run();
}

}  // namespace coda
