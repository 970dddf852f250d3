// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/fused.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "cuda/backend/device_text.h"
#include "cuda/backend/tensor_map.h"
#include "cuda/codegen/split.h"

namespace coda::cuda {
namespace {

using device::Config;
using device::Geometry;
using device::Kind;
using device::Major;
using device::Plan;
using device::Port;
using device::PortArg;
using device::Seams;

constexpr int64_t kExtentLimit = int64_t{1} << 31;

/// device::SplitSum as its kernel reads it.
struct SplitSum {
  const void* part;
  int64_t ld, stride;
  const void* old;
  int64_t old_ld;
  void* out;
  int64_t out_ld;
  int splits, m, n;
};
constexpr int kSumThreads = 256;

static_assert(sizeof(PortArg) == 24 && offsetof(PortArg, number) == 20);
static_assert(sizeof(device::Params<2, 3>) == (2 * 128 + 3 * 24 + sizeof(Geometry) + 63) / 64 * 64);

/// Everything that the text of a kernel depends on.
std::string key_of(const Config& c, const std::vector<Seams>& seams) {
  std::string key = fmt::format(
      "{} {} {}{} acc={} segments={} parts={},{} boxes={},{} stages={} mask={}{} delays={} "
      "split={} ragged={} ",
      to_string(c), static_cast<int>(c.element), static_cast<int>(c.a_major),
      static_cast<int>(c.b_major), c.accumulators, c.segments, c.a_parts, c.b_parts, c.a_box_rows,
      c.b_box_rows, c.stages, static_cast<int>(c.mask_rows), static_cast<int>(c.mask_cols),
      static_cast<int>(c.delays), static_cast<int>(c.split_k), static_cast<int>(c.ragged_cols));
  for (const Seams s : seams) key += static_cast<char>('0' + static_cast<int>(s));
  return key;
}

/// Which ways TMA can read a matrix of rows x k: along K, along M or N, or both.
struct Majors {
  bool k = false, mn = false;
  std::string problem;  // of the way along K, or of the one that is contiguous
};

Majors majors_of(const View& view, int64_t rows, int64_t k) {
  const std::string along_k = tma_problem(view, rows, k);
  const std::string along_mn = tma_problem(turned(view), k, rows);
  const bool turned_over = rows > 1 && view.row_stride == 1;
  return {along_k.empty(), along_mn.empty(), turned_over ? along_mn : along_k};
}

bool same_view(const View& a, const View& b) {
  return a.data == b.data && a.row_stride == b.row_stride && a.column_stride == b.column_stride &&
         a.dtype == b.dtype;
}

void add_seams(std::vector<int64_t>& seams, const Binding& binding) {
  for (const Segment& s : binding.segments)
    if (s.begin > 0) seams.push_back(s.begin);
  std::sort(seams.begin(), seams.end());
  seams.erase(std::unique(seams.begin(), seams.end()), seams.end());
}

int to_int(int64_t x) { return static_cast<int>(x); }

}  // namespace

Fused90::Fused90(const Instance& instance, const ConfigWish& wish, const Gpu* gpu,
                 int multiprocessors)
    : instance_(instance),
      wish_(wish),
      gpu_(gpu),
      multiprocessors_(multiprocessors),
      ports_(fused_ports(instance)),
      shape_(program_shape(instance, ports_)),
      copier_("sm_90a", gpu) {
  const ir::Program& program = *instance.program;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].kind == ir::Input::Kind::accumulator)
      accumulators_.push_back(static_cast<int>(i));
}

const Binding& Fused90::tile_of(const BoundCall& call, size_t port) const {
  const FusedPort& p = ports_[port];
  return p.input >= 0 ? call.inputs[p.input] : call.outputs[p.output];
}

std::string Fused90::port_problem(const BoundCall& call, size_t index, FusedCall& fused) const {
  const FusedPort& port = ports_[index];
  if (!is_tile(port.port)) return "";
  const ir::Program& program = *instance_.program;
  const std::string name = port.input >= 0 ? "input '" + program.inputs[port.input].name + "' "
                                           : "output '" + program.outputs[port.output].name + "' ";
  const Binding& binding = tile_of(call, index);
  const bool by_rows = binding.axis == Axis::rows;
  if (binding.columns >= kExtentLimit) return name + "has 2^31 columns or more";
  for (const Segment& s : binding.segments) {
    const int64_t length = s.end - s.begin;
    const std::string problem =
        tma_problem(s.view, by_rows ? length : binding.rows, by_rows ? binding.columns : length);
    if (!problem.empty()) return name + problem;
    // A store of the copy engine writes whole 16-byte units, also over what lies behind a row.
    const int64_t row_bytes =
        (by_rows ? binding.columns : length) * static_cast<int64_t>(size_of(s.view.dtype));
    if (port.output >= 0 && row_bytes % 16 != 0)
      return name + fmt::format("has rows of {} bytes, no multiple of 16", row_bytes);
  }
  if (binding.segments.size() < 2) return "";
  if (!by_rows && port.port.width != device::Width::full)
    return name + "lies in parts, and is not of full width";
  fused.seams[index] = by_rows ? Seams::rows : Seams::cols;
  (by_rows ? fused.problem.tiles_cut_m : fused.problem.tiles_cut_n) = true;
  add_seams(by_rows ? fused.problem.a_seams : fused.problem.b_seams, binding);
  return "";
}

std::string Fused90::operand_problem(const BoundCall& call, FusedCall& fused) const {
  Problem& problem = fused.problem;
  const ir::Program& program = *instance_.program;
  const std::vector<Product>& first = call.products[accumulators_[0]];
  for (size_t i = 0; i < first.size(); ++i)
    if (first[i].k > 0) fused.products.push_back(i), problem.depths.push_back(first[i].k);
  if (fused.products.empty()) return "K is 0";
  if (fused.products.size() > device::kMaxSegments)
    return fmt::format("{} products in one sum (at most {} fit)", fused.products.size(),
                       device::kMaxSegments);
  if (problem.depth() >= kExtentLimit) return "K of 2^31 or more";
  Majors a{true, true, ""}, b{true, true, ""};
  for (const int accumulator : accumulators_) {
    const std::string name = "of '" + program.inputs[accumulator].name + "' ";
    const std::vector<Product>& products = call.products[accumulator];
    if (products.size() != first.size()) return "accumulators of sums that differ in length";
    for (const size_t i : fused.products) {
      const Product& product = products[i];
      const View& view = product.a.segments.at(0).view;
      if (view.dtype != DType::bf16 && view.dtype != DType::f16)
        return std::string("operands are ") + name_of(view.dtype);
      const DType type = first[fused.products[0]].a.segments.at(0).view.dtype;
      if (product.k != first[i].k || view.dtype != type ||
          !same_view(view, first[i].a.segments.at(0).view))
        return "accumulators with operands A that differ";
      problem.element = type == DType::bf16 ? device::Type::bf16 : device::Type::f16;
      const Majors of_a = majors_of(view, call.m, product.k);
      if (!of_a.k && !of_a.mn) return "operand A " + name + of_a.problem;
      a.k = a.k && of_a.k, a.mn = a.mn && of_a.mn;
      for (const Segment& s : product.b.segments) {
        const Majors of_b = majors_of(s.view, s.end - s.begin, product.k);
        if (!of_b.k && !of_b.mn) return "operand B " + name + of_b.problem;
        b.k = b.k && of_b.k, b.mn = b.mn && of_b.mn;
      }
      add_seams(problem.b_seams, product.b);
    }
  }
  if ((!a.k && !a.mn) || (!b.k && !b.mn)) return "products of layouts that differ";
  problem.a_major = a.k ? Major::k : Major::mn;
  problem.b_major = b.k ? Major::k : Major::mn;
  return "";
}

std::variant<FusedCall, std::string> Fused90::accept(const BoundCall& call) const {
  if (call.m == 0 || call.n == 0) return "an empty matrix";
  if (call.m >= kExtentLimit || call.n >= kExtentLimit || call.m / 64 * (call.n / 64) >= 1 << 30)
    return "M or N of 2^31 or more";
  FusedCall fused;
  fused.seams.resize(ports_.size());
  Problem& problem = fused.problem;
  problem.m = call.m, problem.n = call.n;
  problem.accumulators = static_cast<int>(accumulators_.size());
  problem.multiprocessors = multiprocessors_;
  if (std::string why = operand_problem(call, fused); !why.empty()) return why;
  for (size_t i = 0; i < ports_.size(); ++i)
    if (std::string why = port_problem(call, i, fused); !why.empty()) return why;
  for (const auto* seams : {&problem.a_seams, &problem.b_seams})
    if (seams->size() >= device::kMaxParts)
      return fmt::format("{} tensors side by side (at most {} fit)", seams->size() + 1,
                         device::kMaxParts);
  return fused;
}

Source Fused90::source(const Instance& instance, const Config& config,
                       const std::vector<Seams>& seams, Fused* result) {
  const std::string name = "coda_" + instance.program->name;
  Fused fused = config.split_k ? generate_split(instance, config, name)
                               : generate_fused(instance, config, name, seams);
  std::vector<Port> ports;
  for (const FusedPort& port : fused.ports) ports.push_back(port.port);
  if (!config.split_k)
    for (size_t i = 0; i < seams.size(); ++i) ports[i].seams = seams[i];
  const Plan plan = make_plan(config, ports.data(), static_cast<int>(ports.size()));
  const size_t size = (static_cast<size_t>(plan.maps) * sizeof(device::TensorMap) +
                       ports.size() * sizeof(PortArg) + sizeof(Geometry) + 63) /
                      64 * 64;
  std::string text = fused.text +
                     fmt::format(
                         "static_assert(sizeof(Shape<{0}_Program>::Launch) == {1});\n"
                         "static_assert(Shape<{0}_Program>::plan.smem_bytes == {2});\n\n",
                         name, size, plan.smem_bytes) +
                     fused.finish.text;
  const char* const layout = config.a_major == Major::mn   ? " tn"
                             : config.b_major == Major::mn ? " nn"
                                                           : " nt";
  std::string file =
      instance.program->name + "-" + to_string(config) + layout + (config.split_k ? " split" : "");
  std::replace_if(
      file.begin(), file.end(), [](char c) { return c == ' ' || c == '='; }, '-');
  const DeviceText needed = fused.finish.text.empty() ? DeviceText::mainloop : DeviceText::both;
  if (result) *result = std::move(fused);
  return {file, assemble_source(needed, text)};
}

size_t Fused90::compiled() const {
  const std::lock_guard lock(mutex_);
  return kernels_.size();
}

std::shared_ptr<const Fused90::Kernel> Fused90::find(FusedCall& call, std::string* why_none) const {
  std::string why;
  const std::vector<Candidate> all = attempts(candidates(shape_, call.problem, wish_, &why));
  const std::lock_guard lock(mutex_);
  for (const Candidate& candidate : all) {
    const Config& config = candidate.config;
    call.splits = candidate.splits, call.tuned = candidate.tuned;
    const std::string key = key_of(config, call.seams);
    const auto found = kernels_.find(key);
    if (found != kernels_.end()) {
      if (found->second) return found->second;
      why = "ptxas spills";
      continue;
    }
    try {
      auto kernel = std::make_shared<Kernel>();
      kernel->config = config;
      const Source text = source(instance_, config, call.seams, &kernel->fused);
      std::vector<Port> ports;
      for (size_t p = 0; p < kernel->fused.ports.size(); ++p) {
        ports.push_back(kernel->fused.ports[p].port);
        if (!config.split_k) ports.back().seams = call.seams[p];
      }
      kernel->plan = make_plan(config, ports.data(), static_cast<int>(ports.size()));
      std::vector<LoadedSource::Wanted> wanted{
          {"coda_" + instance_.program->name, kernel->plan.smem_bytes}};
      for (const PointwisePass& pass : kernel->fused.finish.passes)
        wanted.push_back({pass.kernel, 0});
      if (config.split_k) wanted.push_back({"coda_" + instance_.program->name + "_sum", 0});
      kernel->loaded = std::make_unique<LoadedSource>(text, "sm_90a", gpu_, wanted);
      if (gpu_) {
        Launch how;
        how.block[0] = device::kThreads;
        how.shared_bytes = static_cast<unsigned>(kernel->plan.smem_bytes);
        kernel->clusters_at_once =
            std::max(1, clusters_at_once(gpu_->context(), kernel->loaded->function(0), how,
                                         config.cluster_m * config.cluster_n));
      }
      return kernels_[key] = std::move(kernel);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      kernels_[key] = nullptr;
      why = std::string(error.got()).substr(0, 200);
      log(LogLevel::debug,
          instance_.program->name + ": " + to_string(config) + " is refused: " + why);
    }
  }
  if (why_none) *why_none = why;
  return nullptr;
}

namespace {

/// Where a split product's ranges store their tiles: one range's rows below the other's. Nothing
/// for other kernels.
struct PartialTiles {
  int64_t rows = 0, pitch = 0, rows_of_one = 0;
  int count = 0;
};

PartialTiles partial_tiles(const Fused90::Kernel& kernel, const FusedCall& fused,
                           const BoundCall& call) {
  const Config& c = kernel.config;
  if (!c.split_k) return {};
  int64_t blocks = 0;
  for (const int64_t k : fused.problem.depths)
    blocks += (k + device::kBlockK - 1) / device::kBlockK;
  const int64_t each = (blocks + fused.splits - 1) / fused.splits;
  PartialTiles tiles;
  tiles.count = to_int((blocks + each - 1) / each);
  const int64_t rows = static_cast<int64_t>(c.tile_m) * c.cluster_m;
  tiles.rows_of_one = (call.m + rows - 1) / rows * rows;
  tiles.rows = tiles.rows_of_one * tiles.count;
  tiles.pitch = (call.n + 3) / 4 * 4;
  return tiles;
}

}  // namespace

void Fused90::queue_sum(const Planning& planning, const FusedCall& fused, const Kernel& kernel,
                        const std::byte* partials) const {
  const BoundCall& call = planning.call;
  const PartialTiles tiles = partial_tiles(kernel, fused, call);
  const int addend = split_form(instance_)->addend;
  const bool by_rows = !fused.problem.tiles_cut_n;
  std::vector<int64_t> ends =
      fused.problem.tiles_cut_m ? fused.problem.a_seams : fused.problem.b_seams;
  if (!fused.problem.tiles_cut_m && !fused.problem.tiles_cut_n) ends.clear();
  ends.insert(ends.begin(), 0);
  ends.push_back(by_rows ? call.m : call.n);
  for (size_t part = 0; part + 1 < ends.size(); ++part) {
    const int64_t from = ends[part];
    const Axis axis = by_rows ? Axis::rows : Axis::columns;
    const Slice out = slice_of(call.outputs[0], axis, from, ends[part + 1]);
    SplitSum sum{};
    sum.part = partials + (by_rows ? from * tiles.pitch : from) * 4;
    sum.ld = tiles.pitch, sum.stride = tiles.rows_of_one * tiles.pitch;
    sum.out = out.view.data, sum.out_ld = out.view.row_stride;
    if (addend >= 0) {
      const Slice old = slice_of(call.inputs[addend], axis, from, ends[part + 1]);
      sum.old = old.view.data, sum.old_ld = old.view.row_stride;
    }
    sum.splits = tiles.count;
    sum.m = to_int(by_rows ? out.length : call.m), sum.n = to_int(by_rows ? call.n : out.length);
    ArgumentBytes bytes(sizeof sum);
    bytes.put(0, sum);
    const int64_t threads = static_cast<int64_t>(sum.m) * ((sum.n + 3) / 4);
    const int64_t blocks = std::min<int64_t>((threads + kSumThreads - 1) / kSumThreads,
                                             static_cast<int64_t>(multiprocessors_) * 16);
    planning.steps->kernel(kernel.loaded->function(1), blocks, kSumThreads, 0, bytes);
  }
}

void Fused90::plan(const Planning& planning, const FusedCall& fused, const Kernel& kernel) const {
  const ir::Program& program = *instance_.program;
  const BoundCall& call = planning.call;
  const Config& c = kernel.config;
  const Plan& plan = kernel.plan;
  const int rows = c.tile_m * c.cluster_m, columns = plan.tile_cols * c.cluster_n;
  const int64_t tiles_m = (call.m + c.tile_m - 1) / c.tile_m;
  const int64_t tiles_n = (call.n + plan.tile_cols - 1) / plan.tile_cols;

  // Tensors that are read or written by address: vectors must be contiguous.
  std::vector<View> views(program.inputs.size() + program.outputs.size());
  std::vector<bool> contiguous(program.inputs.size());
  std::vector<bool> in_tile(program.outputs.size());
  for (const FusedPort& port : ports_) {
    if (port.input >= 0) contiguous[port.input] = true;
    if (port.output >= 0) in_tile[port.output] = port.port.kind == Kind::tile_out;
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ir::Input& input = program.inputs[i];
    const bool tile = input.dims.rows && input.dims.columns.kind == ir::Columns::Kind::all;
    if (input.kind == ir::Input::Kind::tensor && !tile)
      views[i] = whole_input(planning, copier_, call.inputs[i], contiguous[i]);
  }
  std::vector<size_t> aside;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (in_tile[i]) continue;
    const Binding& binding = call.outputs[i];
    const View& view = binding.segments.at(0).view;
    View& to = views[program.inputs.size() + i];
    const bool plain =
        binding.segments.size() == 1 && (!stored_in_tile(program, program.outputs[i]) ||
                                         binding.columns <= 1 || view.column_stride == 1);
    if (plain) {
      to = view;
    } else {
      aside.push_back(i);
      to = contiguous_like(planning, binding);
    }
  }
  const std::vector<void*> work = take_work(planning, kernel.fused.finish, tiles_m, tiles_n);
  const PartialTiles partials = partial_tiles(kernel, fused, call);
  auto* const partial_data =
      static_cast<std::byte*>(planning.work.take(partials.rows * partials.pitch * 4));
  if (!planning.steps) return;

  const std::vector<FusedPort>& ports = c.split_k ? kernel.fused.ports : ports_;
  const size_t ports_at = static_cast<size_t>(plan.maps) * sizeof(device::TensorMap);
  const size_t geometry_at = ports_at + ports.size() * sizeof(PortArg);
  ArgumentBytes bytes((geometry_at + sizeof(Geometry) + 63) / 64 * 64);
  size_t map = 0;
  const auto put_map = [&](const TmaMatrix& matrix, int box_columns, int box_rows, int swizzle) {
    bytes.put(sizeof(device::TensorMap) * map++,
              make_tensor_map(matrix, box_columns, box_rows, swizzle));
  };
  const auto parts = [](const std::vector<int64_t>& seams, int64_t extent) {
    std::vector<int64_t> ends = seams;
    ends.insert(ends.begin(), 0);
    ends.push_back(extent);
    return ends;
  };
  const std::vector<int64_t> m_parts = parts(fused.problem.a_seams, call.m);
  const std::vector<int64_t> n_parts = parts(fused.problem.b_seams, call.n);
  const auto put_operand = [&](const Binding& binding, int64_t k, const std::vector<int64_t>& ends,
                               Major major, int box_rows, int share) {
    for (size_t p = 0; p + 1 < ends.size(); ++p) {
      const Slice s = slice_of(binding, Axis::rows, ends[p], ends[p + 1]);
      if (major == Major::k)
        put_map(tma_matrix(s.view, s.length, k), device::kBlockK, box_rows, 128);
      else
        put_map(tma_matrix(turned(s.view), k, s.length), 64, device::kBlockK / share, 128);
    }
  };
  const std::vector<Product>& first = call.products[accumulators_[0]];
  for (const size_t i : fused.products)
    put_operand(first[i].a, first[i].k, m_parts, c.a_major, plan.a_box_rows, plan.a_share);
  for (const size_t i : fused.products)
    for (const int accumulator : accumulators_)
      put_operand(call.products[accumulator][i].b, first[i].k, n_parts, c.b_major, plan.b_box_rows,
                  plan.b_share);

  std::vector<NumberSlot> numbers;
  size_t partial = 0;
  for (size_t i = 0; i < ports.size(); ++i) {
    const FusedPort& port = ports[i];
    PortArg arg{nullptr, 0, 1, 0};
    if (c.split_k) {
      put_map({partial_data, partials.rows, call.n, partials.pitch, DType::f32},
              panel_cols(port.port, c.chunk_cols), 16, panel_bytes(port.port, c.chunk_cols));
    } else if (is_tile(port.port)) {
      const Binding& binding = tile_of(call, i);
      const int width = panel_cols(port.port, c.chunk_cols);
      const int swizzle = panel_bytes(port.port, c.chunk_cols);
      const Seams seams = fused.seams[i];
      if (seams == Seams::none) {
        put_map(tma_matrix(binding.segments.at(0).view, binding.rows, binding.columns), width, 16,
                swizzle);
      } else {
        const bool by_rows = seams == Seams::rows;
        const std::vector<int64_t>& ends = by_rows ? m_parts : n_parts;
        for (size_t p = 0; p + 1 < ends.size(); ++p) {
          const Slice s =
              slice_of(binding, by_rows ? Axis::rows : Axis::columns, ends[p], ends[p + 1]);
          put_map(tma_matrix(s.view, by_rows ? s.length : binding.rows,
                             by_rows ? binding.columns : s.length),
                  width, 16, swizzle);
        }
      }
    } else if (port.port.kind == Kind::keep_m || port.port.kind == Kind::keep_n) {
      arg.data = work.at(partial++);
      arg.ld = port.port.kind == Kind::keep_m            ? call.m
               : port.port.width == device::Width::half  ? call.n / 2
               : port.port.width == device::Width::twice ? call.n * 2
                                                         : call.n;
    } else if (port.port.kind == Kind::number) {
      numbers.push_back(
          {ports_at + i * sizeof(PortArg) + offsetof(PortArg, number), port.input, false});
    } else if (port.input >= 0 || port.output >= 0) {
      const View& view =
          port.input >= 0 ? views[port.input] : views[program.inputs.size() + port.output];
      arg.data = view.data, arg.ld = view.row_stride;
    }
    bytes.put(ports_at + i * sizeof(PortArg), arg);
  }

  Geometry g{};
  g.m = to_int(call.m), g.n = to_int(call.n);
  g.clusters_m = to_int((call.m + rows - 1) / rows);
  g.clusters_n = to_int((call.n + columns - 1) / columns);
  const Raster raster = choose_raster(c, fused.problem);
  g.group = raster.group, g.along_n = raster.along_n;
  for (size_t s = 0; s < fused.problem.depths.size(); ++s) {
    g.k_blocks[s] = to_int((fused.problem.depths[s] + device::kBlockK - 1) / device::kBlockK);
    g.total_blocks += g.k_blocks[s];
  }
  g.blocks_per_split = (g.total_blocks + fused.splits - 1) / fused.splits;
  g.splits = (g.total_blocks + g.blocks_per_split - 1) / g.blocks_per_split;
  g.split_rows = g.clusters_m * rows;
  for (size_t p = 0; p + 1 < m_parts.size(); ++p) g.a_begin[p] = to_int(m_parts[p]);
  for (size_t p = 0; p + 1 < n_parts.size(); ++p) g.b_begin[p] = to_int(n_parts[p]);
  bytes.put(geometry_at, g);

  const int cluster = c.cluster_m * c.cluster_n;
  const int64_t items = static_cast<int64_t>(g.clusters_m) * g.clusters_n * g.splits;
  planning.steps->kernel(kernel.loaded->function(0),
                         std::min<int64_t>(items, kernel.clusters_at_once) * cluster,
                         device::kThreads, plan.smem_bytes, bytes, std::move(numbers));
  if (c.split_k) return queue_sum(planning, fused, kernel, partial_data);
  queue_passes(planning, kernel.fused.finish, *kernel.loaded, 1, views, work, tiles_m, tiles_n);
  for (const size_t i : aside)
    copy_back(planning, copier_, views[program.inputs.size() + i], call.outputs[i]);
}

}  // namespace coda::cuda
