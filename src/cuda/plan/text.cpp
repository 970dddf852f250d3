// SPDX-License-Identifier: Apache-2.0
#include "cuda/plan/text.h"

#include <fmt/format.h>

namespace coda::device {

const char* text_of(Width width) {
  return width == Width::half ? "half" : width == Width::full ? "full" : "twice";
}

const char* text_of(Type type) {
  static constexpr const char* kNames[] = {"f32",  "bf16", "f16", "e4m3",
                                           "e5m2", "u8",   "i32", "i64"};
  return kNames[static_cast<int>(type)];
}

std::string port_text(const Port& port) {
  static constexpr const char* kKinds[] = {"tile_in",    "tile_out", "row_vector", "col_vector",
                                           "scalar",     "number",   "keep_m",     "keep_n",
                                           "group_fold", "group_in", "group_out"};
  static constexpr const char* kReduces[] = {"sum", "max", "min", "logsumexp", "moments", "argmax"};
  static constexpr const char* kSeams[] = {"none", "rows", "cols"};
  return fmt::format(
      "{{.kind = Kind::{}, .width = Width::{}, .type = Type::{}, .reduce = Reduce::{}, "
      ".seams = Seams::{}, .period = {}, .group = {}}}",
      kKinds[static_cast<int>(port.kind)], text_of(port.width), text_of(port.type),
      kReduces[static_cast<int>(port.reduce)], kSeams[static_cast<int>(port.seams)], port.period,
      port.group);
}

std::string config_text(const Config& c) {
  std::string text;
  const auto field = [&](const char* name, const auto& value) {
    text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value);
  };
  const auto major = [](Major m) { return m == Major::k ? "Major::k" : "Major::mn"; };
  field("mode", c.mode == Mode::pingpong ? "Mode::pingpong" : "Mode::cooperative");
  field("tile_m", c.tile_m), field("tile_n", c.tile_n);
  field("cluster_m", c.cluster_m), field("cluster_n", c.cluster_n);
  field("element", std::string("Type::") + text_of(c.element));
  field("a_major", major(c.a_major)), field("b_major", major(c.b_major));
  field("accumulators", c.accumulators), field("segments", c.segments);
  field("a_parts", c.a_parts), field("b_parts", c.b_parts);
  field("a_box_rows", c.a_box_rows), field("b_box_rows", c.b_box_rows);
  field("chunk_cols", c.chunk_cols), field("pair", c.pair), field("passes", c.passes);
  field("stages", c.stages);
  field("load_stages", c.load_stages), field("store_stages", c.store_stages);
  field("split_k", c.split_k), field("mask_rows", c.mask_rows), field("mask_cols", c.mask_cols);
  field("ragged_cols", c.ragged_cols);
  field("pdl", c.pdl), field("delays", c.delays);
  return "{" + text + "}";
}

}  // namespace coda::device
