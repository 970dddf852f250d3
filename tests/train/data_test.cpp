// SPDX-License-Identifier: Apache-2.0
// Data: every window of an epoch once and in an order of the seed's, batches that are the file's
// tokens and the ones after them, the held-out part apart, and every file that is refused.
#include "train/data.h"

#include <coda/error.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "support/folder.h"
#include "train/data_order.h"
#include "train/random.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

class DataTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// A file of tokens of `size` bytes each, least significant byte first.
  std::string write(const std::string& name, const std::vector<int64_t>& tokens, int size) const {
    std::ofstream file(path(name), std::ios::binary);
    for (const int64_t token : tokens)
      for (int byte = 0; byte < size; ++byte) file.put(static_cast<char>(token >> (8 * byte)));
    return path(name);
  }

  /// What the call refuses, with the folder's own path left out.
  template <class Call>
  std::string refusal(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      std::string what = error.what();
      const std::string prefix = folder_.string() + "/";
      if (what.starts_with(prefix)) what.erase(0, prefix.size());
      return what;
    }
    return "nothing refused";
  }

  std::string refused_file(const std::string& file, TokenKind kind,
                           int64_t vocabulary = 256) const {
    return refusal([&] { TokenFile(file, kind, vocabulary); });
  }

  const test::Folder home_;
  const fs::path folder_ = home_.path();
};

std::vector<int64_t> drawn(int64_t count, uint64_t below) {
  Random random(static_cast<uint64_t>(count));
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t& token : tokens) token = static_cast<int64_t>(random.next() % below);
  return tokens;
}

/// 0, 1, 2, ...: a token tells its place.
std::vector<int64_t> places(int64_t count) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<int64_t> slice(const std::vector<int64_t>& tokens, int64_t first, int64_t count) {
  return {tokens.begin() + first, tokens.begin() + first + count};
}

TEST(Order, IsOneToOne) {
  for (const uint64_t count : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097})
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = permuted(i, count, key);
        EXPECT_LT(at, count);
        EXPECT_TRUE(seen.insert(at).second) << i << " of " << count;
      }
    }
}

TEST(Order, HasNoBoundOnTheSize) {
  const uint64_t count = (uint64_t{1} << 62) + 12345;
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(permuted(i, count, 7), count);
    seen.insert(permuted(i, count, 7));
    seen.insert(permuted(count - 1 - i, count, 7));
  }
  EXPECT_EQ(seen.size(), 2000u);
}

TEST(Order, LooksRandom) {
  // Over many keys, each place takes each index about equally often: chi-squared with 10 x 10
  // degrees of freedom has mean 100 and a standard deviation of 14.
  constexpr int count = 11, keys = 11000;
  int hits[count][count] = {};
  for (uint64_t key = 0; key < keys; ++key)
    for (uint64_t i = 0; i < count; ++i) ++hits[i][permuted(i, count, key)];
  double chi = 0;
  for (const auto& row : hits)
    for (const int n : row) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi, 180);
  // Neighbours do not stay neighbours.
  int together = 0;
  for (uint64_t i = 0; i + 1 < 1000; ++i)
    together += permuted(i, 1000, 3) + 1 == permuted(i + 1, 1000, 3);
  EXPECT_LT(together, 10);
}

TEST_F(DataTest, BatchesAreTheTokensAndTheOnesAfter) {
  for (const TokenKind kind : {TokenKind::bytes, TokenKind::u16, TokenKind::u32}) {
    const int size = 1 << static_cast<int>(kind);
    const int64_t vocabulary = kind == TokenKind::bytes ? 256
                               : kind == TokenKind::u16 ? 50257
                                                        : 1 << 30;
    auto tokens = drawn(1013, static_cast<uint64_t>(vocabulary));
    tokens[500] = vocabulary - 1;
    const Data data({.path = write("a", tokens, size),
                     .kind = kind,
                     .vocabulary = vocabulary,
                     .sequences = 3,
                     .length = 7,
                     .micro_batches = 2});
    ASSERT_EQ(data.tokens(), 1013);
    EXPECT_EQ(data.held_out_tokens(), 50);
    for (int64_t step = 0; step < 60; ++step)
      for (int64_t micro = 0; micro < 2; ++micro) {
        const Batch batch = data.batch(step, micro);
        ASSERT_EQ(batch.ids.size(), 21u);
        ASSERT_EQ(batch.labels.size(), 21u);
        EXPECT_EQ(batch.counted, 21);
        EXPECT_EQ(batch.lengths, (std::vector<int64_t>{7, 7, 7}));
        for (int64_t i = 0; i < 3; ++i) {
          EXPECT_EQ(slice(batch.positions, 7 * i, 7), places(7));
          auto window = slice(batch.ids, 7 * i, 7);
          window.push_back(batch.labels[static_cast<size_t>(7 * i + 6)]);
          EXPECT_EQ(slice(batch.labels, 7 * i, 6), slice(batch.ids, 7 * i + 1, 6));
          // In the training part, and none of the held-out tokens even as a label.
          const auto end = tokens.end() - 50;
          EXPECT_NE(std::search(tokens.begin(), end, window.begin(), window.end()), end);
        }
      }
  }
}

TEST_F(DataTest, AnEpochHasEveryWindowOnce) {
  const Data data({.path = write("a", places(1013), 2),
                   .kind = TokenKind::u16,
                   .vocabulary = 1013,
                   .sequences = 1,
                   .length = 7});
  const int64_t windows = data.windows();
  ASSERT_EQ(windows, 963 / 7 - 1);
  std::vector<std::vector<int64_t>> starts;
  std::set<int64_t> offsets;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    auto& order = starts.emplace_back();
    for (int64_t i = 0; i < windows; ++i)
      order.push_back(data.batch_at(epoch * windows + i).ids.front());
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_FALSE(std::equal(order.begin(), order.end(), sorted.begin()));
    for (size_t i = 1; i < sorted.size(); ++i) EXPECT_EQ(sorted[i] - sorted[i - 1], 7);
    EXPECT_GE(sorted.front(), 0);
    EXPECT_LT(sorted.back() + 7, 963);
    offsets.insert(sorted.front());
    for (int64_t before = 0; before < epoch; ++before)
      EXPECT_NE(starts[static_cast<size_t>(before)], order);
  }
  // Every one of 0 to 13 is possible; 40 epochs miss few of them.
  EXPECT_GE(offsets.size(), 9u);
}

TEST_F(DataTest, ResumesFromOneInteger) {
  const std::string file = write("a", drawn(5001, 256), 1);
  const DataOptions options = {
      .path = file, .sequences = 5, .length = 17, .micro_batches = 3, .seed = 9};
  const Data data(options), again(options);
  for (const int64_t step : {0, 1, 30, 1000003}) {
    EXPECT_EQ(data.position(step), step * 15);
    for (int64_t micro = 0; micro < 3; ++micro) {
      EXPECT_EQ(data.batch(step, micro).ids, again.batch_at(data.position(step) + 5 * micro).ids);
      EXPECT_EQ(data.batch(step, micro).labels, again.batch(step, micro).labels);
    }
  }
  DataOptions other = options;
  other.seed = 10;
  EXPECT_NE(Data(other).batch(0, 0).ids, data.batch(0, 0).ids);
  // The windows do not depend on how they are dealt out to batches.
  other = options;
  other.sequences = 15, other.micro_batches = 1;
  auto dealt = data.batch(2, 0).ids;
  for (int64_t micro = 1; micro < 3; ++micro) {
    const auto more = data.batch(2, micro).ids;
    dealt.insert(dealt.end(), more.begin(), more.end());
  }
  EXPECT_EQ(Data(other).batch(2, 0).ids, dealt);
}

TEST_F(DataTest, HeldOutWindowsAreCoveredOnce) {
  const Data data({.path = write("a", places(1000), 2),
                   .kind = TokenKind::u16,
                   .vocabulary = 1000,
                   .sequences = 4,
                   .length = 9,
                   .held_out = 0.1});
  // 100 tokens: 11 windows of 9 and the one after, in batches of 4.
  ASSERT_EQ(data.held_out_tokens(), 100);
  ASSERT_EQ(data.held_out_batches(), 3);
  int64_t counted = 0, next = 900;
  for (int64_t index = 0; index < 3; ++index) {
    const Batch batch = data.held_out_batch(index);
    EXPECT_EQ(batch.ids, data.held_out_batch(index).ids);
    ASSERT_EQ(batch.ids.size(), 36u);
    EXPECT_EQ(batch.lengths, (std::vector<int64_t>{9, 9, 9, 9}));
    counted += batch.counted;
    for (size_t i = 0; i < 36; ++i) {
      EXPECT_EQ(batch.positions[i], static_cast<int64_t>(i % 9));
      EXPECT_GE(batch.ids[i], 900);
      if (next == 999) {
        EXPECT_EQ(batch.labels[i], -100);
        continue;
      }
      EXPECT_EQ(batch.ids[i], next);
      EXPECT_EQ(batch.labels[i], ++next);
    }
  }
  EXPECT_EQ(next, 999);
  EXPECT_EQ(counted, 99);
}

TEST_F(DataTest, TakesTheShortestText) {
  const std::string file = write("a", {3, 1, 4, 1, 5}, 1);
  const Data data({.path = file, .sequences = 3, .length = 4, .held_out = 0});
  EXPECT_EQ(data.windows(), 1);
  EXPECT_EQ(data.held_out_batches(), 0);
  const Batch batch = data.batch(12, 0);
  EXPECT_EQ(batch.ids, (std::vector<int64_t>{3, 1, 4, 1, 3, 1, 4, 1, 3, 1, 4, 1}));
  EXPECT_EQ(batch.labels, (std::vector<int64_t>{1, 4, 1, 5, 1, 4, 1, 5, 1, 4, 1, 5}));
  EXPECT_EQ(refusal([&] { data.held_out_batch(0); }),
            "data: held-out batch: expected one of 0, from 0, got 0; fix: correct the value");
}

TEST_F(DataTest, HasNoBoundOnTheFile) {
  // 5 GiB, all but the last tokens a hole.
  const std::string file = path("big");
  const int64_t tokens = (int64_t{5} << 30) + 3;
  std::ofstream(file, std::ios::binary).put('a');
  fs::resize_file(file, static_cast<uintmax_t>(tokens - 2));
  std::ofstream(file, std::ios::binary | std::ios::app) << "yz";
  const Data data({.path = file, .sequences = 2, .length = 11, .held_out = 1e-7});
  EXPECT_EQ(data.tokens(), tokens);
  EXPECT_EQ(data.held_out_tokens(), 536);
  EXPECT_GT(data.windows(), 480'000'000);
  EXPECT_EQ(data.batch(1 << 30, 0).counted, 22);
  int64_t last[2];
  TokenFile(file, TokenKind::bytes, 256).read(tokens - 2, 2, last);
  EXPECT_EQ(last[0], 'y');
  EXPECT_EQ(last[1], 'z');
}

TEST_F(DataTest, RefusesFiles) {
  EXPECT_EQ(refused_file(path("none"), TokenKind::bytes),
            "none: expected a file that can be read, got No such file or directory; fix: check the "
            "path");
  EXPECT_EQ(
      refused_file(folder_.string(), TokenKind::bytes),
      folder_.string() + ": expected a regular file, got a folder; fix: give the path of one file");
  EXPECT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused_file(path("pipe"), TokenKind::bytes),
            "pipe: expected a regular file, got something else; fix: give the path of one file");
  EXPECT_EQ(refused_file(write("empty", {}, 1), TokenKind::u16),
            "empty: expected text or tokens, got an empty file; fix: check the path");
  EXPECT_EQ(refused_file(write("odd", {1, 2, 3}, 1), TokenKind::u16),
            "odd: expected tokens of 2 bytes, got 3 bytes, no whole number of them; fix: check the "
            "kind of tokens, or copy the file again");
  EXPECT_EQ(refused_file(write("six", {1, 2, 3}, 2), TokenKind::u32),
            "six: expected tokens of 4 bytes, got 6 bytes, no whole number of them; fix: check the "
            "kind of tokens, or copy the file again");
  EXPECT_EQ(refused_file(path("six"), TokenKind::u16, 0),
            "six: vocabulary: expected at least one token, got 0; fix: give the vocabulary of the "
            "model");
  if (geteuid() != 0) {
    write("secret", {1, 2}, 1);
    fs::permissions(path("secret"), fs::perms::none);
    EXPECT_EQ(
        refused_file(path("secret"), TokenKind::bytes),
        "secret: expected a file that can be read, got Permission denied; fix: check the path");
  }
}

TEST_F(DataTest, RefusesTokensBeyondTheVocabulary) {
  const char* fix = "; fix: use the tokenizer and the kind of tokens that belong to the model";
  // In the first chunk that is looked at, beyond it, at the very end; the first of several counts.
  for (const int64_t at : {0, 16383, 16384, 40000, 50000}) {
    auto tokens = drawn(50001, 1000);
    tokens[static_cast<size_t>(at)] = 1000;
    tokens[50000] = std::max<int64_t>(tokens[50000], at == 50000 ? 1000 : 1001);
    for (const int size : {2, 4}) {
      const TokenKind kind = size == 2 ? TokenKind::u16 : TokenKind::u32;
      EXPECT_EQ(refused_file(write("a", tokens, size), kind, 1000),
                "a: token " + std::to_string(at) +
                    ": expected less than the vocabulary, 1000, got 1000" + fix);
      EXPECT_EQ(refused_file(path("a"), kind, 1002), "nothing refused");
    }
  }
  EXPECT_EQ(
      refused_file(write("b", {5, 0xffffffff, 7}, 4), TokenKind::u32, 1 << 20),
      std::string("b: token 1: expected less than the vocabulary, 1048576, got 4294967295") + fix);
  EXPECT_EQ(refused_file(write("c", {5, 127, 128}, 1), TokenKind::bytes, 128),
            std::string("c: token 2: expected less than the vocabulary, 128, got 128") + fix);
  EXPECT_EQ(refused_file(path("c"), TokenKind::bytes, 129), "nothing refused");
}

TEST_F(DataTest, RefusesTextsThatAreTooShort) {
  const std::string file = write("a", drawn(100, 256), 1);
  const auto refused = [&](int64_t length, double held_out) {
    return refusal([&] { Data({.path = file, .length = length, .held_out = held_out}); });
  };
  EXPECT_EQ(
      refused(100, 0),
      "a: expected at least 101 tokens, a window and the one after, got 100; fix: use a longer "
      "text or a shorter length");
  EXPECT_EQ(refused(99, 0), "nothing refused");
  EXPECT_EQ(
      refused(90, 0.2),
      "a: training part: expected at least 91 tokens, a window and the one after, got 80; fix: "
      "use a longer text, a shorter length or a smaller held-out part");
  EXPECT_EQ(refused(5, 0.05),
            "a: held-out part: expected at least 6 tokens, a window and the one after, got 5; fix: "
            "use a longer text, a shorter length, or another held-out part (0: none)");
  EXPECT_EQ(refused(4, 0.05), "nothing refused");
}

TEST_F(DataTest, RefusesValuesOutOfRange) {
  const std::string file = write("a", drawn(100, 256), 1);
  const auto refused = [&](auto change) {
    DataOptions options = {.path = file, .length = 3};
    change(options);
    return refusal([&] { const Data data(options); });
  };
  const std::string correct = "; fix: correct the value";
  EXPECT_EQ(refused([](auto& o) { o.sequences = 0; }),
            "data: sequences: expected 1 to 2^31 - 1, got 0" + correct);
  EXPECT_EQ(refused([](auto& o) { o.length = -1; }),
            "data: length: expected 1 to 2^31 - 1, got -1" + correct);
  EXPECT_EQ(refused([](auto& o) { o.micro_batches = int64_t{1} << 31; }),
            "data: micro-batches: expected 1 to 2^31 - 1, got 2147483648" + correct);
  EXPECT_EQ(
      refused([](auto& o) { o.sequences = o.length = 1 << 20; }),
      "data: tokens of a batch: expected fewer than 2^31, got 1099511627776; fix: use fewer or "
      "shorter sequences");
  for (const double part : {-0.1, 1.0, std::nan("")})
    EXPECT_EQ(refused([&](auto& o) { o.held_out = part; }),
              "data: held-out part: expected at least 0 and below 1, got " + std::to_string(part) +
                  correct + "; 0.05 holds out one token in twenty");

  const Data data({.path = file, .sequences = 2, .length = 3, .micro_batches = 2});
  const auto refused_batch = [&](int64_t step, int64_t micro) {
    return refusal([&] { data.batch(step, micro); });
  };
  EXPECT_EQ(refused_batch(0, 2), "data: micro-batch: expected 0 to 1, got 2" + correct);
  EXPECT_EQ(refused_batch(0, -1), "data: micro-batch: expected 0 to 1, got -1" + correct);
  EXPECT_EQ(refused_batch(-1, 0),
            "data: step: expected a step of the run, from 0, got -1" + correct);
  EXPECT_EQ(refused_batch(INT64_MAX, 1), "data: step: expected a step of the run, from 0, got " +
                                             std::to_string(INT64_MAX) + correct);
  EXPECT_EQ(refused_batch(INT64_MAX / 4 - 1, 1), "nothing refused");
  for (const int64_t position : {int64_t{-1}, INT64_MAX})
    EXPECT_EQ(refusal([&] { data.batch_at(position); }),
              "data: position: expected the number of a window, from 0, got " +
                  std::to_string(position) + "; fix: use the position that was saved");
  EXPECT_EQ(refusal([&] { data.held_out_batch(-1); }),
            "data: held-out batch: expected one of 1, from 0, got -1" + correct);
  EXPECT_EQ(token_kind("u32"), TokenKind::u32);
  EXPECT_EQ(
      refusal([] { token_kind("utf-8"); }),
      "kind of tokens: expected bytes, u16 or u32, got 'utf-8'; fix: name what the file holds: "
      "bytes of text, or tokens of 16 or 32 bits");
}

}  // namespace
}  // namespace coda::train
