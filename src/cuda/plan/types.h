// SPDX-License-Identifier: Apache-2.0
//
// What every text of the CUDA backend speaks of: fixed-size integers and storage types. One text
// for the host and for the kernels.
#pragma once

#if defined(__CUDACC__)
#define CODA_BOTH __host__ __device__
#define CODA_DEVICE __device__ __forceinline__
#else
#define CODA_BOTH
#endif

namespace coda::device {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

enum class Type { f32, bf16, f16, e4m3, e5m2, u8, i32, i64 };

CODA_BOTH constexpr int type_bytes(Type t) {
  return t == Type::i64                      ? 8
         : t == Type::f32 || t == Type::i32  ? 4
         : t == Type::bf16 || t == Type::f16 ? 2
                                             : 1;
}

}  // namespace coda::device
