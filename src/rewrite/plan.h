// SPDX-License-Identifier: Apache-2.0
// A plan: an ordered list of steps with their buffers; what a backend executes.
//
// Sizes are per token or fixed, so one plan serves any number of tokens M. A step is a program
// call, attention, or an embedding (or the gradient of one).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/program.h"

namespace coda::rewrite {

struct Buffer {
  enum class Role : unsigned char { input, output, saved, local };
  std::string name;
  Role role = Role::local;
  bool per_token = true;  // rows are tokens
  int64_t rows = 1;       // otherwise; 1 for vectors
  int64_t columns = 1;
  ir::ElementType type;
  bool chunked = false;     // holds the rows of one chunk
  bool summed = false;      // a sum over tokens whose parts the chunks add
  bool ends_block = false;  // what it holds is what every reader sees: recomputation may begin here
};

/// Columns of a buffer, or its transpose; `vector` buffers of one column are [rows].
struct Ref {
  int buffer = -1;
  int64_t first = 0, columns = 0;
  bool transposed = false;
  bool operator==(const Ref&) const = default;
};

struct TensorArgument {
  std::string name;
  std::vector<Ref> segments;  // more than one: side by side along columns, or along rows
  bool along_rows = false;
};

struct ProductTerm {
  std::string accumulator;
  Ref a;
  std::vector<Ref> weights;
};

/// One program on one matrix product (or none): the call's names are those of the program.
struct ProgramCall {
  ir::Program program;
  /// Of a weight gradient: adds to what the gradient holds. Other calls' sums over tokens (outputs
  /// of the plan without rows) are added by whoever runs the plan.
  std::optional<ir::Program> adding;
  bool adds = false;  // always: an earlier step has written the sum's first part
  bool rows_are_tokens = true;
  int64_t rows = 1;  // otherwise
  int64_t columns = 1;
  std::vector<ProductTerm> products;
  std::vector<TensorArgument> inputs, outputs;
  std::vector<TensorArgument> previous;  // inputs of `adding` alone: its outputs as they were
};

struct AttentionCall {
  ir::AttentionShape shape;
  Ref qkv, y, lse;
};
struct AttentionGradientCall {
  ir::AttentionShape shape;
  Ref qkv, y, lse, d_y, d_qkv;
};
struct EmbeddingCall {
  Ref ids, table, out;
};
struct EmbeddingGradientCall {
  Ref ids, d_out, d_table;
  bool adding = false;  // another step has written the table's gradient already
};

struct Step {
  std::string name;  // for reports: what it makes
  std::variant<ProgramCall, AttentionCall, AttentionGradientCall, EmbeddingCall,
               EmbeddingGradientCall>
      call;
};

/// An input of ids or labels, [0, count) or `ignored`; looked at before steps run.
struct Ids {
  int buffer;
  int64_t count;
  std::optional<int64_t> ignored;
};

struct Plan {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Ids> ids;
  std::vector<Step> steps;
  size_t backward = 0;                    // the first step that needs an upstream gradient
  size_t chunk_begin = 0, chunk_end = 0;  // steps that run once for each chunk of tokens
  int64_t chunk_rows = 0;
};

/// Buffers that a step reads and those it writes.
std::vector<Ref> reads(const Step& step);
std::vector<Ref> writes(const Step& step);
/// The same references themselves, for passes that move values to other buffers.
void each_read(Step& step, const std::function<void(Ref&)>& f);
void each_write(Step& step, const std::function<void(Ref&)>& f);

/// Whether the step is a matrix product: a program call with an accumulator.
bool is_gemm(const Step& step);

/// One line a step: what it multiplies, reads and stores; for --dump-passes, reports and tests.
std::string to_string(const Plan& plan);

}  // namespace coda::rewrite
