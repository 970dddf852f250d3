// SPDX-License-Identifier: Apache-2.0
// What a model is trained on: a file of bytes or tokens, cut into windows of `length` tokens.
//
// The last part of the file is held out for evaluation. The rest is cut into windows anew in every
// epoch, at an offset drawn for it, and each is drawn once (data_order.h). The windows of all
// epochs are numbered through: that number is the whole state of the data, so a run that resumes
// sees exactly what it would have seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/data_file.h"

namespace coda::train {

struct DataOptions {
  std::string path;
  TokenKind kind = TokenKind::bytes;
  int64_t vocabulary = 256;   // of the model: every token is below it
  int64_t sequences = 1;      // windows of a batch
  int64_t length = 256;       // tokens of a window
  int64_t micro_batches = 1;  // of a step, whose gradients are accumulated
  double held_out = 0.05;     // part of the file; 0: none
  uint64_t seed = 0;
  int64_t ignored = -100;  // the label of a token that counts for nothing
};

/// Tokens of `sequences` windows, one after the other.
struct Batch {
  std::vector<int64_t> ids;
  std::vector<int64_t> labels;     // the token that follows each
  std::vector<int64_t> positions;  // in its window, from 0
  std::vector<int64_t> lengths;    // of each window
  int64_t counted = 0;             // labels that are not ignored
};

class Data {
 public:
  /// Opens and checks everything; refuses a file whose training or held-out part has no window and
  /// the token that follows it.
  explicit Data(const DataOptions& options);

  int64_t tokens() const { return file_.tokens(); }
  /// "N tokens, hash X": tells other data from these. The hash is FNV-1a over all bytes of a file
  /// of up to 16 MiB, otherwise over 256 blocks of 64 KiB, evenly spaced, the first and the last
  /// bytes among them: of a larger file a change between blocks is not seen.
  std::string identity() const;
  int64_t held_out_tokens() const { return held_out_; }
  /// Windows of one epoch of training.
  int64_t windows() const { return windows_; }

  /// The number of the window with which a step begins: the data position to save and report.
  int64_t position(int64_t step) const;
  /// One of the micro-batches of a step, both counted from 0.
  Batch batch(int64_t step, int64_t micro) const;
  /// The windows from this data position on.
  Batch batch_at(int64_t position) const;

  /// Batches that cover the held-out windows once, the same in every evaluation. What the last one
  /// lacks of `sequences` repeats windows with ignored labels.
  int64_t held_out_batches() const;
  Batch held_out_batch(int64_t index) const;

 private:
  int64_t training_start(int64_t window) const;
  void add(Batch& batch, int64_t start, bool counts) const;

  DataOptions options_;
  TokenFile file_;
  int64_t held_out_;          // tokens
  int64_t windows_;           // of an epoch
  int64_t held_out_windows_;  // 0 where nothing is held out
};

}  // namespace coda::train
