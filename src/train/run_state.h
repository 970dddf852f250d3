// SPDX-License-Identifier: Apache-2.0
// state.json of a checkpoint: how far a run is, and what must be the same for it to go on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace coda::train {

struct RunState {
  int64_t step = 0;           // steps done
  int64_t tokens = 0;         // counted so far
  int64_t data_position = 0;  // window that the next step begins with
  /// What must be the same for the run to go on as it would have: seed, sizes of batches, schedule;
  /// under "data" what identifies the data (Data::identity), under "steps" how many the run has.
  std::map<std::string, std::string> settings;
};

/// The text of state.json.
std::string state_text(const RunState& state);

/// Reads state.json of a checkpoint's folder. Throws Error{io} for what is no such file of this
/// schema, numbers below 0, a step beyond the "steps" of the settings, and a step other than the
/// one in the folder's name, where that is step-N.
RunState read_state(const std::string& folder);

/// Throws Error{argument} naming the first of `settings` that the run began otherwise with.
void require_same_settings(const RunState& state,
                           const std::map<std::string, std::string>& settings);

}  // namespace coda::train
