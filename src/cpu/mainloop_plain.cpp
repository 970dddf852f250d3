// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "cpu/kernels.h"
#include "cpu/mainloop.h"

namespace coda::cpu {
namespace {

class PlainSession : public Mainloop::Session {
 public:
  explicit PlainSession(const Kernels& kernels) : kernels_(kernels) {}

  void multiply(int64_t m, int64_t n, int64_t k, const Panel& a, const Panel& b, float* c,
                int64_t ldc, bool accumulate) override {
    const auto needed = static_cast<size_t>(kernels_.gemm_scratch(m, n, k));
    if (scratch_.size() < needed) scratch_.resize(needed);
    kernels_.gemm({m, n, k, reinterpret_cast<const float*>(a.data), a.row_stride, a.k_stride,
                   reinterpret_cast<const float*>(b.data), b.row_stride, b.k_stride, c, ldc,
                   accumulate, scratch_.data()});
  }

 private:
  const Kernels& kernels_;
  std::vector<float> scratch_;
};

class PlainMainloop : public Mainloop {
 public:
  explicit PlainMainloop(Isa isa) : kernels_(kernels(isa)) {}
  bool takes(DType type) const override { return type == DType::f32; }
  std::unique_ptr<Session> session() const override {
    return std::make_unique<PlainSession>(kernels_);
  }
  const char* name() const override { return "plain"; }

 private:
  const Kernels& kernels_;
};

}  // namespace

std::shared_ptr<const Mainloop> make_plain_mainloop(Isa isa) {
  return std::make_shared<PlainMainloop>(isa);
}

}  // namespace coda::cpu
