// SPDX-License-Identifier: Apache-2.0
// Calls of library programs with arguments made of arbitrary bytes. bind() refuses with coda::Error
// or accepts; an accepted call is held against an address-by-address account of what its outputs
// share, and is run on the CPU where its memory is real, so that the sanitizers see any access out
// of bounds.
#include <coda/error.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "call/call.h"
#include "language/library.h"
#include "language/parser.h"

namespace {

using namespace coda;

/// Reads the input; after its end everything is 0.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  uint8_t byte() { return data_ < end_ ? *data_++ : uint8_t{0}; }
  int below(int limit) { return byte() % limit; }
  /// Decides whether an argument is spoilt.
  bool rarely() { return byte() >= 252; }
  int64_t wild() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return static_cast<int64_t>(value >> below(64));
  }

 private:
  const uint8_t *data_, *end_;
};

const std::vector<std::shared_ptr<const ir::Program>>& programs() {
  static const auto result = [] {
    std::vector<std::shared_ptr<const ir::Program>> result;
    for (const language::LibraryFile& file : language::library_files())
      for (ir::Program& program : language::parse_file(file.text, file.name))
        result.push_back(std::make_shared<const ir::Program>(std::move(program)));
    return result;
  }();
  return result;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

class Call {
 public:
  Call(Bytes& bytes, const ir::Program& program, const Instance& instance)
      : bytes_(bytes), program_(program), instance_(instance), arena_(allocate(kArena)) {
    m_ = bytes.below(40), n_ = bytes.below(8) * 8 + (bytes.rarely() ? 1 : 0), k_ = bytes.below(20);
  }

  void make() {
    for (const ir::Input& input : program_.inputs) {
      if (input.kind == ir::Input::Kind::scalar)
        arguments.scalar(input.name,
                         bytes_.rarely() ? static_cast<double>(bytes_.wild()) : bytes_.below(9));
      if (input.kind == ir::Input::Kind::tensor) add_tensor(input.name, input.type, input.dims);
      if (input.kind == ir::Input::Kind::accumulator) add_products(input.name);
    }
    for (const ir::Output& output : program_.outputs)
      add_tensor(output.name, output.type, output.dims);
    if (bytes_.rarely()) arguments.sizes(bytes_.wild(), bytes_.wild());
    if (bytes_.rarely()) arguments.tensor("wrong", TensorView{});
  }

  Arguments arguments;
  bool real = true;  // all memory may be touched

 private:
  static constexpr size_t kArena = 8192;

  std::byte* allocate(size_t bytes) {
    void* memory = std::malloc(bytes);  // exact, so that one byte beyond is seen
    if (bytes) std::memset(memory, 0x3c, bytes);
    memory_.emplace_back(memory);
    return static_cast<std::byte*>(memory);
  }

  int64_t extent_of(const ir::Size& size) {
    std::vector<int64_t> symbols = instance_.symbols;
    symbols[ir::kSymbolN] = n_, symbols[ir::kSymbolM] = m_;
    try {
      return evaluate(size, symbols, "");
    } catch (const Error&) {
      return bytes_.below(20);
    }
  }

  void add_tensor(const std::string& name, const ir::ElementType& type, const ir::Dims& dims) {
    using Kind = ir::Columns::Kind;
    const ir::Columns& columns = dims.columns;
    const bool has_columns = columns.kind != Kind::none;
    const int64_t width = columns.kind == Kind::all      ? extent_of(columns.width)
                          : columns.kind == Kind::repeat ? extent_of(columns.size)
                          : columns.kind == Kind::group  ? extent_of(columns.width / columns.size)
                                                         : 1;
    const DType dtype = storage(type, instance_);
    if (bytes_.rarely()) return;
    if (!previous_.empty() && bytes_.below(8) == 7) {
      const auto at = previous_.begin() + bytes_.below(static_cast<int>(previous_.size()));
      arguments.tensor(name, *at);
      return;
    }
    if (bytes_.below(6) == 5) {
      const bool rows = bytes_.below(2);
      const int64_t whole = rows ? m_ : width;
      const int64_t first = whole > 0 ? bytes_.byte() % (whole + 1) : 0;
      std::vector<TensorView> segments;
      for (int64_t part : {first, whole - first})
        segments.push_back(
            view(dims.rows, has_columns, rows ? part : m_, rows ? width : part, dtype));
      arguments.tensor(name, rows ? Axis::rows : Axis::columns, segments);
      return;
    }
    previous_.push_back(view(dims.rows, has_columns, m_, width, dtype));
    arguments.tensor(name, previous_.back());
  }

  void add_products(const std::string& name) {
    constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
    const DType type = kTypes[bytes_.below(3)];
    for (int terms = bytes_.below(3); terms >= 0; --terms) {
      const int64_t k = terms ? bytes_.below(9) : k_;
      const TensorView a = view(true, true, m_, k, type);
      const int64_t first = bytes_.below(3) == 2 ? bytes_.byte() % (n_ + 1) : n_;
      std::vector<TensorView> weights{view(true, true, first, k, type)};
      if (first < n_) weights.push_back(view(true, true, n_ - first, k, type));
      arguments.product(name, a, weights);
    }
  }

  TensorView view(bool rows, bool columns, int64_t row_count, int64_t column_count, DType dtype) {
    TensorView view;
    view.rank = rows + columns;
    view.dtype = dtype;
    view.shape[0] = rows ? row_count : column_count;
    view.shape[1] = rows && columns ? column_count : 1;
    switch (view.rank == 2 ? bytes_.below(6) : 0) {
      case 0:
        view.strides[0] = view.rank == 2 ? column_count : 1 + bytes_.below(3), view.strides[1] = 1;
        break;
      case 1:
        view.strides[0] = column_count + bytes_.below(5), view.strides[1] = 1;
        break;
      case 2:
        view.strides[0] = 1, view.strides[1] = row_count;
        break;
      case 3:
        view.strides[0] = 0, view.strides[1] = 1;
        break;
      case 4:
        view.strides[0] = 64, view.strides[1] = 1;
        break;
      default:
        view.strides[0] = bytes_.below(20), view.strides[1] = bytes_.below(20);
    }
    if (bytes_.rarely()) view.strides[bytes_.below(2)] = bytes_.wild();
    if (bytes_.rarely()) view.shape[bytes_.below(2)] = bytes_.wild();
    if (bytes_.rarely()) view.rank = bytes_.below(4);
    if (bytes_.rarely()) view.dtype = all_dtypes[bytes_.below(9)];
    if (bytes_.rarely()) view.device.kind = Device::Kind::cuda;
    place(view);
    return view;
  }

  /// Memory of its own, a piece of the arena that other views share, or none that may be touched.
  void place(TensorView& view) {
    __extension__ typedef __int128 Wide;
    Wide elements = 1;
    for (int i = 0; i < view.rank && i < 2; ++i) {
      if (view.shape[i] <= 0 || view.strides[i] < 0) elements = 0;
      if (elements) elements += (Wide{view.shape[i]} - 1) * view.strides[i];
    }
    const Wide bytes = elements * static_cast<Wide>(size_of(view.dtype));
    const int where = bytes_.below(8);
    if (bytes > static_cast<Wide>(kArena) || where == 7) {
      real = false;
      view.data = bytes_.below(2) ? nullptr : reinterpret_cast<void*>(bytes_.wild());
    } else if (where >= 5) {
      const auto room = static_cast<int64_t>(kArena) - static_cast<int64_t>(bytes);
      int64_t offset = (int64_t{bytes_.byte()} * 64 + bytes_.byte()) % (room + 1);
      if (!bytes_.rarely()) offset -= offset % static_cast<int64_t>(size_of(view.dtype));
      view.data = arena_ + offset;
    } else {
      view.data = allocate(static_cast<size_t>(bytes));
    }
  }

  Bytes& bytes_;
  const ir::Program& program_;
  const Instance& instance_;
  int64_t m_, n_, k_;
  std::vector<std::unique_ptr<void, Free>> memory_;
  std::byte* arena_;
  std::vector<TensorView> previous_;
};

template <class Use>
void for_each_byte(const Binding& binding, const Use& use) {
  // What repeats one element may have any extent, and is too long to walk.
  if (binding.rows > (1 << 20) / (binding.columns + 1)) return;
  for (const Segment& segment : binding.segments) {
    const bool rows = binding.axis == Axis::rows;
    const int64_t length = segment.end - segment.begin;
    for (int64_t i = 0; i < (rows ? length : binding.rows); ++i)
      for (int64_t j = 0; j < (rows ? binding.columns : length); ++j) {
        const auto size = static_cast<int64_t>(size_of(segment.view.dtype));
        const std::byte* at = segment.view.data +
                              (i * segment.view.row_stride + j * segment.view.column_stride) * size;
        for (int64_t byte = 0; byte < size; ++byte) use(at + byte);
      }
  }
}

void require(bool condition) {
  if (!condition) std::abort();
}

/// Every output byte belongs to one output element, and to no input but the one it updates.
void check_sharing(const ir::Program& program, const BoundCall& call) {
  std::map<const std::byte*, size_t> owner;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    for_each_byte(call.outputs[i],
                  [&](const std::byte* at) { require(owner.emplace(at, i).second); });
  std::map<size_t, size_t> updated;
  const auto check = [&](const Binding& input, std::optional<size_t> index) {
    for_each_byte(input, [&](const std::byte* at) {
      const auto found = owner.find(at);
      if (found == owner.end()) return;
      require(index.has_value());
      const ir::Dims& dims = program.outputs[found->second].dims;
      require(dims.rows && dims.columns.kind == ir::Columns::Kind::all);
      require(dims == program.inputs[*index].dims);
      require(input.segments[0].view.data == call.outputs[found->second].segments[0].view.data);
      require(updated.emplace(found->second, *index).first->second == *index);
    });
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    check(call.inputs[i], i);
    for (const Product& product : call.products[i]) check(product.a, {}), check(product.b, {});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const auto program = programs()[static_cast<size_t>(bytes.byte()) % programs().size()];
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::e4m3};
  std::vector<SizeValue> sizes;
  for (size_t i = ir::kFirstParameter; i < program->symbols.size(); ++i)
    sizes.push_back({program->symbols[i], bytes.rarely() ? bytes.wild() : 8 * bytes.below(4)});
  const int type = bytes.rarely() ? 3 : bytes.below(3);
  const CompileOptions options{
      .type = kTypes[type], .sizes = sizes, .fused = bytes.below(2) == 0, .threads = 1};
  try {
    const Instance instance = instantiate(program, options);
    Call call(bytes, *program, instance);
    call.make();
    const BoundCall bound =
        bind(instance, call.arguments, {}, call.real ? Memory::required : Memory::may_be_null);
    if (!call.real) return 0;
    check_sharing(*program, bound);
    const Kernel kernel = compile(Program(program), {}, options);
    const size_t workspace_size = kernel.workspace_bytes(call.arguments);
    void* aligned = nullptr;
    require(posix_memalign(&aligned, 64, workspace_size) == 0);
    const std::unique_ptr<void, Free> workspace(aligned);
    kernel.launch(nullptr, call.arguments, workspace.get(), workspace_size);
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::internal);
    require(*error.expected() && *error.got());
  }
  return 0;
}
