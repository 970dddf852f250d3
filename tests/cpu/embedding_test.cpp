// SPDX-License-Identifier: Apache-2.0
#include "cpu/embedding.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/convert.h"

namespace coda::test {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr int64_t kPadding = 3;  // elements between rows, 0xff bytes as all that is not set

struct Buffer {
  Buffer(int64_t rows_of, int64_t columns_of, DType type_of)
      : rows(rows_of), columns(columns_of), type(type_of) {
    bytes.assign(static_cast<size_t>(rows * (columns + kPadding) + 64) * size_of(type),
                 std::byte{0xff});
  }
  std::byte* at(int64_t i, int64_t j) {
    return bytes.data() + static_cast<size_t>(i * (columns + kPadding) + j) * size_of(type);
  }
  double get(int64_t i, int64_t j) { return load_element(at(i, j), type); }
  void fill(unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> draw(-2, 2);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) store_element(at(i, j), type, draw(engine));
  }
  TensorView view() { return matrix_view(bytes.data(), rows, columns, type, columns + kPadding); }
  void expect_padding() {
    std::vector<std::byte> copy = bytes;
    for (int64_t i = 0; i < rows; ++i)
      std::memset(copy.data() + (at(i, 0) - bytes.data()), 0xff,
                  static_cast<size_t>(columns) * size_of(type));
    for (const std::byte b : copy) ASSERT_EQ(b, std::byte{0xff});
  }
  int64_t rows, columns;
  DType type;
  std::vector<std::byte> bytes;
};

/// Ids in memory of either type, `stride` elements apart; what lies between is no id.
struct Ids {
  Ids(std::vector<int64_t> values_of, DType type, int64_t stride = 1)
      : values(std::move(values_of)), memory(values.size() * static_cast<size_t>(stride), -1) {
    view = vector_view(memory.data(), static_cast<int64_t>(values.size()), type);
    view.strides[0] = stride;
    auto* bytes = reinterpret_cast<std::byte*>(memory.data());
    for (size_t i = 0; i < values.size(); ++i)
      store_integer(bytes + i * static_cast<size_t>(stride) * size_of(type), type, values[i]);
  }
  std::vector<int64_t> values, memory;
  TensorView view;
};

std::vector<int64_t> random_ids(int64_t tokens, int64_t vocabulary, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i)  // a third are one id, as in text
    ids.push_back(engine() % 3 == 0 ? vocabulary / 2 : engine() % vocabulary);
  return ids;
}

void gradient(Ids& ids, Buffer& dout, Buffer& dtable, bool accumulate, int threads = 1) {
  const size_t bytes =
      cpu::embedding_gradient_workspace(ids.view.shape[0], dtable.rows, dtable.columns, threads);
  std::vector<std::byte> workspace(bytes + 64, std::byte{0xff});
  cpu::embedding_gradient(ids.view, dout.view(), dtable.view(), accumulate, workspace.data() + 3,
                          threads);
  for (size_t i = bytes + 3; i < workspace.size(); ++i) ASSERT_EQ(workspace[i], std::byte{0xff});
  dtable.expect_padding();
}

TEST(Embedding, GathersRows) {
  for (const DType type : kTypes)
    for (const DType id_type : {DType::i32, DType::i64})
      for (const int64_t tokens : {0, 1, 7, 300})
        for (const int64_t columns : {0, 1, 33})
          for (const int threads : {1, 2, 3}) {
            Buffer table(150, columns, type), out(tokens, columns, type);
            table.fill(1);
            Ids ids(random_ids(tokens, 150, 2), id_type, 1 + tokens % 3);
            cpu::embedding(ids.view, table.view(), out.view(), threads);
            for (int64_t i = 0; i < tokens; ++i)
              ASSERT_EQ(std::memcmp(out.at(i, 0), table.at(ids.values[i], 0),
                                    static_cast<size_t>(columns) * size_of(type)),
                        0)
                  << i;
            out.expect_padding();
          }
}

TEST(EmbeddingGradient, SumsInTheOrderOfTokens) {
  for (const DType type : kTypes)
    for (const bool accumulate : {false, true})
      for (const int64_t tokens : {0, 1, 500})
        for (const int64_t columns : {0, 1, 37}) {
          Buffer dout(tokens, columns, type), dtable(150, columns, DType::f32);
          dout.fill(3);
          if (accumulate) dtable.fill(4);
          std::vector<float> expected;
          Ids ids(random_ids(tokens, 150, 5), DType::i32);
          for (int64_t v = 0; v < 150; ++v)
            for (int64_t j = 0; j < columns; ++j) {
              float sum = accumulate ? static_cast<float>(dtable.get(v, j)) : 0.0f;
              for (int64_t i = 0; i < tokens; ++i)
                if (ids.values[i] == v) sum += static_cast<float>(dout.get(i, j));
              expected.push_back(sum);
            }
          ASSERT_NO_FATAL_FAILURE(gradient(ids, dout, dtable, accumulate));
          for (int64_t v = 0; v < 150; ++v)
            for (int64_t j = 0; j < columns; ++j)
              ASSERT_EQ(dtable.get(v, j), expected[static_cast<size_t>(v * columns + j)])
                  << v << ", " << j;
        }
}

/// d sum(w * embedding(table)) / d table, which is linear: a difference is exact but for rounding.
TEST(EmbeddingGradient, IsThatOfFiniteDifferences) {
  Buffer table(9, 4, DType::f32), out(40, 4, DType::f32), weights(40, 4, DType::f32),
      dtable(9, 4, DType::f32);
  table.fill(6), weights.fill(7);
  Ids ids(random_ids(40, 9, 8), DType::i64);
  gradient(ids, weights, dtable, false);
  const auto loss = [&] {
    cpu::embedding(ids.view, table.view(), out.view(), 1);
    double sum = 0;
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < 4; ++j) sum += weights.get(i, j) * out.get(i, j);
    return sum;
  };
  const double before = loss();
  for (int64_t v = 0; v < 9; ++v)
    for (int64_t j = 0; j < 4; ++j) {
      const double kept = table.get(v, j);
      store_element(table.at(v, j), DType::f32, kept + 1);
      const double step = table.get(v, j) - kept;
      EXPECT_NEAR((loss() - before) / step, dtable.get(v, j), 1e-5);
      store_element(table.at(v, j), DType::f32, kept);
    }
}

TEST(EmbeddingGradient, ThreadsDoNotChangeBits) {
  for (const DType type : kTypes) {
    Buffer dout(700, 19, type), one(333, 19, DType::f32);
    dout.fill(9);
    Ids ids(random_ids(700, 333, 10), DType::i64);
    gradient(ids, dout, one, false, 1);
    for (const int threads : {2, 3}) {
      Buffer more(333, 19, DType::f32);
      gradient(ids, dout, more, false, threads);
      EXPECT_EQ(one.bytes, more.bytes);
    }
  }
}

void expect_refused(const std::function<void()>& run, const std::string& part) {
  try {
    run();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
    EXPECT_STRNE(error.fix(), "");
  }
}

TEST(Embedding, RefusesBadCalls) {
  Buffer table(20, 6, DType::bf16), out(5, 6, DType::bf16), dtable(20, 6, DType::f32);
  table.fill(11);
  Buffer dout = out;
  std::vector<std::byte> workspace(1 << 16);
  using Change = std::function<void(TensorView & ids, TensorView & table, TensorView & values)>;
  const auto with = [&](const Change& change, const std::string& part,
                        std::vector<int64_t> values = {3, 0, 19, 3, 4}) {
    Ids ids(std::move(values), DType::i64);
    TensorView i = ids.view, t = table.view(), o = out.view();
    change(i, t, o);
    expect_refused([&] { cpu::embedding(i, t, o, 1); }, part);
    i = ids.view, t = dtable.view(), o = dout.view();
    change(i, t, o);
    expect_refused([&] { cpu::embedding_gradient(i, o, t, false, workspace.data(), 1); }, part);
    for (const Buffer* buffer : {&out, &dtable})
      for (const std::byte b : buffer->bytes) ASSERT_EQ(b, std::byte{0xff});
  };
  const auto nothing = [](auto&...) {};
  with(nothing, "expected ids from 0 to 19, rows of the table, got 20 at token 2",
       {3, 0, 20, 3, -1});
  with(nothing, "got -1 at token 4", {3, 0, 19, 3, -1});
  with([](auto& ids, auto&, auto&) { ids.dtype = DType::f32; }, "expected i64 or i32, got f32");
  with([](auto& ids, auto&, auto&) { ids.rank = 2; },
       "argument 'ids': expected a vector, got rank 2");
  with([](auto& ids, auto&, auto&) { ids.data = nullptr; }, "expected memory, got a null pointer");
  with([](auto& ids, auto&, auto&) { ids.strides[0] = -1; }, "expected a stride of at least 0");
  with([](auto& ids, auto&, auto&) { ids.shape[0] = 4; }, "expected 4 rows, one per token, got 5");
  with([](auto&, auto& t, auto&) { t.shape[0] = -2; }, "expected extents of at least 0, got -2");
  with([](auto&, auto& t, auto&) { t.dtype = DType::i32; }, "table': expected f32");
  with([](auto&, auto& t, auto&) { t.strides[0] = 5; }, "at least 6 elements apart");
  with([](auto&, auto&, auto& v) { v.shape[1] = 5; },
       "expected 6 columns, as the table has, got 5");
  with([](auto&, auto&, auto& v) { v.strides[1] = 2; }, "expected columns side by side (stride 1)");
  with([](auto&, auto& t, auto& v) { v.data = t.data; },
       "memory that nothing else of the call uses");
  Ids ids({1, 2, 3, 4, 5}, DType::i32);
  expect_refused(
      [&] { cpu::embedding_gradient(ids.view, out.view(), dtable.view(), false, nullptr, 1); },
      "argument 'workspace'");
  Buffer wide(5, 6, DType::f32);
  expect_refused([&] { cpu::embedding(ids.view, table.view(), wide.view(), 1); },
                 "argument 'out': expected bf16, got f32");
  expect_refused([] { cpu::embedding_gradient_workspace(-1, 2, 3, 1); }, "sizes of at least 0");
}

}  // namespace
}  // namespace coda::test
