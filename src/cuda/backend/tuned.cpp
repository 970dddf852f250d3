// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/tuned.h"

#include <coda/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace coda::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

struct File {
  std::string_view name, text;
};

constexpr File kFiles[] = {
#include "tuned_files.inc"
};

const char* name_of(device::Kind kind) {
  using device::Kind;
  switch (kind) {
    case Kind::tile_in:
      return "tile_in";
    case Kind::tile_out:
      return "tile_out";
    case Kind::row_vector:
      return "row_vector";
    case Kind::col_vector:
      return "col_vector";
    case Kind::scalar:
      return "scalar";
    case Kind::number:
      return "number";
    case Kind::keep_m:
      return "keep_m";
    case Kind::keep_n:
      return "keep_n";
    case Kind::group_fold:
      return "group_fold";
    case Kind::group_in:
      return "group_in";
    case Kind::group_out:
      break;
  }
  return "group_out";
}

const char* name_of(device::Width width) {
  return width == device::Width::half ? "half" : width == device::Width::twice ? "twice" : "full";
}

const char* name_of(device::Type type) {
  constexpr const char* kNames[] = {"f32", "bf16", "f16", "e4m3", "e5m2", "u8", "i32", "i64"};
  return kNames[static_cast<int>(type)];
}

const char* name_of(device::Reduce reduce) {
  constexpr const char* kNames[] = {"sum", "max", "min", "logsumexp", "moments", "argmax"};
  return kNames[static_cast<int>(reduce)];
}

std::string text_of(const device::Port& port) {
  using device::Kind;
  std::string text = name_of(port.kind);
  if (port.kind == Kind::number) return text;
  text += fmt::format(" {} {}", name_of(port.width), name_of(port.type));
  if (port.kind == Kind::keep_m || port.kind == Kind::keep_n || port.kind == Kind::group_fold)
    text += std::string(" ") + name_of(port.reduce);
  return text;
}

TunedEntry parse_entry(const Json& json, const std::string& where) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(ErrorKind::argument, where, expected, got,
                "correct the table, or write it again with coda tune");
  };
  if (!json.is_object()) refuse("an object", json.type_name());
  const auto field = [&](const char* name) -> const Json& {
    const auto at = json.find(name);
    if (at == json.end()) refuse(std::string("a field '") + name + "'", "none");
    return *at;
  };
  const auto text = [&](const char* name) {
    const Json& value = field(name);
    if (!value.is_string()) refuse(std::string("text as '") + name + "'", value.dump());
    return value.get<std::string>();
  };
  const auto count = [&](const char* name) {
    const Json& value = field(name);
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      refuse(std::string("a whole number of at least 1 as '") + name + "'", value.dump());
    return value.get<int64_t>();
  };
  const auto real = [&](const char* name) {
    const Json& value = field(name);
    if (!value.is_number() || value.get<double>() < 0)
      refuse(std::string("a number of at least 0 as '") + name + "'", value.dump());
    return value.get<double>();
  };
  TunedEntry entry;
  entry.program = text("program");
  entry.layout = text("layout");
  entry.accumulators = static_cast<int>(count("accumulators"));
  entry.m = count("m"), entry.n = count("n"), entry.k = count("k");
  entry.config = text("config");
  entry.microseconds = real("microseconds");
  entry.ratio = real("ratio");
  try {
    entry.wish = exact_wish(entry.config);
  } catch (const Error& error) {
    refuse(error.expected(),
           std::string(error.got()) + " in the configuration '" + entry.config + "'");
  }
  return entry;
}

/// How far apart sizes are: the sum of the powers of two between them. Nothing where one of them is
/// more than a factor of 1.5 away.
std::optional<double> distance(const TunedEntry& entry, const Problem& problem) {
  const double most = std::log2(1.5);
  double sum = 0;
  for (const auto& [a, b] :
       {std::pair{entry.m, problem.m}, {entry.n, problem.n}, {entry.k, problem.depth()}}) {
    const double apart = std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
    if (apart > most + 1e-9) return std::nullopt;
    sum += apart;
  }
  return sum;
}

}  // namespace

bool TunedEntry::replaces(const TunedEntry& other) const {
  return program == other.program && layout == other.layout && accumulators == other.accumulators &&
         m == other.m && n == other.n && k == other.k;
}

std::string tuned_key(const ProgramShape& program, const Problem& problem) {
  std::string key;
  for (const device::Port& port : program.ports) key += text_of(port) + ", ";
  return key + fmt::format("pair {}, {}{}, {}, {}", program.pair, program.passes,
                           program.passes == 1 ? " pass" : " passes", name_of(problem.element),
                           problem.depths.size() == 1
                               ? "1 product"
                               : fmt::format("{} products", problem.depths.size()));
}

std::string layout_of(const Problem& problem) {
  return {problem.a_major == device::Major::k ? 'N' : 'T',
          problem.b_major == device::Major::k ? 'T' : 'N'};
}

ConfigWish exact_wish(const std::string& config) {
  ConfigWish wish = parse_config(config);
  if (!wish.mode || !wish.tile_m || !wish.cluster_m || !wish.chunk || !wish.load || !wish.store)
    throw Error(ErrorKind::argument, "configuration",
                "a whole one, such as 'pingpong 128x192 2x1 chunk=64 load=1 store=1'",
                "'" + config + "'");
  // to_string() says neither where it is usual.
  if (!wish.strip) wish.strip = 16;
  if (!wish.split) wish.split = 1;
  return wish;
}

TunedTable parse_tuned(std::string_view text, const std::string& file) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(ErrorKind::argument, file, expected, got, "write the table with coda tune");
  };
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    refuse("JSON", error.what());
  }
  const auto has = [&](const char* name, auto is) {
    return json.is_object() && json.contains(name) && is(json[name]);
  };
  const auto integer = [](const Json& value) { return value.is_number_integer(); };
  if (!has("schema", integer) || json["schema"] != kSchema)
    refuse(fmt::format("a table of tuned configurations with \"schema\": {}", kSchema),
           has("schema", integer) ? "schema " + json["schema"].dump() : "none");
  if (!has("gpu", [](const Json& value) { return value.is_string(); }))
    refuse("the GPU's name as 'gpu'", "none");
  if (!has("multiprocessors", integer)) refuse("a whole number as 'multiprocessors'", "none");
  if (!has("entries", [](const Json& value) { return value.is_array(); }))
    refuse("a list of entries as 'entries'", "none");
  TunedTable table{json["gpu"], json["multiprocessors"], {}};
  for (const Json& entry : json["entries"])
    table.entries.push_back(
        parse_entry(entry, fmt::format("{}: entry {}", file, table.entries.size() + 1)));
  return table;
}

std::string to_json(const TunedTable& table) {
  std::string text =
      fmt::format("{{\"schema\": {}, \"gpu\": {}, \"multiprocessors\": {}, \"entries\": [", kSchema,
                  Json(table.gpu).dump(), table.multiprocessors);
  for (const TunedEntry& entry : table.entries) {
    text += &entry == table.entries.data() ? "\n" : ",\n";
    text += Json{{"program", entry.program},
                 {"layout", entry.layout},
                 {"accumulators", entry.accumulators},
                 {"m", entry.m},
                 {"n", entry.n},
                 {"k", entry.k},
                 {"config", entry.config},
                 {"microseconds", std::round(entry.microseconds * 10) / 10},
                 {"ratio", std::round(entry.ratio * 1000) / 1000}}
                .dump();
  }
  return text + "\n]}\n";
}

const TunedEntry* find_tuned(const TunedTable& table, const ProgramShape& program,
                             const Problem& problem) {
  if (table.entries.empty() || table.multiprocessors != problem.multiprocessors) return nullptr;
  const std::string key = tuned_key(program, problem), layout = layout_of(problem);
  const TunedEntry* nearest = nullptr;
  double least = 0;
  for (const TunedEntry& entry : table.entries) {
    if (entry.accumulators != problem.accumulators || entry.layout != layout ||
        entry.program != key)
      continue;
    const std::optional<double> apart = distance(entry, problem);
    if (apart && (!nearest || *apart < least)) nearest = &entry, least = *apart;
  }
  return nearest;
}

const TunedTable& built_in_table() {
  static_assert(std::size(kFiles) == 1);
  static const TunedTable table =
      parse_tuned(kFiles[0].text, "coda's table " + std::string(kFiles[0].name));
  return table;
}

std::vector<Candidate> candidates(const ProgramShape& program, const Problem& problem,
                                  const ConfigWish& wish, std::string* why_none,
                                  const TunedTable& table) {
  std::vector<Candidate> result = modelled_candidates(program, problem, wish, why_none);
  if (wish != ConfigWish{}) return result;
  const TunedEntry* const entry = find_tuned(table, program, problem);
  if (!entry) return result;
  std::vector<Candidate> tuned = modelled_candidates(program, problem, entry->wish);
  if (tuned.empty()) return result;  // parts of its tensors lie otherwise
  tuned[0].tuned = true;
  std::erase_if(result, [&](const Candidate& c) {
    return to_string(c.config, c.splits) == to_string(tuned[0].config, tuned[0].splits);
  });
  result.insert(result.begin(), tuned[0]);
  return result;
}

std::vector<Candidate> candidates(const ProgramShape& program, const Problem& problem,
                                  const ConfigWish& wish, std::string* why_none) {
  return candidates(program, problem, wish, why_none, built_in_table());
}

}  // namespace coda::cuda
