// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include "call/call.h"
#include "call/resolve.h"

namespace coda {

void check_labels(TensorView labels, int64_t n, std::optional<int64_t> ignore_index) {
  const std::string where = "check_labels";
  if (labels.device.kind != Device::Kind::cpu)
    throw Error(ErrorKind::unsupported, where, "labels in host memory", "labels on a device",
                "copy them to the host first");
  if (labels.dtype != DType::i32 && labels.dtype != DType::i64)
    throw Error(ErrorKind::dtype, where, "i32 or i64", name_of(labels.dtype), "convert the labels");
  if (labels.rank != 1 || labels.shape[0] < 0)
    throw Error(ErrorKind::shape, where, "a vector (rank 1)", "rank " + std::to_string(labels.rank),
                "pass one label per row");
  if (labels.data == nullptr && labels.shape[0] > 0)
    throw Error(ErrorKind::argument, where, "memory", "a null pointer", "pass the labels' data");
  for (int64_t i = 0; i < labels.shape[0]; ++i) {
    const int64_t at = i * labels.strides[0];
    const int64_t label = labels.dtype == DType::i32 ? static_cast<const int32_t*>(labels.data)[at]
                                                     : static_cast<const int64_t*>(labels.data)[at];
    if ((label >= 0 && label < n) || label == ignore_index) continue;
    std::string expected = "labels from 0 to " + std::to_string(n - 1);
    if (ignore_index) expected += ", or " + std::to_string(*ignore_index);
    throw Error(ErrorKind::argument, where, expected,
                std::to_string(label) + " in row " + std::to_string(i),
                "correct the label, or mark the row ignored");
  }
}

}  // namespace coda
