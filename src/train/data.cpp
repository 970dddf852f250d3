// SPDX-License-Identifier: Apache-2.0
#include "train/data.h"

#include <coda/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "train/data_order.h"
#include "train/random.h"

namespace coda::train {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string_view expected, std::string_view got,
                         std::string_view fix) {
  throw Error(ErrorKind::argument, where, expected, got, fix);
}

/// Before the file is opened: all that does not depend on it.
const DataOptions& checked(const DataOptions& options) {
  constexpr int64_t most = int64_t{1} << 31;
  const auto size = [&](const char* name, int64_t value) {
    if (value < 1 || value >= most)
      refuse(std::string("data: ") + name, "1 to 2^31 - 1", std::to_string(value),
             "correct the value");
  };
  size("sequences", options.sequences);
  size("length", options.length);
  size("micro-batches", options.micro_batches);
  if (options.sequences * options.length >= most)
    refuse("data: tokens of a batch", "fewer than 2^31",
           std::to_string(options.sequences * options.length), "use fewer or shorter sequences");
  if (!(options.held_out >= 0 && options.held_out < 1))
    refuse("data: held-out part", "at least 0 and below 1", std::to_string(options.held_out),
           "correct the value; 0.05 holds out one token in twenty");
  return options;
}

void require_window(const std::string& part, int64_t tokens, int64_t length, const char* fix) {
  if (tokens <= length)
    refuse(part, "at least " + std::to_string(length + 1) + " tokens, a window and the one after",
           std::to_string(tokens), fix);
}

}  // namespace

Data::Data(const DataOptions& options)
    : options_(checked(options)), file_(options.path, options.kind, options.vocabulary) {
  const int64_t length = options_.length;
  require_window(options_.path, tokens(), length, "use a longer text or a shorter length");
  held_out_ = static_cast<int64_t>(static_cast<double>(tokens()) * options_.held_out);
  const int64_t training = tokens() - held_out_;
  require_window(options_.path + ": training part", training, length,
                 "use a longer text, a shorter length or a smaller held-out part");
  if (options_.held_out > 0)
    require_window(options_.path + ": held-out part", held_out_, length,
                   "use a longer text, a shorter length, or another held-out part (0: none)");
  // One window fewer than would fit leaves room for an offset of any part of a window.
  windows_ = std::max<int64_t>(1, training / length - 1);
  held_out_windows_ = held_out_ > 0 ? (held_out_ - 1) / length : 0;
}

std::string Data::identity() const {
  constexpr size_t block = size_t{64} << 10, blocks = 256;
  const std::span<const std::byte> bytes = file_.bytes();
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::span<const std::byte> part) {
    for (const std::byte byte : part)
      hash = (hash ^ static_cast<uint64_t>(byte)) * uint64_t{0x100000001b3};
  };
  if (bytes.size() <= block * blocks) {
    add(bytes);
  } else {
    const size_t last = bytes.size() - block;
    for (size_t i = 0; i < blocks; ++i)  // i times the quotient: no product overflows
      add(bytes.subspan(i + 1 == blocks ? last : i * (last / (blocks - 1)), block));
  }
  return fmt::format("{} tokens, hash {:016x}", tokens(), hash);
}

int64_t Data::position(int64_t step) const {
  const int64_t per_step = options_.micro_batches * options_.sequences;
  int64_t position;
  if (step < 0 || __builtin_mul_overflow(step, per_step, &position) ||
      position > INT64_MAX - per_step)
    refuse("data: step", "a step of the run, from 0", std::to_string(step), "correct the value");
  return position;
}

Batch Data::batch(int64_t step, int64_t micro) const {
  if (micro < 0 || micro >= options_.micro_batches)
    refuse("data: micro-batch", "0 to " + std::to_string(options_.micro_batches - 1),
           std::to_string(micro), "correct the value");
  return batch_at(position(step) + micro * options_.sequences);
}

Batch Data::batch_at(int64_t position) const {
  if (position < 0 || position > INT64_MAX - options_.sequences)
    refuse("data: position", "the number of a window, from 0", std::to_string(position),
           "use the position that was saved");
  Batch batch;
  for (int64_t i = 0; i < options_.sequences; ++i) add(batch, training_start(position + i), true);
  return batch;
}

int64_t Data::training_start(int64_t window) const {
  const int64_t epoch = window / windows_, index = window % windows_;
  Random random(options_.seed, "data epoch " + std::to_string(epoch));
  const uint64_t key = random.next();
  const int64_t last = tokens() - held_out_ - 1 - windows_ * options_.length;
  const auto offset = static_cast<int64_t>(random.next() % static_cast<uint64_t>(last + 1));
  const uint64_t at = permuted(static_cast<uint64_t>(index), static_cast<uint64_t>(windows_), key);
  return offset + static_cast<int64_t>(at) * options_.length;
}

int64_t Data::held_out_batches() const {
  return (held_out_windows_ + options_.sequences - 1) / options_.sequences;
}

Batch Data::held_out_batch(int64_t index) const {
  if (index < 0 || index >= held_out_batches())
    refuse("data: held-out batch", "one of " + std::to_string(held_out_batches()) + ", from 0",
           std::to_string(index), "correct the value");
  Batch batch;
  const int64_t begin = tokens() - held_out_;
  for (int64_t i = 0; i < options_.sequences; ++i) {
    const int64_t window = index * options_.sequences + i;
    add(batch, begin + window % held_out_windows_ * options_.length, window < held_out_windows_);
  }
  return batch;
}

void Data::add(Batch& batch, int64_t start, bool counts) const {
  const int64_t length = options_.length;
  const size_t before = batch.ids.size(), after = before + static_cast<size_t>(length);
  batch.ids.resize(after);
  batch.labels.resize(after, options_.ignored);
  file_.read(start, length, batch.ids.data() + before);
  if (counts) {
    file_.read(start + 1, length, batch.labels.data() + before);
    batch.counted += length;
  }
  for (int64_t i = 0; i < length; ++i) batch.positions.push_back(i);
  batch.lengths.push_back(length);
}

}  // namespace coda::train
