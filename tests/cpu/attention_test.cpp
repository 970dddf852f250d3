// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "attention_reference.h"
#include "base/convert.h"

namespace coda::test {
namespace {

/// A matrix in a buffer of 0xff bytes, NaN in every type, that reach beyond it on all sides.
class Buffer {
 public:
  Buffer(int64_t rows, int64_t columns, DType type, int64_t pitch = 0)
      : rows_(rows), columns_(columns), pitch_(pitch ? pitch : columns), type_(type) {
    bytes_.assign(static_cast<size_t>(2 * kMargin + rows * pitch_) * size_of(type),
                  std::byte{0xff});
  }
  void set(const std::vector<double>& values) {
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j)
        store_element(at(i, j), type_, values[static_cast<size_t>(i * columns_ + j)]);
  }
  void poison() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xff}); }
  std::vector<double> get() {
    std::vector<double> values;
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j) values.push_back(load_element(at(i, j), type_));
    return values;
  }
  TensorView view() { return matrix_view(at(0, 0), rows_, columns_, type_, pitch_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  DType type() const { return type_; }
  /// That nothing but the matrix was written.
  void expect_margins() {
    std::vector<std::byte> copy = bytes_;
    for (int64_t i = 0; i < rows_; ++i)
      std::memset(copy.data() + (at(i, 0) - bytes_.data()), 0xff,
                  static_cast<size_t>(columns_) * size_of(type_));
    EXPECT_TRUE(std::all_of(copy.begin(), copy.end(), [](std::byte b) {
      return b == std::byte{0xff};
    })) << "bytes outside a matrix were written";
  }

 private:
  static constexpr int64_t kMargin = 64;
  std::byte* at(int64_t i, int64_t j) {
    return bytes_.data() + static_cast<size_t>(kMargin + i * pitch_ + j) * size_of(type_);
  }
  int64_t rows_, columns_, pitch_;
  DType type_;
  std::vector<std::byte> bytes_;
};

std::vector<double> random_values(int64_t size, DType type, unsigned seed, double range = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-range, range);
  std::vector<double> values(static_cast<size_t>(size));
  for (double& value : values) {
    std::byte element[8];
    store_element(element, type, draw(engine));
    value = load_element(element, type);
  }
  return values;
}

void expect_near(const std::vector<double>& got, const Bounded& expected, DType type,
                 const char* what) {
  ASSERT_EQ(got.size(), expected.value.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double exact = expected.value[i];
    const double bound = expected.error[i] + rounding(type, std::abs(exact) + expected.error[i]);
    ASSERT_LE(std::abs(got[i] - exact), bound)
        << what << " " << i << ": " << got[i] << " instead of " << exact;
  }
}

/// A call of both passes with buffers that are wider than their matrices.
struct Call {
  Call(const AttentionShape& shape_of, DType type, unsigned seed = 1, double range = 2)
      : shape(shape_of),
        qkv(shape.tokens(), shape.width(), type, shape.width() + 3),
        y(shape.tokens(), shape.query_width(), type, shape.query_width() + 5),
        lse(shape.tokens(), shape.query_heads, DType::f32, shape.query_heads + 1),
        dy(shape.tokens(), shape.query_width(), type, shape.query_width() + 1),
        dqkv(shape.tokens(), shape.width(), type, shape.width() + 7) {
    qkv_values = random_values(shape.tokens() * shape.width(), type, seed, range);
    dy_values = random_values(shape.tokens() * shape.query_width(), type, seed + 1);
    qkv.set(qkv_values), dy.set(dy_values);
  }

  cpu::AttentionOptions options() const {
    cpu::AttentionOptions o{shape.query_heads,
                            shape.key_heads,
                            shape.head_size,
                            static_cast<float>(shape.scale),
                            static_cast<float>(shape.softcap),
                            shape.window};
    if (shape.ends.size() > 2) o.cumulative_lengths = shape.ends;
    o.isa = isa;
    return o;
  }

  template <class Run>
  void with_workspace(size_t bytes, const Run& run) {
    std::vector<std::byte> workspace(bytes + 64, std::byte{0xff});
    run(workspace.data() + 4);  // any alignment
    for (size_t i = bytes + 4; i < workspace.size(); ++i)
      ASSERT_EQ(workspace[i], std::byte{0xff}) << "beyond a workspace of " << bytes;
  }
  void forward(int threads = 1) {
    y.poison(), lse.poison();
    with_workspace(cpu::attention_workspace(options(), shape.tokens(), threads), [&](void* w) {
      cpu::attention(options(), qkv.view(), y.view(), lse.view(), w, threads);
    });
    y.expect_margins(), lse.expect_margins();
  }
  void backward(int threads = 1) {
    dqkv.poison();
    with_workspace(cpu::attention_gradient_workspace(options(), shape.tokens(), threads),
                   [&](void* w) {
                     cpu::attention_gradient(options(), qkv.view(), y.view(), lse.view(), dy.view(),
                                             dqkv.view(), w, threads);
                   });
    dqkv.expect_margins();
  }
  /// Both passes against float64.
  void check(int threads = 1) {
    forward(threads);
    const AttentionResult exact = attention_reference(shape, qkv_values);
    expect_near(y.get(), exact.y, y.type(), "y");
    expect_near(lse.get(), exact.lse, DType::f32, "lse");
    backward(threads);
    expect_near(dqkv.get(),
                attention_gradient_reference(shape, qkv_values, y.get(), lse.get(), dy_values),
                dqkv.type(), "dqkv");
  }

  AttentionShape shape;
  Buffer qkv, y, lse, dy, dqkv;
  std::vector<double> qkv_values, dy_values;
  std::optional<cpu::Isa> isa;
};

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr std::pair<int64_t, int64_t> kHeads[] = {{1, 1}, {4, 2}, {16, 1}};

AttentionShape shape_of(std::pair<int64_t, int64_t> heads, int64_t head_size,
                        std::vector<int64_t> ends, int64_t window = 0, double softcap = 0) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_size)));
  return {heads.first, heads.second, head_size, std::move(ends), window, softcap, scale};
}

std::string text(const AttentionShape& s, DType type) {
  return std::to_string(s.query_heads) + "/" + std::to_string(s.key_heads) + " heads of " +
         std::to_string(s.head_size) + ", " + std::to_string(s.tokens()) + " tokens, window " +
         std::to_string(s.window) + ", softcap " + std::to_string(s.softcap) + ", " + name_of(type);
}

const std::vector<std::vector<int64_t>> kLengths = {{0, 0},  {0, 1},   {0, 5},    {0, 64},
                                                    {0, 65}, {0, 200}, {0, 4, 8}, {0, 0, 3, 3, 70}};

// ---- the float64 gradient itself

TEST(AttentionReference, GradientIsThatOfFiniteDifferences) {
  for (const double softcap : {0.0, 1.5})
    for (const int64_t window : {0, 3}) {
      const AttentionShape shape = shape_of({4, 2}, 3, {0, 0, 2, 9}, window, softcap);
      std::vector<double> qkv = random_values(shape.tokens() * shape.width(), DType::f64, 3, 2);
      const auto dy = random_values(shape.tokens() * shape.query_width(), DType::f64, 4);
      const AttentionResult forward = attention_reference(shape, qkv);
      const Bounded gradient =
          attention_gradient_reference(shape, qkv, forward.y.value, forward.lse.value, dy);
      const auto loss = [&] {
        const AttentionResult result = attention_reference(shape, qkv);
        double sum = 0;
        for (size_t i = 0; i < dy.size(); ++i) sum += dy[i] * result.y.value[i];
        return sum;
      };
      for (size_t i = 0; i < qkv.size(); ++i) {
        const double kept = qkv[i], step = 1e-4;
        qkv[i] = kept + step;
        const double above = loss();
        qkv[i] = kept - step;
        const double below = loss();
        qkv[i] = kept;
        EXPECT_NEAR((above - below) / (2 * step), gradient.value[i], 1e-7) << i;
      }
    }
}

// ---- values

TEST(Attention, EveryShape) {
  constexpr int64_t kWindows[] = {0, 1, 7, 64};
  unsigned n = 0;
  for (const auto& heads : kHeads)
    for (const int64_t head_size : {8, 32, 80, 128})
      for (const auto& ends : kLengths) {
        // Windows, caps and types take turns, out of step with the shapes.
        const AttentionShape shape =
            shape_of(heads, head_size, ends, kWindows[(n + n / 8) % 4], (n / 3) % 2 ? 1.25 : 0);
        const DType type = kTypes[(n + n / 32) % 3];
        SCOPED_TRACE(text(shape, type));
        ASSERT_NO_FATAL_FAILURE(Call(shape, type, ++n).check());
      }
}

TEST(Attention, EveryOptionInEveryType) {
  for (const DType type : kTypes)
    for (const int64_t window : {0, 1, 7, 64, 1000})
      for (const double softcap : {0.0, 0.5, 30.0})
        for (const auto& ends : {std::vector<int64_t>{0, 110}, {0, 0, 3, 3, 70}}) {
          const AttentionShape shape = shape_of({4, 2}, 8, ends, window, softcap);
          SCOPED_TRACE(text(shape, type));
          ASSERT_NO_FATAL_FAILURE(Call(shape, type, 7).check());
        }
}

TEST(Attention, EveryInstructionSet) {
  for (const cpu::Isa isa : {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (!cpu::supports(isa)) continue;
    for (const int64_t head_size : {1, 5, 33, 64})
      for (const int64_t window : {0, 20}) {
        const AttentionShape shape = shape_of({6, 3}, head_size, {0, 97, 103, 300}, window, 2);
        SCOPED_TRACE(text(shape, DType::f32));
        Call call(shape, DType::f32, 11);
        call.isa = isa;
        ASSERT_NO_FATAL_FAILURE(call.check());
      }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionShape shape = shape_of({2, 2}, 16, {0, 120});
  shape.scale = 40;
  Call call(shape, DType::f32, 5);
  call.check();
  for (const double value : call.dqkv.get()) EXPECT_TRUE(std::isfinite(value));
}

/// Both passes one after the other: y and lse are rounded in between, which costs a few eps of the
/// largest gradient.
TEST(Attention, GradientIsThatOfTheExactFunction) {
  const AttentionShape shape = shape_of({4, 2}, 32, {0, 50, 200}, 64, 3);
  Call call(shape, DType::f32, 9);
  call.forward();
  call.backward();
  const AttentionResult exact = attention_reference(shape, call.qkv_values);
  const Bounded gradient = attention_gradient_reference(shape, call.qkv_values, exact.y.value,
                                                        exact.lse.value, call.dy_values);
  const std::vector<double> got = call.dqkv.get();
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - gradient.value[i]));
    size = std::max(size, std::abs(gradient.value[i]));
  }
  EXPECT_LE(error, 64 * kEps * size);
}

TEST(Attention, SequencesDoNotMeet) {
  const AttentionShape shape = shape_of({2, 1}, 8, {0, 70, 140});
  Call call(shape, DType::f32);
  call.forward(), call.backward();
  const auto y = call.y.get(), dqkv = call.dqkv.get();
  std::vector<double> spoilt = call.qkv_values;
  for (size_t i = static_cast<size_t>(70 * shape.width()); i < spoilt.size(); ++i)
    spoilt[i] = std::numeric_limits<double>::quiet_NaN();
  call.qkv.set(spoilt);
  call.forward(), call.backward();
  const auto compare = [](const std::vector<double>& a, const std::vector<double>& b, int64_t end) {
    for (size_t i = 0; i < static_cast<size_t>(end); ++i) ASSERT_EQ(a[i], b[i]) << i;
    for (size_t i = static_cast<size_t>(end); i < b.size(); ++i) ASSERT_TRUE(std::isnan(b[i])) << i;
  };
  compare(y, call.y.get(), 70 * shape.query_width());
  compare(dqkv, call.dqkv.get(), 70 * shape.width());
}

TEST(Attention, ThreadsDoNotChangeBits) {
  for (const DType type : kTypes)
    for (const auto& heads : kHeads) {
      Call call(shape_of(heads, 32, {0, 130, 130, 200, 201}, 64, 2), type);
      call.forward(1), call.backward(1);
      const auto y = call.y.bytes(), lse = call.lse.bytes(), dqkv = call.dqkv.bytes();
      for (const int threads : {2, 3}) {
        call.forward(threads), call.backward(threads);
        EXPECT_EQ(call.y.bytes(), y);
        EXPECT_EQ(call.lse.bytes(), lse);
        EXPECT_EQ(call.dqkv.bytes(), dqkv);
      }
    }
}

// ---- refused

class Refused : public testing::Test {
 protected:
  using Views = std::vector<TensorView>;  // qkv, y, lse, dy, dqkv
  Refused() : call(shape_of({4, 2}, 8, {0, 10}), DType::f32) {
    options = call.options();
    views = {call.qkv.view(), call.y.view(), call.lse.view(), call.dy.view(), call.dqkv.view()};
  }
  /// Both passes, or the backward alone, say `part` and write nothing.
  void expect(const std::string& part, bool backward_only = false) {
    std::vector<std::byte> workspace(1 << 20);
    const auto refused = [&](const std::function<void()>& run) {
      try {
        run();
        ADD_FAILURE() << "accepted; expected: " << part;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(part));
        EXPECT_STRNE(error.fix(), "");
      }
    };
    void* memory = with_workspace ? workspace.data() : nullptr;
    if (!backward_only)
      refused([&] { cpu::attention(options, views[0], views[1], views[2], memory, 1); });
    refused([&] {
      cpu::attention_gradient(options, views[0], views[1], views[2], views[3], views[4], memory, 1);
    });
    for (Buffer* output : {&call.y, &call.lse, &call.dqkv})
      for (const std::byte b : output->bytes()) ASSERT_EQ(b, std::byte{0xff});
  }
  Call call;
  cpu::AttentionOptions options;
  Views views;
  bool with_workspace = true;
};

TEST_F(Refused, Options) {
  const cpu::AttentionOptions good = options;
  const auto with = [&](const std::function<void()>& change, const std::string& part) {
    options = good;
    change();
    expect(part);
  };
  with([&] { options.query_heads = 0; }, "option 'query_heads': expected at least 1, got 0");
  with([&] { options.query_heads = 3; }, "expected a multiple of the 2 key heads, got 3");
  with([&] { options.key_heads = -1; }, "option 'key_heads'");
  with([&] { options.head_size = 0; }, "option 'head_size'");
  with([&] { options.head_size = int64_t{1} << 62; }, "expected a size below 2^63");
  with([&] { options.scale = std::nanf(""); }, "option 'scale': expected a finite number");
  with([&] { options.softcap = -1; }, "option 'softcap'");
  with([&] { options.softcap = HUGE_VALF; }, "option 'softcap'");
  with([&] { options.window = -1; }, "option 'window': expected at least 0, got -1");
  std::vector<int64_t> ends;
  const auto with_ends = [&](std::vector<int64_t> values, const std::string& part) {
    ends = std::move(values);
    with([&] { options.cumulative_lengths = ends; }, part);
  };
  with_ends({1, 10}, "expected 0 first, got 1");
  with_ends({0, 4, 3, 10}, "expected numbers that never fall, got 4 before 3 at 2");
  with_ends({0, 4, 9}, "expected 10 last, the number of tokens, got 9");
  with_ends({0}, "expected 10 last");
}

TEST_F(Refused, Tensors) {
  const Views good = views;
  const auto with = [&](size_t index, const std::function<void(TensorView&)>& change,
                        const std::string& part) {
    views = good;
    change(views[index]);
    expect(part, index > 2);
  };
  const char* names[] = {"qkv", "y", "lse", "dy", "dqkv"};
  for (size_t i = 0; i < 5; ++i) {
    const std::string argument = "argument '" + std::string(names[i]) + "'";
    with(
        i, [](TensorView& v) { v.rank = 1; }, argument + ": expected a matrix, got rank 1");
    with(
        i, [](TensorView& v) { v.data = nullptr; }, argument + ": expected memory, got a null");
    with(
        i, [](TensorView& v) { v.shape[1] -= 1; }, argument + ": expected ");
    with(
        i, [](TensorView& v) { v.strides[1] = 2; }, "expected columns side by side (stride 1)");
    with(
        i, [](TensorView& v) { v.strides[0] = v.shape[1] - 1; }, "elements apart, got row stride");
    with(
        i, [](TensorView& v) { v.strides[0] = INT64_MAX / 4; }, "expected a size below 2^63");
    with(
        i, [](TensorView& v) { v.device.kind = Device::Kind::cuda; }, "expected memory of the CPU");
    with(
        i, [](TensorView& v) { v.data = static_cast<std::byte*>(v.data) + 1; },
        "1 bytes beyond one");
    with(
        i, [](TensorView& v) { v.dtype = DType::i32; }, argument + ": expected f32");
    if (i > 0)
      with(
          i, [](TensorView& v) { v.shape[0] -= 1; },
          argument + ": expected 10 rows, one per token, got 9");
  }
  with(
      1, [](TensorView& v) { v.dtype = DType::bf16; }, "argument 'y': expected f32, got bf16");
  with(
      0, [](TensorView& v) { v.shape[0] = -1; }, "expected at least 0 tokens, got -1");
  with(
      4, [&](TensorView& v) { v = good[0]; }, "memory shared with input 'qkv'");
  with(
      4, [&](TensorView& v) { v.data = good[3].data; }, "memory shared with input 'dy'");
  views = good;
  with_workspace = false;
  expect("argument 'workspace'");
}

TEST_F(Refused, SharedOutputs) {
  views[1].data = views[0].data;
  std::vector<std::byte> workspace(1 << 20);
  EXPECT_THROW(cpu::attention(options, views[0], views[1], views[2], workspace.data(), 1), Error);
}

}  // namespace
}  // namespace coda::test
