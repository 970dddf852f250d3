// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/configure.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <sstream>

#include "cuda/lower/split.h"
#include "cuda/plan/problem.h"
#include "ir/simplify.h"

namespace coda::cuda {
namespace {

using device::Config;
using device::Kind;
using device::Major;
using device::Mode;
using device::Plan;
using device::Port;

struct Shape {
  Mode mode;
  int tile_m, tile_n;
};

// The first six are those that run fastest (the tiles a warpgroup's registers hold); the others are
// for programs that keep many values, and for small matrices.
constexpr Shape kShapes[] = {
    {Mode::pingpong, 128, 192},    {Mode::pingpong, 192, 128},    {Mode::pingpong, 128, 128},
    {Mode::pingpong, 64, 256},     {Mode::cooperative, 128, 256}, {Mode::cooperative, 256, 128},
    {Mode::cooperative, 256, 192}, {Mode::cooperative, 128, 192}, {Mode::cooperative, 128, 128},
    {Mode::pingpong, 64, 192},     {Mode::pingpong, 64, 128},     {Mode::pingpong, 128, 64}};
constexpr int kClusters[][2] = {{2, 1}, {1, 2}, {1, 1}};

// ---- the model: clocks of one multiprocessor
// ------------------------------------------------------

constexpr double kPortBytes = 128;      // of shared memory, a clock
constexpr double kL2Bytes = 46;         // to one multiprocessor, a clock
constexpr double kDramBytes = 2700;     // of the chip, a clock
constexpr double kStageLatency = 1000;  // from a TMA load's issue to its arrival
// What a ring of 2, 3 stages costs beside one of 4 (measured: 1.25 to 1.45, 1.1 to 1.3).
constexpr double kShallow[] = {1.4, 1.15, 1};
constexpr double kLoadLatency = 900;        // of a tile input's slot
constexpr double kStoreLatency = 350;       // until an output's slot has been read
constexpr double kLanes = 128 * 0.4;        // operations a clock that an epilogue reaches
constexpr double kSpecialLanes = 16 * 0.8;  // exponentials and the like
constexpr double kLaunch = 2500;            // clocks until the first product starts
constexpr double kChunkClocks = 130;        // barriers, fence and issue of one chunk
constexpr double kSumLaunch = 6000;         // of the kernel that sums split products
constexpr int kMostSplits = 8;
constexpr double kNarrowCost = 1.1;  // stores and loads of 8 columns instead of 16

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What a stage (64 of K) moves through the port of shared memory: the copy engine writes it once,
/// each wgmma reads its own rows of A and all of B.
double stage_port_bytes(const Config& c, const Plan& p) {
  const int blocks = c.tile_m / 64 * c.accumulators;  // wgmma instructions of each 16 of K
  return 4.0 * blocks * (64 + p.tile_cols) * 32 + p.stage_bytes;
}

/// Clocks of a stage of one tile, where operands arrive in time.
double stage_clocks(const Config& c, const Plan& p) {
  const double multiply = 4.0 * c.tile_m / 64 * c.accumulators * p.tile_cols / 2;
  const double port = stage_port_bytes(c, p) / kPortBytes * 1.03;
  const double fetched = c.tile_m * 128.0 / p.a_share + c.tile_n * 128.0 / p.b_share;
  const double latency = kStageLatency / std::max(p.stages - 1, 1);
  return std::max({multiply, port, fetched / kL2Bytes, latency});
}

int64_t stages_of(const Problem& problem) {
  int64_t stages = 0;
  for (const int64_t k : problem.depths) stages += ceil_div(k, device::kBlockK);
  return stages;
}

double tile_bytes(const ProgramShape& program, const Config& c, const Plan& p) {
  double bytes = 0;
  for (const Port& port : program.ports)
    if (is_tile(port))
      bytes +=
          static_cast<double>(c.tile_m) * widen(port.width, p.tile_cols) * type_bytes(port.type);
  return bytes;
}

/// Clocks of one tile's epilogue, all of it exposed.
double epilogue_clocks(const ProgramShape& program, const Config& c, const Plan& p) {
  const double elements = static_cast<double>(c.tile_m) * p.tile_cols;
  double moved = 0;
  for (const Port& port : program.ports) moved += is_tile(port) ? 1.5 : is_vector(port) ? 0.7 : 1;
  const double operations = (2 + program.operations * c.passes + moved) / kLanes;
  const double special = program.special * c.passes / kSpecialLanes;
  const double memory = tile_bytes(program, c, p) / (kPortBytes / 2);
  double clocks = elements * std::max(operations, special) + memory;
  const double chunks = p.row_blocks * p.chunks;
  clocks += chunks * kChunkClocks;
  if (c.pair == device::kNarrow) clocks *= kNarrowCost;
  // The first slots are filled during the mainloop; a later one is asked for when the chunk that
  // had it is done, as many chunks ahead as there are further slots.
  const double ahead = (c.load_stages - 1) * clocks / chunks;
  if (p.has_loads && chunks > c.load_stages)
    clocks += (chunks - c.load_stages) * std::max(kLoadLatency - ahead, 0.0);
  if (p.has_stores) clocks = std::max(clocks, chunks * kStoreLatency / c.store_stages);
  return clocks;
}

double model(const ProgramShape& program, const Problem& problem, const Config& c, int splits) {
  const Plan p = make_plan(c, program.ports.data(), static_cast<int>(program.ports.size()));
  const int64_t clusters =
      ceil_div(problem.m, c.tile_m * c.cluster_m) * ceil_div(problem.n, p.tile_cols * c.cluster_n);
  const int cluster = c.cluster_m * c.cluster_n;
  const int64_t at_once = std::max(problem.multiprocessors / cluster, 1);
  const auto turns = static_cast<double>(ceil_div(clusters * splits, at_once));
  const auto stages = static_cast<double>(ceil_div(stages_of(problem), splits));
  const double main = stages * stage_clocks(c, p) * kShallow[std::clamp(p.stages, 2, 4) - 2];
  const double epilogue = epilogue_clocks(program, c, p);
  // Tiles of the epilogue pass the port of shared memory twice, beside the mainloop's operands.
  const double port =
      (stages * stage_port_bytes(c, p) + 2 * tile_bytes(program, c, p)) / kPortBytes * 1.03;
  double clocks = kLaunch;
  if (c.mode == Mode::pingpong)
    clocks += turns * std::max({main, (main + epilogue) / 2, port}) + epilogue;
  else
    clocks += turns * (main + epilogue);

  const Raster raster = choose_raster(c, problem);
  const double k = static_cast<double>(problem.depth());
  const double a = 2.0 * static_cast<double>(problem.m) * k;
  const double b = 2.0 * static_cast<double>(problem.n) * k * problem.accumulators;
  const auto groups = [&](int64_t extent, int tile) {
    return static_cast<double>(ceil_div(extent, static_cast<int64_t>(raster.group) * tile));
  };
  const double operands = raster.along_n ? b + a * groups(problem.n, p.tile_cols * c.cluster_n)
                                         : a + b * groups(problem.m, c.tile_m * c.cluster_m);
  const double tiles = static_cast<double>(problem.m) * static_cast<double>(problem.n) /
                       (static_cast<double>(c.tile_m) * p.tile_cols);
  const double stored = tiles * splits * tile_bytes(program, c, p);
  const double moved = (operands + stored) / kDramBytes;
  // The sum reads what was stored and writes an output of at most half of a range's bytes.
  const double sum = c.split_k ? kSumLaunch + stored * (1 + 0.5 / splits) / kDramBytes : 0;
  return std::max(clocks, moved) + sum;
}

/// The fastest number of ranges; each has at least kLeastBlocks of K.
int choose_splits(const ProgramShape& program, const Problem& problem, const Config& c) {
  constexpr int64_t kLeastBlocks = 8;
  int best = 0;
  double clocks = 0;
  for (int splits = 2; splits <= kMostSplits; ++splits) {
    if (stages_of(problem) < splits * kLeastBlocks) break;
    const double now = model(program, problem, c, splits);
    if (best == 0 || now < clocks) best = splits, clocks = now;
  }
  return best;
}

// ---- what fits
// ------------------------------------------------------------------------------------

/// Whether a program that pairs nothing runs on narrow strips: where accumulators leave few
/// registers and a strip of 16 columns keeps many values at once. A thread holds 8 of its values: a
/// word for one or more of an input as stored, one for each of an output and of a reduction.
bool wants_narrow(const ProgramShape& program, const Plan& plan) {
  constexpr int kMostRegisters = 160, kMostValues = 32;
  int values = 0;
  for (const Port& port : program.ports)
    if (port.kind == Kind::tile_in)
      values += std::max(2 * type_bytes(port.type), 4);
    else if (port.kind == Kind::tile_out || port.kind == Kind::keep_m || port.kind == Kind::keep_n)
      values += 8;
  return plan.acc_registers > kMostRegisters && values > kMostValues;
}

/// The highest box, of at most `most` rows, that no seam cuts.
int box_rows(const std::vector<int64_t>& seams, int most) {
  int64_t unit = 0;
  for (const int64_t seam : seams) unit = std::gcd(unit, seam);
  int box = std::min(most, 256);
  while (box > 8 && (most % box != 0 || unit % box != 0)) box -= 8;
  return box;
}

bool seams_fit(const std::vector<int64_t>& seams, int64_t unit) {
  return std::all_of(seams.begin(), seams.end(), [&](int64_t seam) { return seam % unit == 0; });
}

std::string seam_problem(const Problem& problem, const Config& c) {
  if (!seams_fit(problem.a_seams, problem.tiles_cut_m ? 16 : 8))
    return "parts along M that begin at no multiple of 16";
  if (!seams_fit(problem.b_seams, problem.tiles_cut_n ? c.chunk_cols : 8))
    return fmt::format("parts along N that begin at no multiple of {}",
                       problem.tiles_cut_n ? c.chunk_cols : 8);
  if (c.a_major == Major::mn && !seams_fit(problem.a_seams, 64))
    return "parts along M that begin at no multiple of 64";
  if (c.b_major == Major::mn && !seams_fit(problem.b_seams, 64))
    return "parts along N that begin at no multiple of 64";
  return "";
}

bool wished(const std::optional<int>& wish, int value) { return !wish || *wish == value; }

bool wished(const ConfigWish& wish, const Config& c) {
  return (!wish.mode || *wish.mode == c.mode) && wished(wish.tile_m, c.tile_m) &&
         wished(wish.tile_n, c.tile_n) && wished(wish.cluster_m, c.cluster_m) &&
         wished(wish.cluster_n, c.cluster_n) && wished(wish.chunk, c.chunk_cols) &&
         wished(wish.load, c.load_stages) && wished(wish.store, c.store_stages);
}

}  // namespace

int64_t Problem::depth() const { return std::accumulate(depths.begin(), depths.end(), int64_t{0}); }

ProgramShape program_shape(const Instance& instance, const std::vector<FusedPort>& ports) {
  ProgramShape shape;
  for (const FusedPort& port : ports) {
    shape.ports.push_back(port.port);
    if (port.port.kind == Kind::group_fold) shape.passes = 2;
  }
  shape.pair = pair_of(instance);
  shape.chunk_multiple = chunk_multiple(instance);
  shape.may_split = split_form(instance).has_value();
  const ir::Program program = ir::eliminate(*instance.program);
  for (ir::ValueId id : ir::live_nodes(program)) {
    if (!program.info[id].dims.is_tile()) continue;
    const auto* n = std::get_if<ir::Elementwise>(&program.nodes[id]);
    if (!n) continue;
    using ir::Op;
    switch (n->op) {
      case Op::exp:
      case Op::log:
      case Op::tanh:
      case Op::erf:
      case Op::sigmoid:
      case Op::sin:
      case Op::cos:
      case Op::div:
        shape.special += 2, shape.operations += 12;
        break;
      case Op::sqrt:
      case Op::rsqrt:
        shape.special += 1, shape.operations += 4;
        break;
      default:
        shape.operations += 1;
    }
  }
  for (const Port& port : shape.ports) {
    if (port.kind != Kind::keep_m && port.kind != Kind::keep_n) continue;
    const bool exponential = port.reduce == device::Reduce::logsumexp;
    shape.operations += exponential ? 6 : port.reduce == device::Reduce::moments ? 5 : 2;
    shape.special += exponential ? 1.2 : 0;
  }
  return shape;
}

Raster choose_raster(const Config& c, const Problem& problem) {
  // About 2048 rows (or columns) of operands stay in L2 while the other operand passes by.
  constexpr int kRows = 2048;
  const int rows = c.tile_m * c.cluster_m, columns = c.tile_n / c.accumulators * c.cluster_n;
  const double m = static_cast<double>(problem.m);
  const double n = static_cast<double>(problem.n) * problem.accumulators;
  const double down = m + n * static_cast<double>(ceil_div(problem.m, kRows));
  const double across = n + m * static_cast<double>(ceil_div(problem.n, kRows));
  Raster raster;
  raster.along_n = across < down;
  raster.group = std::max(1, kRows / (raster.along_n ? columns : rows));
  return raster;
}

namespace {

/// Candidates with or without split K; `program` is what the mainloop's epilogue then does.
void add_candidates(const ProgramShape& program, const Problem& problem, const ConfigWish& wish,
                    bool split_k, std::vector<Candidate>& result, std::string& why,
                    std::string& seams_why) {
  const auto count = static_cast<int>(program.ports.size());
  const bool reduces =
      std::any_of(program.ports.begin(), program.ports.end(), [](const Port& port) {
        return port.kind == Kind::keep_m || port.kind == Kind::keep_n ||
               port.kind == Kind::group_fold;
      });
  const auto add_best = [&](const Config& shape) {
    std::optional<Candidate> best;
    for (const int chunk : {32, 64, 128})
      for (const int load : {1, 2, 3})
        for (const int store : {1, 2, 3}) {
          Config c = shape;
          c.chunk_cols = chunk, c.load_stages = load, c.store_stages = store;
          c.ragged_cols = !c.mask_cols || problem.n % chunk != 0;
          if (!wished(wish, c) || chunk % program.chunk_multiple != 0) continue;
          const Plan plan = make_plan(c, program.ports.data(), count);
          if ((!plan.has_loads && load > 1 && !wish.load) ||
              (!plan.has_stores && store > 1 && !wish.store))
            continue;
          if (const char* problem_text = plan_problem(c, program.ports.data(), count)) {
            why = problem_text;
            continue;
          }
          if (std::string text = seam_problem(problem, c); !text.empty()) {
            seams_why = std::move(text);
            continue;
          }
          const int splits = !split_k     ? 1
                             : wish.split ? *wish.split
                                          : choose_splits(program, problem, c);
          if (splits == 0) continue;
          const double clocks = model(program, problem, c, splits);
          if (!best || clocks < best->clocks) best = {c, splits, clocks};
        }
    if (best) result.push_back(*best);
  };
  for (const Shape& shape : kShapes)
    for (const auto& cluster : kClusters) {
      Config c;
      c.mode = shape.mode, c.tile_m = shape.tile_m, c.tile_n = shape.tile_n;
      c.cluster_m = cluster[0], c.cluster_n = cluster[1];
      c.element = problem.element, c.a_major = problem.a_major, c.b_major = problem.b_major;
      c.accumulators = problem.accumulators;
      c.segments = static_cast<int>(problem.depths.size());
      c.a_parts = static_cast<int>(problem.a_seams.size()) + 1;
      c.b_parts = static_cast<int>(problem.b_seams.size()) + 1;
      const int columns = c.tile_n / c.accumulators;
      if (c.a_major == Major::k) c.a_box_rows = box_rows(problem.a_seams, c.tile_m / c.cluster_n);
      if (c.b_major == Major::k)
        c.b_box_rows = box_rows(problem.b_seams, std::min(columns, c.tile_n / c.cluster_m));
      c.pair = program.pair, c.passes = program.passes;
      c.stages = wish.stages.value_or(0), c.delays = wish.delays, c.split_k = split_k;
      c.mask_rows = reduces && problem.m % c.tile_m != 0;
      c.mask_cols = reduces && problem.n % columns != 0;
      const Plan plan = make_plan(c, program.ports.data(), static_cast<int>(program.ports.size()));
      const bool narrow_only = wish.strip ? *wish.strip == 8 : wants_narrow(program, plan);
      if (c.pair != 0 || !narrow_only) add_best(c);
      if (c.pair == 0 && wish.strip.value_or(8) == 8) {
        c.pair = device::kNarrow;
        add_best(c);
      }
    }
}

}  // namespace

std::vector<Candidate> modelled_candidates(const ProgramShape& program, const Problem& problem,
                                           const ConfigWish& wish, std::string* why_none) {
  std::vector<Candidate> result;
  std::string why = "no configuration of that name", seams_why;
  const bool forced = wish.split.value_or(1) > 1;
  if (!forced) add_candidates(program, problem, wish, false, result, why, seams_why);
  if (forced && !program.may_split) {
    seams_why = "K is split for programs that store the product or add it to a tile";
  } else if (forced && stages_of(problem) < *wish.split) {
    seams_why = fmt::format("K of {} blocks of 64 has fewer than {} ranges", stages_of(problem),
                            *wish.split);
  } else if (program.may_split && wish.split.value_or(2) > 1 &&
             !(problem.tiles_cut_m && problem.tiles_cut_n)) {
    ProgramShape product;
    product.ports = {split_port()};
    add_candidates(product, problem, wish, true, result, why, seams_why);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.clocks < b.clocks; });
  if (result.empty() && why_none) *why_none = seams_why.empty() ? why : seams_why;
  return result;
}

std::vector<Candidate> attempts(const std::vector<Candidate>& all) {
  const auto alike = [](const Config& a, const Config& b) {
    return a.mode == b.mode && a.tile_m == b.tile_m && a.tile_n == b.tile_n &&
           a.chunk_cols == b.chunk_cols && a.pair == b.pair && a.split_k == b.split_k &&
           a.mask_rows == b.mask_rows && a.mask_cols == b.mask_cols;
  };
  std::vector<Candidate> result;
  for (const Candidate& candidate : all) {
    if (result.size() == kMostAttempts) break;
    if (std::none_of(result.begin(), result.end(),
                     [&](const Candidate& tried) { return alike(tried.config, candidate.config); }))
      result.push_back(candidate);
  }
  return result;
}

ConfigWish parse_config(const std::string& text) {
  ConfigWish wish;
  const auto refuse = [&](const std::string& word) {
    throw Error(ErrorKind::argument, "configuration",
                "words such as 'pingpong 128x192 2x1 chunk=64 stages=4 load=2 store=2 split=4 "
                "delays'",
                "'" + word + "'");
  };
  const auto number = [&](const std::string& word, size_t from, size_t to) {
    int value = 0;
    const char* end = word.data() + to;
    const auto [stop, error] = std::from_chars(word.data() + from, end, value);
    if (error != std::errc() || stop != end || value < 1) refuse(word);
    return value;
  };
  std::string spaced = text;
  std::replace_if(
      spaced.begin(), spaced.end(), [](char c) { return c == ':' || c == ','; }, ' ');
  std::istringstream words(spaced);
  for (std::string word; words >> word;) {
    const size_t times = word.find('x'), equals = word.find('=');
    if (word == "pingpong") {
      wish.mode = Mode::pingpong;
    } else if (word == "cooperative") {
      wish.mode = Mode::cooperative;
    } else if (word == "delays") {
      wish.delays = true;
    } else if (equals != std::string::npos) {
      const std::string key = word.substr(0, equals);
      const int value = number(word, equals + 1, word.size());
      if (key == "chunk")
        wish.chunk = value;
      else if (key == "stages")
        wish.stages = value;
      else if (key == "load")
        wish.load = value;
      else if (key == "store")
        wish.store = value;
      else if (key == "split")
        wish.split = value;
      else if (key == "strip" && (value == 8 || value == 16))
        wish.strip = value;
      else
        refuse(word);
    } else if (times != std::string::npos) {
      const int a = number(word, 0, times), b = number(word, times + 1, word.size());
      if (a <= 2 && b <= 2)
        wish.cluster_m = a, wish.cluster_n = b;
      else
        wish.tile_m = a, wish.tile_n = b;
    } else {
      refuse(word);
    }
  }
  return wish;
}

std::string to_string(const Config& c, int splits) {
  return fmt::format("{} {}x{} {}x{} chunk={} load={} store={}{}{}",
                     c.mode == Mode::pingpong ? "pingpong" : "cooperative", c.tile_m, c.tile_n,
                     c.cluster_m, c.cluster_n, c.chunk_cols, c.load_stages, c.store_stages,
                     c.pair == device::kNarrow ? " strip=8" : "",
                     splits > 1 ? fmt::format(" split={}", splits) : "");
}

std::string way_of(const Config& config, int splits, bool tuned) {
  return "fused " + to_string(config, splits) + (tuned ? " (tuned)" : "");
}

}  // namespace coda::cuda
