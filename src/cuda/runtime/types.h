// SPDX-License-Identifier: Apache-2.0
// Types and constants of NVIDIA's libraries, as far as coda calls them: declared here, so that
// building needs none of their headers. Handles are opaque; enumerations travel as int. Where the
// headers are installed, a test holds every declaration against them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coda::cuda {

using Result = int;  // of the driver; 0 is success
using DeviceId = int;
using DevicePointer = uint64_t;
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using LibraryHandle = struct LibraryTag*;
using KernelHandle = struct KernelTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;

enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedBytesPerBlock = 97,  // the most that a kernel can opt in to
};

enum FunctionAttribute : int {
  kLocalBytes = 3,
  kRegisters = 4,
  kDynamicSharedBytes = 8,
  kNonPortableCluster = 14,
};

enum StreamFlag : unsigned { kStreamNonBlocking = 1 };
enum CaptureMode : int { kCaptureThreadLocal = 1 };

enum MemoryKind : int { kHostMemory = 1, kDeviceMemory = 2 };

/// One end of a copy of lines; which of `host` and `device` counts, `kind` says.
struct CopyEnd {
  size_t x_bytes, y;
  int kind;
  const void* host;
  DevicePointer device;
  void* array;
  size_t pitch;
};
struct CopyLines {
  CopyEnd from, to;
  size_t width_bytes, height;
};
static_assert(sizeof(CopyLines) == 128);

/// A TMA descriptor, as cuTensorMapEncodeTiled writes it and a kernel takes it by value. The device
/// asks for 64-byte alignment.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

enum TensorMapType : int {
  kMapU8 = 0,
  kMapI32 = 3,
  kMapI64 = 5,
  kMapF16 = 6,
  kMapF32 = 7,
  kMapF64 = 8,
  kMapBf16 = 9,
};
enum TensorMapInterleave : int { kNoInterleave = 0 };
enum TensorMapSwizzle : int { kNoSwizzle = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };
enum TensorMapPromotion : int { kNoPromotion = 0, kPromote128 = 2, kPromote256 = 3 };
enum TensorMapFill : int { kFillZeros = 0 };

enum LaunchAttributeId : int { kClusterSize = 4, kProgrammaticLaunch = 6 };

struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    unsigned cluster[3];
    int programmatic;
  };
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, bytes) == 8);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

using NvrtcResult = int;  // 0 is success
using NvrtcProgram = struct NvrtcProgramTag*;
enum : int { kNvrtcCompilationFailed = 6 };

using CublasStatus = int;  // 0 is success
using LtHandle = struct LtTag*;
using LtMatmul = struct LtMatmulTag*;
using LtLayout = struct LtLayoutTag*;
using LtPreference = struct LtPreferenceTag*;

enum LtType : int {
  kLtF32 = 0,
  kLtF64 = 1,
  kLtF16 = 2,
  kLtBf16 = 14,
  kLtE4m3 = 28,
  kLtE5m2 = 29,
};
enum LtCompute : int { kLtComputeF32 = 68 };
enum LtMatmulAttribute : int { kLtTransposeA = 3, kLtTransposeB = 4, kLtFastAccumulate = 25 };
enum LtLayoutAttribute : int { kLtOrder = 1, kLtPitch = 4 };
enum LtOrder : int { kLtColumnMajor = 0, kLtRowMajor = 1 };
enum LtPreferenceAttribute : int {
  kLtWorkspaceBytes = 1,
  kLtReductionSchemes = 3,
  kLtAlignmentA = 5,
  kLtAlignmentB = 6,
  kLtAlignmentC = 7,
  kLtAlignmentD = 8,
};
enum LtReductionScheme : int { kLtReduceInComputeType = 2 };

struct LtAlgorithm {
  uint64_t opaque[8];
};

struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  CublasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96);

using CudnnStatus = int;  // 0 is success
using CudnnHandle = struct CudnnTag*;
using CudnnDescriptor = void*;

}  // namespace coda::cuda
