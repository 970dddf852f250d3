// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "train/atomic_file.h"
#include "train/safetensors.h"
#include "train/safetensors_types.h"

namespace coda::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kAlignment = 8;

/// A tensor and what it takes, found before anything is written.
struct Entry {
  const TensorToStore* tensor;
  std::string_view type;
  int64_t bytes;
};

[[noreturn]] void refuse(const std::string& path, const TensorToStore& tensor, ErrorKind kind,
                         std::string_view expected, std::string_view got, std::string_view fix) {
  throw Error(kind, path + ": tensor '" + tensor.name + "'", expected, got, fix);
}

Entry checked(const std::string& path, const TensorToStore& tensor) {
  Entry entry = {&tensor, {}, 0};
  for (const StoredType& row : kStoredTypes)
    if (row.type == tensor.type) entry.type = row.name;
  if (entry.type.empty())
    refuse(path, tensor, ErrorKind::dtype, "f32, bf16, f16, i64, i32 or u8", name_of(tensor.type),
           "convert the tensor");
  const std::optional<int64_t> bytes = bytes_of(tensor.shape, tensor.type);
  if (!bytes)
    refuse(path, tensor, ErrorKind::shape, "sizes of at least 0 and fewer than 2^63 bytes",
           shape_text(tensor.shape), "correct the shape");
  entry.bytes = *bytes;
  if (entry.bytes > 0 && tensor.data == nullptr)
    refuse(path, tensor, ErrorKind::argument, "data", "a null pointer", "pass the tensor's memory");
  if (tensor.name == kMetadataKey)
    refuse(path, tensor, ErrorKind::argument, "another name", "that of the metadata", "rename it");
  return entry;
}

/// Wider types first, so that every tensor is aligned to its elements; then by name.
std::vector<Entry> in_file_order(const std::string& path, std::span<const TensorToStore> tensors) {
  std::vector<Entry> entries;
  for (const TensorToStore& tensor : tensors) entries.push_back(checked(path, tensor));
  const auto by_name = [](const Entry& a, const Entry& b) {
    return a.tensor->name < b.tensor->name;
  };
  std::sort(entries.begin(), entries.end(), by_name);
  const auto twice = std::adjacent_find(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.tensor->name == b.tensor->name; });
  if (twice != entries.end())
    refuse(path, *twice->tensor, ErrorKind::argument, "every name once", "two of this name",
           "rename one of them");
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return size_of(a.tensor->type) > size_of(b.tensor->type);
  });
  return entries;
}

std::string header_text(const std::string& path, std::span<const Entry> entries,
                        const std::map<std::string, std::string>& metadata) {
  Json json;
  json[kMetadataKey] = metadata;
  json[kMetadataKey]["format"] = "pt";
  int64_t offset = 0;
  for (const Entry& entry : entries) {
    int64_t end;
    if (__builtin_add_overflow(offset, entry.bytes, &end))
      refuse(path, *entry.tensor, ErrorKind::shape, "fewer than 2^63 bytes in all", "more",
             "write several files");
    json[entry.tensor->name] = {
        {"dtype", entry.type}, {"shape", entry.tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::argument, path, "names and metadata in UTF-8", "other bytes",
                "rename the tensor");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kLongestHeader)
    throw Error(ErrorKind::unsupported, path,
                "a header of at most " + std::to_string(kLongestHeader) + " bytes",
                std::to_string(text.size()), "write several files");
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorToStore> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<Entry> entries = in_file_order(path, tensors);
  const std::string header = header_text(path, entries, metadata);
  AtomicFile file(path);
  const uint64_t size = header.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const Entry& entry : entries)
    file.write(
        {static_cast<const std::byte*>(entry.tensor->data), static_cast<size_t>(entry.bytes)});
  file.commit();
}

}  // namespace coda::train
