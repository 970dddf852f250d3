// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: pairs, positions, frequencies and gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "support/test_call.h"

namespace coda::test {
namespace {

using Parameters = std::vector<std::pair<std::string, int64_t>>;

/// The rotation of a tile in memory, for exact inputs, by either convention.
Program tile_rotation(bool interleaved, const std::string& position = "i32") {
  const std::string half = interleaved ? "1" : "dh/2";
  return Program::parse(
      "coda 1\nprogram rotate<dh>(a: f32[m, n], pos: " + position +
      "[m], freq: f32[n/2 % dh/2]) -> q: f32[m, n] {\n  x, y = split(a, " + half +
      ")\n  t = pos * freq\n  q = join(x*cos(t) - y*sin(t), y*cos(t) + x*sin(t), " + half +
      ")\n}\n");
}

double frequency(int64_t j, int64_t half) { return std::pow(10000.0, -double(j) / double(half)); }

TEST(Rope, pairs_of_both_conventions) {
  // D = 4, position 1, frequencies 1 and 0.01, x = (1, 2, 3, 4).
  const double expected[2][4] = {{-1.984111, 1.959901, 2.462378, 4.019800},
                                 {-1.142640, 1.922076, 2.959851, 4.029800}};
  for (bool interleaved : {false, true}) {
    TestCall call(tile_rotation(interleaved), {1, 4}, DType::f32, {{"dh", 4}});
    call.fill("a", [](int64_t, int64_t j) { return double(j + 1); });
    call.fill("pos", [](int64_t, int64_t) { return 1; });
    call.fill("freq", [](int64_t j, int64_t) { return j ? 0.01 : 1; });
    call.run();
    for (int64_t j = 0; j < 4; ++j) EXPECT_NEAR(call.at("q", 0, j), expected[interleaved][j], 2e-6);
  }
}

TEST(Rope, negative_positions_turn_backwards) {
  // Left padding of 2: positions -2, -1, 0, 1. Every row is defined, and rows 2 and 3 are those of
  // 0 and 1.
  TestCall padded(tile_rotation(false), {4, 32}, DType::f32, {{"dh", 16}});
  padded.fill("pos", [](int64_t i, int64_t) { return double(i - 2); });
  padded.run();
  TestCall plain(tile_rotation(false), {2, 32}, DType::f32, {{"dh", 16}});
  plain.fill("a", [&](int64_t i, int64_t j) { return padded.at("a", i + 2, j); });
  plain.fill("pos", [](int64_t i, int64_t) { return double(i); });
  plain.run();
  for (int64_t j = 0; j < 32; ++j) {
    EXPECT_FALSE(std::isnan(padded.at("q", 0, j)));
    EXPECT_EQ(padded.at("q", 2, j), plain.at("q", 0, j));
    EXPECT_EQ(padded.at("q", 3, j), plain.at("q", 1, j));
  }
}

TEST(Rope, turning_back_gives_the_input) {
  for (bool interleaved : {false, true}) {
    TestCall there(tile_rotation(interleaved), {40, 64}, DType::f32, {{"dh", 16}});
    there.run();
    TestCall back(tile_rotation(interleaved), {40, 64}, DType::f32, {{"dh", 16}});
    back.fill("a", [&](int64_t i, int64_t j) { return there.at("q", i, j); });
    back.fill("pos", [&](int64_t i, int64_t) { return -there.at("pos", i); });
    back.run();
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < 64; ++j) EXPECT_NEAR(back.at("q", i, j), there.at("a", i, j), 2e-6);
  }
}

TEST(Rope, backward_is_the_transpose) {
  // <R x, g> = <x, R^T g> in both conventions.
  for (bool interleaved : {false, true}) {
    const Program program = tile_rotation(interleaved);
    TestCall forward(program, {5, 48}, DType::f32, {{"dh", 16}});
    forward.run();
    TestCall backward(differentiate(program).backward, {5, 48}, DType::f32, {{"dh", 16}});
    backward.fill("pos", [&](int64_t i, int64_t) { return forward.at("pos", i); });
    backward.fill("freq", [&](int64_t i, int64_t) { return forward.at("freq", i); });
    backward.fill("d_q", [](int64_t i, int64_t j) { return t(48 * i + j + 400); });
    backward.run();
    for (int64_t i = 0; i < 5; ++i) {
      double left = 0, right = 0;
      for (int64_t j = 0; j < 48; ++j) {
        left += forward.at("q", i, j) * backward.at("d_q", i, j);
        right += forward.at("a", i, j) * backward.at("d_a", i, j);
      }
      EXPECT_NEAR(left, right, 1e-5);
    }
  }
}

TEST(Rope, what_is_not_turned_passes_bit_for_bit) {
  // Partial rotation of Phi (80 / 20) and others: `freq` is 0 from `part` on, the tail is the
  // input.
  for (const auto& [dh, part] : {std::pair<int64_t, int64_t>{80, 20}, {128, 32}, {64, 16}}) {
    TestCall call(library("rope.coda", "rope_partial"), {6, 2 * dh, 1}, DType::f32,
                  {{"dh", dh}, {"part", part}, {"rot", dh}});
    call.fill("freq", [&, part = part](int64_t j, int64_t) {
      return j < part ? frequency(j % (part / 2), part / 2) : 0;
    });
    const auto one = [](int64_t, int64_t) { return 1; };
    call.products["a"][0].a = call.matrix(6, 1, DType::f32, one);
    call.run();
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 2 * dh; ++j) {
        const double input = load(call.products["a"][0].b[0], j, 0);
        if (j >= part) {
          EXPECT_EQ(call.at("qkv", i, j), input) << dh << ", " << j;
        }
      }
    EXPECT_NE(call.at("qkv", 3, 1), load(call.products["a"][0].b[0], 1, 0));
  }
}

TEST(Rope, positions_and_frequencies_are_exact) {
  // x = (1, 0) at frequency 1 turns to (cos, sin) of the position itself. bf16 knows no 257; a
  // float32 product loses the angle of large positions.
  TestCall call(tile_rotation(false), {4, 8}, DType::f32, {{"dh", 8}});
  const double positions[] = {257, 100003, 1048575, 524289};
  call.fill("pos", [&](int64_t i, int64_t) { return positions[i]; });
  call.fill("freq", [](int64_t j, int64_t) { return j ? 0.1 : 1; });
  call.fill("a", [](int64_t, int64_t j) { return j < 4 ? 1 : 0; });
  call.run();
  EXPECT_NEAR(call.at("q", 0, 0), 0.819306, 1e-6);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(call.at("q", i, 0), std::cos(positions[i]), 0x1p-22);
    EXPECT_NEAR(call.at("q", i, 4), std::sin(positions[i]), 0x1p-22);
    EXPECT_NEAR(call.at("q", i, 1), std::cos(positions[i] * double(0.1f)), 0x1p-22);
    EXPECT_NEAR(call.at("q", i, 5), std::sin(positions[i] * double(0.1f)), 0x1p-22);
  }
}

TEST(Rope, positions_are_those_given) {
  // Two sequences packed (0..3, 0..3), and the rows of one context-parallel rank (0, 3, 4, 7).
  TestCall all(tile_rotation(false), {8, 32}, DType::f32, {{"dh", 32}});
  all.fill("a", [](int64_t, int64_t j) { return t(j); });
  all.fill("pos", [](int64_t i, int64_t) { return double(i); });
  all.run();
  for (const std::vector<int64_t>& positions :
       {std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3}, {0, 3, 4, 7}}) {
    const auto rows = static_cast<int64_t>(positions.size());
    TestCall call(tile_rotation(false), {rows, 32}, DType::f32, {{"dh", 32}});
    call.fill("a", [](int64_t, int64_t j) { return t(j); });
    call.fill("pos", [&](int64_t i, int64_t) { return double(positions[static_cast<size_t>(i)]); });
    call.run();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 32; ++j)
        EXPECT_EQ(call.at("q", i, j), all.at("q", positions[static_cast<size_t>(i)], j));
  }
}

TEST(Rope, a_longer_call_extends_a_shorter_one) {
  TestCall shorter(library("rope.coda", "rope"), {16, 64, 24}, DType::bf16,
                   {{"dh", 16}, {"rot", 48}});
  shorter.run();
  TestCall longer(library("rope.coda", "rope"), {64, 64, 24}, DType::bf16,
                  {{"dh", 16}, {"rot", 48}});
  longer.run();
  const std::vector<std::byte> few = shorter.bytes("qkv"), many = longer.bytes("qkv");
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(Rope, positions_of_32_and_64_bits) {
  TestCall narrow(tile_rotation(false, "i32"), {70, 64}, DType::f32, {{"dh", 16}});
  TestCall wide(tile_rotation(false, "i64"), {70, 64}, DType::f32, {{"dh", 16}});
  for (TestCall* call : {&narrow, &wide}) {
    call->fill("pos", [](int64_t i, int64_t) { return double(997 * i); });
    call->run();
  }
  EXPECT_EQ(narrow.bytes("q"), wide.bytes("q"));
}

TEST(Rope, of_the_library_by_the_formula) {
  // Every column against the rotation written out, queries and keys turned, values not.
  TestCall call(library("rope.coda", "rope"), {9, 64, 1}, DType::f32, {{"dh", 16}, {"rot", 48}});
  call.fill("freq", [](int64_t j, int64_t) { return frequency(j, 8); });
  call.products["a"][0].a = call.matrix(9, 1, DType::f32, [](int64_t, int64_t) { return 1; });
  call.run();
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t j = 0; j < 64; ++j) {
      const auto a = [&](int64_t column) { return load(call.products["a"][0].b[0], column, 0); };
      const double angle = call.at("pos", i) * double(float(frequency(j % 8, 8)));
      const bool first = j % 16 < 8;
      const double turned = first ? a(j) * std::cos(angle) - a(j + 8) * std::sin(angle)
                                  : a(j) * std::cos(angle) + a(j - 8) * std::sin(angle);
      EXPECT_NEAR(call.at("qkv", i, j), j < 48 ? turned : a(j), 2e-6) << i << ", " << j;
    }
}

}  // namespace
}  // namespace coda::test
