// SPDX-License-Identifier: Apache-2.0
// coda declares NVIDIA's functions by itself; here each declaration is held against the headers, so
// that a wrong width, order or constant does not compile.
#include <cublasLt.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cudnn.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <type_traits>

#include "cuda/runtime/types.h"

namespace coda::cuda {
namespace {

enum class Kind { nothing, pointer, number };

template <class T>
constexpr Kind kind_of() {
  if (std::is_void_v<T>) return Kind::nothing;
  return std::is_pointer_v<T> ? Kind::pointer : Kind::number;
}

/// Enumerations and integers of one width pass alike; floating-point numbers would not.
template <class A, class B>
constexpr bool passes_alike() {
  if constexpr (kind_of<A>() != kind_of<B>()) {
    return false;
  } else if constexpr (kind_of<A>() == Kind::number) {
    return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  } else {
    return true;
  }
}

template <class A, class B>
struct SameCall : std::false_type {};

template <class R, class S, class... P, class... Q>
requires(sizeof...(P) == sizeof...(Q)) struct SameCall<R(P...), S(Q...)>
    : std::bool_constant<passes_alike<R, S>() && (passes_alike<P, Q>() && ...)> {
};

// The driver is asked for functions by name and version, which cuda.h's macros do not follow.
#define CODA_DRIVER(name, since, result, parameters)                                              \
  static_assert(SameCall<result parameters, std::remove_pointer_t<PFN_##name##_v##since>>::value, \
                #name);
#define CODA_NVRTC(name, result, parameters) \
  static_assert(SameCall<result parameters, decltype(::name)>::value, #name);
#define CODA_CUBLAS_LT CODA_NVRTC
#define CODA_CUDNN CODA_NVRTC
#include "cuda/runtime/functions.def"

static_assert(!SameCall<int(int, void*), int(int, int)>::value);
static_assert(!SameCall<int(int, int), int(int, long)>::value);
static_assert(!SameCall<int(int), int(float)>::value);
static_assert(!SameCall<int(int), int(int, int)>::value);

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, bytes) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(CopyLines) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(CopyLines, from.kind) == offsetof(CUDA_MEMCPY2D, srcMemoryType));
static_assert(offsetof(CopyLines, from.device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(CopyLines, from.pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(CopyLines, to.host) == offsetof(CUDA_MEMCPY2D, dstHost));
static_assert(offsetof(CopyLines, to.pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(CopyLines, width_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(int{kHostMemory} == int{CU_MEMORYTYPE_HOST});
static_assert(int{kDeviceMemory} == int{CU_MEMORYTYPE_DEVICE});
static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LtHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(LtHeuristic, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

template <auto Ours, auto Theirs>
constexpr bool equal = static_cast<long>(Ours) == static_cast<long>(Theirs);

static_assert(equal<kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT>);
static_assert(equal<kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE>);
static_assert(equal<kComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR>);
static_assert(equal<kComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR>);
static_assert(equal<kSharedBytesPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN>);
static_assert(equal<kLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES>);
static_assert(equal<kRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS>);
static_assert(equal<kDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES>);
static_assert(equal<kNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED>);
static_assert(equal<kStreamNonBlocking, CU_STREAM_NON_BLOCKING>);
static_assert(equal<kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL>);
static_assert(equal<kMapU8, CU_TENSOR_MAP_DATA_TYPE_UINT8>);
static_assert(equal<kMapI32, CU_TENSOR_MAP_DATA_TYPE_INT32>);
static_assert(equal<kMapI64, CU_TENSOR_MAP_DATA_TYPE_INT64>);
static_assert(equal<kMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16>);
static_assert(equal<kMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32>);
static_assert(equal<kMapF64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64>);
static_assert(equal<kMapBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16>);
static_assert(equal<kNoInterleave, CU_TENSOR_MAP_INTERLEAVE_NONE>);
static_assert(equal<kNoSwizzle, CU_TENSOR_MAP_SWIZZLE_NONE>);
static_assert(equal<kSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B>);
static_assert(equal<kSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B>);
static_assert(equal<kSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B>);
static_assert(equal<kNoPromotion, CU_TENSOR_MAP_L2_PROMOTION_NONE>);
static_assert(equal<kPromote128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B>);
static_assert(equal<kPromote256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B>);
static_assert(equal<kFillZeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE>);
static_assert(equal<kClusterSize, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION>);
static_assert(equal<kProgrammaticLaunch, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION>);
static_assert(equal<kNvrtcCompilationFailed, NVRTC_ERROR_COMPILATION>);
static_assert(equal<kLtF32, CUDA_R_32F> && equal<kLtF64, CUDA_R_64F>);
static_assert(equal<kLtF16, CUDA_R_16F> && equal<kLtBf16, CUDA_R_16BF>);
static_assert(equal<kLtE4m3, CUDA_R_8F_E4M3> && equal<kLtE5m2, CUDA_R_8F_E5M2>);
static_assert(equal<kLtComputeF32, CUBLAS_COMPUTE_32F>);
static_assert(equal<kLtTransposeA, CUBLASLT_MATMUL_DESC_TRANSA>);
static_assert(equal<kLtTransposeB, CUBLASLT_MATMUL_DESC_TRANSB>);
static_assert(equal<kLtFastAccumulate, CUBLASLT_MATMUL_DESC_FAST_ACCUM>);
static_assert(equal<kLtOrder, CUBLASLT_MATRIX_LAYOUT_ORDER>);
static_assert(equal<kLtPitch, CUBLASLT_MATRIX_LAYOUT_LD>);
static_assert(equal<kLtColumnMajor, CUBLASLT_ORDER_COL> && equal<kLtRowMajor, CUBLASLT_ORDER_ROW>);
static_assert(equal<kLtWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES>);
static_assert(equal<kLtReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK>);
static_assert(equal<kLtAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES>);
static_assert(equal<kLtAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES>);
static_assert(equal<kLtAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES>);
static_assert(equal<kLtAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES>);
static_assert(equal<kLtReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE>);

TEST(Declarations, agree_with_the_headers_of_the_toolkit) {
  SUCCEED() << "held at compile time against CUDA " << CUDA_VERSION;
}

}  // namespace
}  // namespace coda::cuda
