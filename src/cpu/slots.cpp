// SPDX-License-Identifier: Apache-2.0
#include "cpu/slots.h"

#include <algorithm>

namespace coda::cpu {
namespace {

constexpr int64_t kBlockElements =
    1024;  // a slot of floats is 4 KiB: a dozen live ones fit the cache
constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// Slots of one arena; a freed one serves the next value that fits.
class Slots {
 public:
  size_t take(size_t bytes) {
    bytes = aligned(std::max<size_t>(bytes, 1));
    for (Slot& slot : slots_) {
      if (slot.used || slot.bytes < bytes) continue;
      slot.used = true;
      return slot.offset;
    }
    slots_.push_back({total_, bytes, true});
    total_ += bytes;
    return slots_.back().offset;
  }
  void give_back(size_t offset) {
    for (Slot& slot : slots_)
      if (slot.offset == offset) slot.used = false;
  }
  size_t total() const { return total_; }

 private:
  struct Slot {
    size_t offset, bytes;
    bool used;
  };
  std::vector<Slot> slots_;
  size_t total_ = 0;
};

bool has_result(const Instruction& instruction) {
  return instruction.kind != Instruction::Kind::store &&
         instruction.kind != Instruction::Kind::reduce &&
         instruction.kind != Instruction::Kind::accumulator;
}

}  // namespace

void place(Tape& tape, const Grid& grid, const Kernels& kernels) {
  int64_t widest = 1;
  std::vector<int> last_use(tape.code.size(), -1);
  for (size_t i = 0; i < tape.code.size(); ++i) {
    const Instruction& instruction = tape.code[i];
    const int id = static_cast<int>(i);
    if (instruction.extent.in_block()) {
      widest = std::max(widest, instruction.extent.columns(grid.tile_n));
      tape.block_section.push_back(id);
    } else {
      tape.tile_section.push_back(id);
    }
    for (int k = 0; k < instruction.argument_count; ++k) last_use[instruction.arguments[k]] = id;
  }
  tape.block_rows = std::clamp<int64_t>(kBlockElements / widest, 1, grid.tile_m);

  Slots tile, block;
  for (int id : tape.tile_section) {
    Instruction& instruction = tape.code[id];
    if (!has_result(instruction)) continue;
    const int64_t count =
        (instruction.extent.rows ? grid.tile_m : 1) * instruction.extent.columns(grid.tile_n);
    instruction.offset = tile.take(static_cast<size_t>(count) * size_of(instruction.lane));
  }
  for (int id : tape.block_section) {
    Instruction& instruction = tape.code[id];
    if (has_result(instruction)) {
      instruction.arena = Arena::block;
      const auto count =
          static_cast<size_t>(tape.block_rows * instruction.extent.columns(grid.tile_n));
      instruction.offset = block.take(count * size_of(instruction.lane));
      if (instruction.kind == Instruction::Kind::group_reduce) {
        const bool integer = tape.code[instruction.arguments[0]].lane == Lane::i64;
        const Reducer& reducer = kernels.reduce[static_cast<int>(instruction.family)][integer];
        instruction.scratch = block.take(count * reducer.state_bytes);
        block.give_back(instruction.scratch);
      }
    }
    for (int k = 0; k < instruction.argument_count; ++k) {
      const int argument = instruction.arguments[k];
      if (last_use[argument] != id || tape.code[argument].arena != Arena::block) continue;
      block.give_back(tape.code[argument].offset);
      last_use[argument] = -1;  // an operand that stands twice is freed once
    }
  }
  tape.tile_bytes = tile.total(), tape.block_bytes = block.total();
}

}  // namespace coda::cpu
