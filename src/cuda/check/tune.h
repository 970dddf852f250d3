// SPDX-License-Identifier: Apache-2.0
// Finds the fastest of the configurations that the model of time likes best, on a GPU. Only those
// that compute the right thing take part.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cuda/backend/tuned.h"
#include "cuda/check/contender.h"
#include "cuda/check/suite.h"

namespace coda::cuda {

struct TuneOptions {
  Turns turns;
  int candidates = 6;  // of each row
};

/// The row's best configurations by the model, each named in full; empty, and the reason, where the
/// mainloop does not take the call.
struct TuneRow {
  const BenchRow* row = nullptr;
  FusedCall call;
  std::string program;  // tuned_key()
  std::vector<std::string> configs;
  std::string why_none;

  /// What an entry of this row says, but for its configuration.
  TunedEntry entry() const;
};
std::vector<TuneRow> tune_rows(std::span<const BenchRow> rows, int candidates,
                               int multiprocessors = kHopperProcessors);

/// Compiles all of them, and what they are held against, side by side into the cache, where tune()
/// finds them. Needs no GPU.
void compile_candidates(std::span<const TuneRow> rows, int workers);

/// One configuration of a row.
struct Tried {
  std::string config;
  std::string refusal;  // why it takes no part: ptxas refuses it, or its outputs are wrong
  double microseconds = 0;
};

struct TuneResult {
  std::vector<Tried> tried;
  double bare_microseconds = 0;
  std::optional<TunedEntry> entry;  // of the fastest; nothing where none takes part
};

/// Times each configuration, turn and turn about with cuBLAS, and holds them against the unfused
/// way on the same call, fastest first, until one agrees. Throws Error{device} where a launch
/// fails: the GPU's context is lost then; a launch that hangs ends the process where Watch (lane.h)
/// was started.
TuneResult tune(const std::shared_ptr<const Gpu>& gpu, Arena& arena, const TuneRow& row,
                const TuneOptions& options);

// ---- how outputs are compared
// -----------------------------------------------------------------------

/// A matrix of contiguous rows on the host.
struct HostMatrix {
  std::span<const std::byte> bytes;
  int64_t rows = 0, columns = 0;
  DType type = DType::f32;
};

/// "", or where the first difference of two matrices lies that rounding does not explain: in each
/// block of 16 x 64, elements may differ by the accuracy of the type (of bf16 for wider ones) times
/// the block's largest value. Integers must be equal.
std::string difference(const HostMatrix& expected, const HostMatrix& got);

}  // namespace coda::cuda
