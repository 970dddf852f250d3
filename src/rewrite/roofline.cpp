// SPDX-License-Identifier: Apache-2.0
#include "rewrite/roofline.h"

#include <algorithm>

namespace coda::rewrite {

std::optional<Machine> known_machine(std::string_view name, DType type) {
  const double products = type == DType::f32 ? 67e12 : 989e12;
  if (name == "H100") return Machine{"H100", products, 3.35e12, 80e9};
  if (name == "H200") return Machine{"H200", products, 4.8e12, 141e9};
  return std::nullopt;
}

double bytes_read(const StepCost& step, int64_t tokens) {
  return static_cast<double>(step.matrices.read + step.rows.read) * static_cast<double>(tokens) +
         static_cast<double>(step.fixed.read);
}

double bytes_written(const StepCost& step, int64_t tokens) {
  return static_cast<double>(step.matrices.written + step.rows.written) *
             static_cast<double>(tokens) +
         static_cast<double>(step.fixed.written);
}

double product_flops(const StepCost& step, int64_t tokens) {
  return static_cast<double>(step.flops) * static_cast<double>(tokens);
}

double seconds(const StepCost& step, int64_t tokens, const Machine& machine) {
  return std::max(product_flops(step, tokens) / machine.products,
                  (bytes_read(step, tokens) + bytes_written(step, tokens)) / machine.bandwidth);
}

}  // namespace coda::rewrite
