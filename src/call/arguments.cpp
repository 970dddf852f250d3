// SPDX-License-Identifier: Apache-2.0
#include "call/call.h"

namespace coda {

Arguments::Arguments() : state_(std::make_unique<State>()) {}
Arguments::~Arguments() = default;
Arguments::Arguments(const Arguments& other) : state_(std::make_unique<State>(*other.state_)) {}
Arguments::Arguments(Arguments&&) noexcept = default;

Arguments& Arguments::operator=(Arguments other) noexcept {
  state_.swap(other.state_);
  return *this;
}

Arguments& Arguments::tensor(std::string_view name, TensorView view) {
  return tensor(name, Axis::columns, std::span<const TensorView>(&view, 1));
}

Arguments& Arguments::tensor(std::string_view name, Axis axis,
                             std::span<const TensorView> segments) {
  state_->tensors[std::string(name)] = {axis, {segments.begin(), segments.end()}};
  return *this;
}

Arguments& Arguments::scalar(std::string_view name, double value) {
  state_->scalars[std::string(name)] = value;
  return *this;
}

Arguments& Arguments::product(std::string_view accumulator, TensorView a, TensorView b) {
  return product(accumulator, a, std::span<const TensorView>(&b, 1));
}

Arguments& Arguments::product(std::string_view accumulator, TensorView a,
                              std::span<const TensorView> weights) {
  state_->products[std::string(accumulator)].push_back({a, {weights.begin(), weights.end()}});
  return *this;
}

Arguments& Arguments::sizes(int64_t m, int64_t n) {
  state_->sizes = {m, n};
  return *this;
}

}  // namespace coda
