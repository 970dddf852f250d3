// SPDX-License-Identifier: Apache-2.0
// Which configuration of the mainloop a call runs with: a menu, filtered by what fits, ordered by a
// model of its time; one that was timed before (tuned.h) goes first. Nothing is timed here.
//
// A kernel's text depends on the configuration, never on M, N and K: calls of one program and one
// layout share at most one kernel per entry of the menu (kMenuSize) and way of masking (4, where
// the program reduces; otherwise 1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/lower/fused.h"

namespace coda::cuda {

inline constexpr int kHopperProcessors = 132;  // where there is no GPU to ask
/// Configurations that ptxas may refuse before a call runs unfused.
inline constexpr size_t kMostAttempts = 8;

/// What of a call matters to the choice.
struct Problem {
  int64_t m = 0, n = 0;
  std::vector<int64_t> depths;  // K of each segment
  device::Type element = device::Type::bf16;
  device::Major a_major = device::Major::k, b_major = device::Major::k;
  int accumulators = 1;
  std::vector<int64_t> a_seams, b_seams;          // where parts begin along M and N, without 0
  bool tiles_cut_m = false, tiles_cut_n = false;  // tile ports lie in those parts too
  int multiprocessors = kHopperProcessors;

  int64_t depth() const;
};

/// The program's side: the same for every call.
struct ProgramShape {
  std::vector<device::Port> ports;
  int pair = 0, chunk_multiple = 16, passes = 1;
  double operations = 0;   // a column of a row, elementwise and reductions
  double special = 0;      // of those, exponentials and the like
  bool may_split = false;  // split_form()
};

ProgramShape program_shape(const Instance& instance, const std::vector<FusedPort>& ports);

/// A wish, such as --config and CODA_CONFIG have: "pingpong 128x192 2x1 chunk=64 stages=4 load=2
/// store=1 split=4 strip=8 delays". What it does not name is chosen; split=1 is one range of K,
/// strip=8 (or 16) the columns that a program without pairs sees at once.
struct ConfigWish {
  std::optional<device::Mode> mode;
  std::optional<int> tile_m, tile_n, cluster_m, cluster_n, chunk, stages, load, store, split, strip;
  bool delays = false;

  bool operator==(const ConfigWish&) const = default;
};
ConfigWish parse_config(const std::string& text);
std::string to_string(const device::Config& config, int splits = 1);
/// "fused pingpong 128x192 ...", with "(tuned)" where a table decided.
std::string way_of(const device::Config& config, int splits, bool tuned);

struct Candidate {
  device::Config config;
  int splits;     // ranges of K; 1 unless config.split_k
  double clocks;  // of the whole call, as the model has it
  bool tuned = false;
};

/// All that fit, fastest by the model first. Where none does, `why_none` says why not.
std::vector<Candidate> modelled_candidates(const ProgramShape& program, const Problem& problem,
                                           const ConfigWish& wish, std::string* why_none = nullptr);

/// The same, after the one that a table of timed configurations has for a call like this; by
/// default the built-in table. A wish leaves tables out.
struct TunedTable;
std::vector<Candidate> candidates(const ProgramShape& program, const Problem& problem,
                                  const ConfigWish& wish, std::string* why_none = nullptr);
std::vector<Candidate> candidates(const ProgramShape& program, const Problem& problem,
                                  const ConfigWish& wish, std::string* why_none,
                                  const TunedTable& table);

/// What to compile in turn until ptxas builds one without spills: of candidates that hold their
/// values alike (mode, tile, chunk, strip, masks) the first, at most kMostAttempts in all.
std::vector<Candidate> attempts(const std::vector<Candidate>& all);

/// Raster groups: rows (or columns) of tiles that are walked together.
struct Raster {
  int group = 1;
  bool along_n = false;
};
Raster choose_raster(const device::Config& config, const Problem& problem);

}  // namespace coda::cuda
