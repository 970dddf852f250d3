// SPDX-License-Identifier: Apache-2.0
// Tensors on disk in the format of safetensors: an 8-byte length, a JSON header of names, types,
// shapes and byte ranges, then the bytes. Files are mapped, not read: a tensor costs what is used
// of it.
//
// Nothing in a file is believed. Before a tensor can be had, every byte range was found to fit its
// type and shape, to lie within the file and to touch no other one; the ranges leave no gaps, as
// the format asks. A file that another process makes shorter while it is mapped is beyond that.
#pragma once

#include <coda/dtype.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/mapped_file.h"

namespace coda::train {

struct StoredTensor {
  std::string name;
  DType type;                  // f32, bf16, f16, i64, i32 or u8
  std::vector<int64_t> shape;  // empty: one number
  /// Row-major, in the order of bytes of this machine; files need not align it.
  std::span<const std::byte> bytes;

  int64_t elements() const;
  /// "f32[2, 3]"
  std::string description() const;
};

/// Tensors by name, from one file or several. Copies share the mapping, which lasts as long as any.
class Safetensors {
 public:
  /// A file, or a folder that holds model.safetensors or, for a model in several files,
  /// model.safetensors.index.json.
  static Safetensors open(const std::string& path);

  /// Sorted by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  /// Null where there is none.
  const StoredTensor* find(std::string_view name) const;

  /// Refuses a name that is not there.
  const StoredTensor& at(std::string_view name) const;

  /// Refuses a shape other than this one as well.
  const StoredTensor& at(std::string_view name, std::span<const int64_t> shape) const;

  /// Of the file; of several files, what the first one says.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void add_file(const std::string& path);
  void add_folder(const std::string& folder);
  void add_indexed(const std::string& folder, const std::string& index);
  void sort();

  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> mappings_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The elements, widened exactly; refuses integers.
std::vector<float> floats_of(const StoredTensor& tensor);

/// The elements of a tensor of integers.
std::vector<int64_t> integers_of(const StoredTensor& tensor);

struct TensorToStore {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  const void* data;  // row-major, without gaps; may be null where the shape has no elements
};

/// Writes all of them or leaves the file that was there. The header says {"format": "pt"}, which is
/// what transformers asks for, beside `metadata`.
void write_safetensors(const std::string& path, std::span<const TensorToStore> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace coda::train
