// SPDX-License-Identifier: Apache-2.0
// oneDNN's matmul. Primitives are made once for each shape and layout and shared by all workers,
// which is safe because each brings its own scratchpad. oneDNN's own threads (OpenMP) are set to
// one for the length of each call, on the calling thread alone.
#include <coda/error.h>
#include <omp.h>

#include <array>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "cpu/mainloop.h"

namespace coda::cpu {
namespace {

using dnnl::memory;

memory::data_type type_of(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// bf16 runs at full speed only with instructions for it.
bool has_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

struct OneThread {
  int before = omp_get_max_threads();
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

struct Shape {
  int64_t m, n, k, a_row, a_k, b_row, b_k, ldc;
  DType type;
  bool accumulate;
  auto operator<=>(const Shape&) const = default;
};

struct Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
};

class Primitives {
 public:
  const dnnl::engine engine{dnnl::engine::kind::cpu, 0};

  const Primitive& get(const Shape& s) const {
    const std::lock_guard lock(mutex_);
    const auto known = made_.find(s);
    if (known != made_.end()) return known->second;
    // One at a time in the process: oneDNN 2.6 updates the keys of its cache of primitives while
    // other threads compare them (seen as a crash when several kernels were first used at once).
    static std::mutex creation;
    const std::lock_guard alone(creation);
    const memory::desc a({s.m, s.k}, type_of(s.type), memory::dims{s.a_row, s.a_k});
    const memory::desc b({s.k, s.n}, type_of(s.type), memory::dims{s.b_k, s.b_row});
    const memory::desc c({s.m, s.n}, memory::data_type::f32, memory::dims{s.ldc, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (s.accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
    const dnnl::matmul::primitive_desc description({a, b, c}, attributes, engine);
    return made_.emplace(s, Primitive{description, dnnl::matmul(description)}).first->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<Shape, Primitive> made_;
};

class OneDnnSession : public Mainloop::Session {
 public:
  explicit OneDnnSession(const Primitives& primitives)
      : primitives_(primitives), stream_(primitives.engine) {}

  void multiply(int64_t m, int64_t n, int64_t k, const Panel& a, const Panel& b, float* c,
                int64_t ldc, bool accumulate) override {
    const OneThread one;
    try {
      const Shape shape{m,          n,   k,       a.row_stride, a.k_stride, b.row_stride,
                        b.k_stride, ldc, a.dtype, accumulate};
      const Primitive& primitive = primitives_.get(shape);
      const auto& description = primitive.description;
      const size_t needed = description.scratchpad_desc().get_size();
      if (scratch_.size() < needed) scratch_.resize(needed);
      const auto view = [&](const memory::desc& desc, const void* data) {
        return memory(desc, primitives_.engine, const_cast<void*>(data));
      };
      primitive.matmul.execute(
          stream_, {{DNNL_ARG_SRC, view(description.src_desc(), a.data)},
                    {DNNL_ARG_WEIGHTS, view(description.weights_desc(), b.data)},
                    {DNNL_ARG_DST, view(description.dst_desc(), c)},
                    {DNNL_ARG_SCRATCHPAD, view(description.scratchpad_desc(), scratch_.data())}});
      stream_.wait();
    } catch (const dnnl::error& error) {
      throw Error(ErrorKind::device, "oneDNN matmul", "a matrix product", error.what());
    }
  }

 private:
  const Primitives& primitives_;
  dnnl::stream stream_;
  std::vector<std::byte> scratch_;
};

class OneDnnMainloop : public Mainloop {
 public:
  bool takes(DType type) const override {
    return type == DType::f32 || (type == DType::bf16 && bf16_);
  }
  std::unique_ptr<Session> session() const override {
    return std::make_unique<OneDnnSession>(primitives_);
  }
  const char* name() const override { return "oneDNN"; }

 private:
  Primitives primitives_;
  bool bf16_ = has_bf16();
};

}  // namespace

std::shared_ptr<const Mainloop> make_onednn_mainloop() {
  return std::make_shared<OneDnnMainloop>();
}

}  // namespace coda::cpu
