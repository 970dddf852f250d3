// SPDX-License-Identifier: Apache-2.0
// The folder of a run: which checkpoints are in it, and one run at a time that writes there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace coda::train {

/// What a checkpoint is wanted for: its weights alone, or all that a run goes on from.
enum class Use : unsigned char { model, resume };

/// N of the name step-N.
std::optional<int64_t> step_of_name(const std::string& name);

/// The checkpoints of a run by step, whole or not; none where there is no such folder.
std::map<int64_t, std::string> checkpoints(const std::string& run);

/// The folder of the last checkpoint of a run that has every file of its use, so a folder that
/// was damaged is passed over; a folder that is a checkpoint or a model itself is returned. Throws
/// Error{io} where there is none.
std::string find_checkpoint(const std::string& path, Use use);

/// Refuses a folder in which a run would destroy or mix what another one left: one with checkpoints
/// or a metrics.csv, unless the checkpoint `from`, with which the run goes on, is in it. Empty: a
/// new run. Also refuses a folder that another process trains in. Touches nothing.
void check_run_folder(const std::string& folder, const std::string& from);

/// Puts the folder `made` in the place of `place`, of which a copy is there at any moment, and
/// flushes the folder around it. Throws Error{io}; then `place` is as it was.
void replace_folder(const std::string& made, const std::string& place);

/// A run's folder, which this process alone trains in while the object lives: the file .lock in it
/// is locked. A crash frees it. On file systems without locks nothing is.
class RunFolder {
 public:
  /// Makes the folder, locks it, checks it as check_run_folder() does and removes checkpoints that
  /// were never finished. Throws Error{io}.
  RunFolder(const std::string& folder, const std::string& from);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  int lock_ = -1;
};

}  // namespace coda::train
