// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include <dnnl.hpp>

#include "bare_product.h"

namespace coda::tool {

using dnnl::memory;

std::function<void()> bare_product(int64_t m, int64_t n, int64_t k, DType type, const void* a,
                                   const void* b, void* c, int threads) {
  if (type != DType::f32 && type != DType::bf16) return {};
  const auto element = type == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc a_desc({m, k}, element, memory::dims{k, 1});
  const memory::desc b_desc({k, n}, element, memory::dims{1, k});
  const memory::desc c_desc({m, n}, element, memory::dims{n, 1});
  // Without AVX-512 oneDNN has no bf16 product at all.
  constexpr bool kAllowEmpty = true;
  const dnnl::matmul::primitive_desc description({a_desc, b_desc, c_desc}, {}, engine, kAllowEmpty);
  if (!description) return {};
  const dnnl::matmul matmul(description);
  const dnnl::stream stream(engine);
  const memory a_memory(a_desc, engine, const_cast<void*>(a));
  const memory b_memory(b_desc, engine, const_cast<void*>(b));
  const memory c_memory(c_desc, engine, c);
  return [=] {
    omp_set_num_threads(threads);
    matmul.execute(
        stream, {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}});
    dnnl::stream(stream).wait();
  };
}

}  // namespace coda::tool
