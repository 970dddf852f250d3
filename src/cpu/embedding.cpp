// SPDX-License-Identifier: Apache-2.0
#include "cpu/embedding.h"

#include <coda/error.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/convert.h"
#include "cpu/kernels.h"
#include "cpu/operand.h"
#include "cpu/workers.h"

namespace coda::cpu {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kRows = 64;  // of a table or of tokens that a worker takes at a time
constexpr std::array kIdTypes = {DType::i64, DType::i32};
constexpr std::array kValueTypes = {DType::f32, DType::bf16, DType::f16};

int64_t id_at(const TensorView& ids, int64_t i) {
  return ids.dtype == DType::i64 ? static_cast<const int64_t*>(ids.data)[i * ids.strides[0]]
                                 : static_cast<const int32_t*>(ids.data)[i * ids.strides[0]];
}

std::byte* row_of(const TensorView& matrix, int64_t row) {
  return static_cast<std::byte*>(matrix.data) +
         row * matrix.strides[0] * static_cast<int64_t>(size_of(matrix.dtype));
}

/// An extent by which others are checked, before the tensor itself is.
int64_t extent(const Operand& operand, int rank, int axis) {
  const TensorView& view = operand.view;
  if (view.rank != rank)
    throw Error(ErrorKind::shape, operand.where(), rank == 1 ? "a vector" : "a matrix",
                "rank " + std::to_string(view.rank), "pass a view of that rank");
  if (view.shape[axis] < 0)
    throw Error(ErrorKind::shape, operand.where(), "extents of at least 0",
                std::to_string(view.shape[axis]), "pass the real shape");
  return view.shape[axis];
}

/// Checks everything of a call: `values` has a row per token, `table` one per id.
void check(const Operand& ids, const Operand& values, const Operand& table) {
  const int64_t tokens = extent(ids, 1, 0);
  const int64_t vocabulary = extent(table, 2, 0), columns = extent(table, 2, 1);
  check_type(ids, kIdTypes, "convert the ids");
  check_vector(ids, tokens, "one per token");
  check_matrix(table, vocabulary, "one per id", columns, "the table's own");
  check_matrix(values, tokens, "one per token", columns, "as the table has");
  check_overlap(std::array{ids, values, table});
  for (int64_t i = 0; i < tokens; ++i)
    if (const int64_t id = id_at(ids.view, i); id < 0 || id >= vocabulary)
      throw Error(ErrorKind::argument, ids.where(),
                  "ids from 0 to " + std::to_string(vocabulary - 1) + ", rows of the table",
                  std::to_string(id) + " at token " + std::to_string(i),
                  "use the tokenizer that belongs to the table");
}

/// Where things lie in the gradient's workspace.
struct Workspace {
  int workers;
  int64_t ends, order, rows, row_floats, total;

  Workspace(int64_t tokens, int64_t vocabulary, int64_t columns, int threads) {
    const char* where = "[embedding_gradient]";
    for (const int64_t size : {tokens, vocabulary, columns})
      if (size < 0)
        throw Error(ErrorKind::shape, where, "sizes of at least 0", std::to_string(size),
                    "pass the real sizes");
    const auto bytes = [&](int64_t count, size_t each) {
      const int64_t sum = checked_multiply(count, static_cast<int64_t>(each), where);
      return checked_add(sum, kAlign, where) / kAlign * kAlign;
    };
    workers = worker_count(threads, ceil_divide(vocabulary, kRows));
    row_floats = bytes(columns, sizeof(float)) / static_cast<int64_t>(sizeof(float));
    ends = 0;
    order = bytes(checked_add(vocabulary, 1, where), sizeof(int64_t));
    rows = checked_add(order, bytes(tokens, sizeof(int64_t)), where);
    total = checked_add(rows, bytes(checked_multiply(workers, row_floats, where), sizeof(float)),
                        where);
    total = checked_add(total, kAlign, where);
  }
};

/// Tokens by id, those of one id in their own order: order[ends[v - 1] .. ends[v]) are the tokens
/// of id v, with ends[-1] as 0.
void sort_tokens(const TensorView& ids, int64_t vocabulary, int64_t* ends, int64_t* order) {
  std::fill_n(ends, vocabulary + 1, 0);
  for (int64_t i = 0; i < ids.shape[0]; ++i) ++ends[id_at(ids, i) + 1];
  for (int64_t v = 0; v < vocabulary; ++v) ends[v + 1] += ends[v];
  // ends[v] is where v begins; placing its tokens moves it to where v ends.
  for (int64_t i = 0; i < ids.shape[0]; ++i) order[ends[id_at(ids, i)]++] = i;
}

}  // namespace

void embedding(const TensorView& ids, const TensorView& table, const TensorView& out, int threads) {
  const Operand output{"embedding", "out", out, true}, source{"embedding", "table", table};
  check_type(source, kValueTypes, "convert the table");
  check_type(output, std::array{table.dtype}, "use the type of the table");
  check({"embedding", "ids", ids}, output, source);
  const int64_t tokens = ids.shape[0], units = ceil_divide(tokens, kRows);
  const size_t bytes = static_cast<size_t>(table.shape[1]) * size_of(table.dtype);
  if (bytes == 0) return;
  run_workers(worker_count(threads, units), units, [&](int, const auto& next) {
    for (int64_t unit = next(); unit >= 0; unit = next())
      for (int64_t i = unit * kRows; i < std::min((unit + 1) * kRows, tokens); ++i)
        std::memcpy(row_of(out, i), row_of(table, id_at(ids, i)), bytes);
  });
}

size_t embedding_gradient_workspace(int64_t tokens, int64_t vocabulary, int64_t columns,
                                    int threads) {
  return static_cast<size_t>(Workspace(tokens, vocabulary, columns, threads).total);
}

void embedding_gradient(const TensorView& ids, const TensorView& dout, const TensorView& dtable,
                        bool accumulate, void* workspace, int threads) {
  const char* name = "embedding_gradient";
  const Operand table{name, "dtable", dtable, true}, values{name, "dout", dout};
  check_type(values, kValueTypes, "convert the gradient");
  check_type(table, std::array{DType::f32}, "gradients of weights are summed in float32");
  check({name, "ids", ids}, values, table);
  const int64_t vocabulary = dtable.shape[0], columns = dtable.shape[1];
  const Workspace layout(ids.shape[0], vocabulary, columns, threads);
  check_workspace(name, workspace, static_cast<size_t>(layout.total));
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  std::byte* base = static_cast<std::byte*>(workspace) + (kAlign - address % kAlign) % kAlign;
  auto* ends = reinterpret_cast<int64_t*>(base + layout.ends);
  auto* order = reinterpret_cast<int64_t*>(base + layout.order);
  sort_tokens(ids, vocabulary, ends, order);

  const MemoryKernel load = kernels(best_isa()).load[static_cast<int>(dout.dtype)];
  const int64_t units = ceil_divide(vocabulary, kRows);
  run_workers(layout.workers, units, [&](int worker, const auto& next) {
    float* widened = reinterpret_cast<float*>(base + layout.rows) + worker * layout.row_floats;
    for (int64_t unit = next(); unit >= 0; unit = next())
      for (int64_t v = unit * kRows; v < std::min((unit + 1) * kRows, vocabulary); ++v) {
        auto* sum = reinterpret_cast<float*>(row_of(dtable, v));
        if (!accumulate) std::fill_n(sum, columns, 0.0f);
        for (int64_t at = v == 0 ? 0 : ends[v - 1]; at < ends[v]; ++at) {
          load({1, columns, row_of(dout, order[at]), 0, 1, widened, 0, 1});
          for (int64_t j = 0; j < columns; ++j) sum[j] += widened[j];
        }
      }
  });
}

}  // namespace coda::cpu
