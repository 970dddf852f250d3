// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors.h"

#include <coda/error.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/convert.h"
#include "base/nearest.h"
#include "nn/config_json.h"
#include "train/mapped_file.h"
#include "train/safetensors_header.h"
#include "train/safetensors_types.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const std::string& where, std::string_view expected, std::string_view got,
                         std::string_view fix, ErrorKind kind = ErrorKind::io) {
  throw Error(kind, where, expected, got, fix);
}

/// A plain name in the folder of the index: a file elsewhere is none of the model's.
bool plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// The elements of type T, which the file need not align.
template <class T, class Widen>
std::vector<float> widened(const StoredTensor& tensor, Widen widen) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  const std::byte* from = tensor.bytes.data();
  for (float& value : values) {
    T element;
    std::memcpy(&element, from, sizeof element);
    value = widen(element);
    from += sizeof element;
  }
  return values;
}

}  // namespace

int64_t StoredTensor::elements() const {
  return static_cast<int64_t>(bytes.size() / size_of(type));
}

std::string StoredTensor::description() const { return name_of(type) + shape_text(shape); }

Safetensors Safetensors::open(const std::string& path) {
  Safetensors result;
  result.path_ = path;
  std::error_code error;
  if (fs::is_directory(path, error))
    result.add_folder(path);
  else
    result.add_file(path);
  result.sort();
  return result;
}

void Safetensors::add_file(const std::string& path) {
  auto mapping = std::make_shared<const MappedFile>(path);
  Header header = read_header(path, mapping->bytes());
  mappings_.push_back(std::move(mapping));
  std::move(header.tensors.begin(), header.tensors.end(), std::back_inserter(tensors_));
  if (mappings_.size() == 1) metadata_ = std::move(header.metadata);
}

void Safetensors::add_folder(const std::string& folder) {
  std::error_code error;
  const std::string single = (fs::path(folder) / kSingle).string();
  const std::string index = (fs::path(folder) / kIndex).string();
  if (fs::exists(single, error)) return add_file(single);
  if (fs::exists(index, error)) return add_indexed(folder, index);
  refuse(folder, std::string(kSingle) + " or " + kIndex, "neither in the folder",
         "check the path; models of other formats have to be converted");
}

void Safetensors::add_indexed(const std::string& folder, const std::string& index) {
  constexpr const char* fix = "copy or download the index and its files again";
  const nn::Json json = nn::parse_object(nn::read_text(index), index);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty())
    refuse(index + ": key 'weight_map'", "an object of tensor names and file names",
           map == json.end() ? "no such key" : nn::shown(*map), fix);
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !plain(file.get<std::string>()))
      refuse(index + ": tensor '" + name + "'", "the name of a file in the same folder",
             nn::shown(file), fix);
    files[file.get<std::string>()].insert(name);
  }
  for (auto& [file, names] : files) {
    const size_t first = tensors_.size();
    const std::string path = (fs::path(folder) / file).string();
    add_file(path);
    for (size_t i = first; i < tensors_.size(); ++i)
      if (names.erase(tensors_[i].name) == 0)
        refuse(path + ": tensor '" + tensors_[i].name + "'",
               "the tensors that " + index + " has here", "one that it does not", fix);
    if (!names.empty())
      refuse(path, "the tensor '" + *names.begin() + "', as " + index + " says",
             "none of that name", fix);
  }
}

void Safetensors::sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
}

const StoredTensor* Safetensors::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const StoredTensor& a, std::string_view b) { return a.name < b; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const StoredTensor& Safetensors::at(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  refuse(path_, "a tensor '" + std::string(name) + "'", "none of that name",
         suggestion(name, names), ErrorKind::argument);
}

const StoredTensor& Safetensors::at(std::string_view name, std::span<const int64_t> shape) const {
  const StoredTensor& tensor = at(name);
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end()))
    refuse(path_ + ": tensor '" + tensor.name + "'", "the shape " + shape_text(shape),
           shape_text(tensor.shape), "use the config.json that belongs to this file",
           ErrorKind::shape);
  return tensor;
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  switch (tensor.type) {
    case DType::f32:
      return widened<float>(tensor, [](float value) { return value; });
    case DType::bf16:
      return widened<Bf16>(tensor, [](Bf16 value) { return to_f32(value); });
    case DType::f16:
      return widened<F16>(tensor, [](F16 value) { return to_f32(value); });
    default:
      refuse("tensor '" + tensor.name + "'", "f32, bf16 or f16", name_of(tensor.type),
             "read it as integers", ErrorKind::dtype);
  }
}

std::vector<int64_t> integers_of(const StoredTensor& tensor) {
  if (is_float(tensor.type))
    refuse("tensor '" + tensor.name + "'", "i64, i32 or u8", name_of(tensor.type),
           "read it as floats", ErrorKind::dtype);
  std::vector<int64_t> values(static_cast<size_t>(tensor.elements()));
  const size_t size = size_of(tensor.type);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_integer(tensor.bytes.data() + i * size, tensor.type);
  return values;
}

}  // namespace coda::train
