// SPDX-License-Identifier: Apache-2.0
// metrics.csv: what every step of a run measured, one line each below a header, in a form that any
// tool reads. Lines are written whole and as they come, so the file can be followed and a crash
// costs at most the line that it cut off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coda::train {

struct Metrics {
  int64_t step = 0;
  int64_t tokens = 0;  // seen since the start of the run
  double loss = 0;
  std::optional<double> held_out_loss;  // an empty field where the step did not evaluate
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;
  double seconds = 0;  // since the start of the run
};

/// Every whole line. Refuses a file that cannot be read, another header, a line that is none of
/// Metrics and steps that do not increase.
std::vector<Metrics> read_metrics(const std::string& path);

/// Appends to the metrics of a run.
class MetricsFile {
 public:
  /// The steps that a run has done, of which the last is `last_step`; -1: none. Lines of later
  /// steps and a line that was cut off are dropped; a file that is not there is made. Refuses what
  /// read_metrics() refuses, and leaves such a file as it is.
  MetricsFile(std::string path, int64_t last_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Refuses a step that is not above the one before.
  void append(const Metrics& metrics);

 private:
  std::string path_;
  int64_t last_step_ = -1;  // in the file
  int descriptor_ = -1;
};

}  // namespace coda::train
