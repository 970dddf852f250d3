// SPDX-License-Identifier: Apache-2.0
// Configurations that were timed on a GPU: where a call is like one of them, its configuration
// stands before those that the model of time would take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/backend/configure.h"

namespace coda::cuda {

struct TunedEntry {
  std::string program;  // tuned_key()
  std::string layout;   // "NT", "NN", "TN" or "TT"
  int accumulators = 1;
  int64_t m = 0, n = 0, k = 0;  // n of one accumulator
  std::string config;           // as to_string() has it
  double microseconds = 0;
  double ratio = 0;  // to cuBLAS's bare product
  ConfigWish wish;   // what `config` says, all of it

  /// Whether both stand for the same calls.
  bool replaces(const TunedEntry& other) const;
};

struct TunedTable {
  std::string gpu;          // its name
  int multiprocessors = 0;  // calls on GPUs with as many use the table
  std::vector<TunedEntry> entries;
};

/// What of a program matters to a configuration: its ports, pairs and passes, the type of the
/// operands and the number of products that are summed. Not its name: programs that move the same
/// tiles share entries.
std::string tuned_key(const ProgramShape& program, const Problem& problem);
std::string layout_of(const Problem& problem);

/// Throws Error{argument} that names the file, and the entry where one is wrong.
TunedTable parse_tuned(std::string_view text, const std::string& file);
std::string to_json(const TunedTable& table);

/// The wish that only this configuration meets.
ConfigWish exact_wish(const std::string& config);

/// The entry with the problem's program and layout whose M, N and K are nearest, each within a
/// factor of 1.5; null where there is none.
const TunedEntry* find_tuned(const TunedTable& table, const ProgramShape& program,
                             const Problem& problem);

/// The table that coda was built with.
const TunedTable& built_in_table();

}  // namespace coda::cuda
