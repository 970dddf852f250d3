// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors_header.h"

#include <coda/error.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "nn/config_json.h"
#include "train/safetensors_types.h"

namespace coda::train {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

using nn::Json;
using nn::shown;

constexpr const char* kAgain = "copy or download the file again";

struct Range {
  uint64_t begin, end;
  size_t tensor;
};

class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  Header run() {
    const std::string_view text = header_text();
    const Json json = nn::parse_object(text, path_ + ": header");
    data_ = file_.subspan(sizeof(uint64_t) + text.size());
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadataKey)
        read_metadata(value);
      else
        read_tensor(name, value);
    }
    check_layout();
    return std::move(header_);
  }

 private:
  std::string_view header_text() const {
    uint64_t size = 0;
    if (file_.size() < sizeof size)
      refuse(path_, "at least 8 bytes", std::to_string(file_.size()), kAgain);
    std::memcpy(&size, file_.data(), sizeof size);
    if (size > kLongestHeader)
      refuse(path_, "a header of at most " + std::to_string(kLongestHeader) + " bytes",
             std::to_string(size), "check that this is a safetensors file");
    if (size > file_.size() - sizeof size)
      refuse(path_, "a header of " + std::to_string(size) + " bytes",
             "a file that ends after " + std::to_string(file_.size() - sizeof size) + " of them",
             kAgain);
    const char* begin = reinterpret_cast<const char*>(file_.data()) + sizeof size;
    return {begin, static_cast<size_t>(size)};
  }

  void read_metadata(const Json& value) {
    if (!value.is_object())
      refuse(path_ + ": metadata", "an object of texts", shown(value), kAgain);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        refuse(path_ + ": metadata '" + key + "'", "a text", shown(text), kAgain);
      header_.metadata.emplace(key, text.get<std::string>());
    }
  }

  void read_tensor(const std::string& name, const Json& value) {
    const std::string place = place_of(name);
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets"))
      refuse(place, "an object of dtype, shape and data_offsets", shown(value), kAgain);
    StoredTensor tensor = {name, read_type(place, value["dtype"]), {}, {}};

    const Json& shape = value["shape"];
    if (!shape.is_array()) refuse(place + ": shape", "a list of sizes", shown(shape), kAgain);
    for (const Json& size : shape) {
      const std::optional<uint64_t> number = unsigned_number(size);
      if (!number || *number > uint64_t{INT64_MAX})
        refuse(place + ": shape", "sizes of 0 to 2^63 - 1", shown(shape), kAgain);
      tensor.shape.push_back(static_cast<int64_t>(*number));
    }
    const std::optional<int64_t> bytes = bytes_of(tensor.shape, tensor.type);
    if (!bytes) refuse(place + ": shape", "fewer than 2^63 bytes", tensor.description(), kAgain);

    const Json& offsets = value["data_offsets"];
    const bool pair = offsets.is_array() && offsets.size() == 2;
    const std::optional<uint64_t> begin = pair ? unsigned_number(offsets[0]) : std::nullopt;
    const std::optional<uint64_t> end = pair ? unsigned_number(offsets[1]) : std::nullopt;
    const std::string where = place + ": data_offsets";
    if (!begin || !end || *begin > *end)
      refuse(where, "two integers [begin, end], begin at most end", shown(offsets), kAgain);
    if (*end > data_.size())
      refuse(where, "an end of at most " + std::to_string(data_.size()) + ", where the file ends",
             shown(offsets), kAgain);
    if (*end - *begin != static_cast<uint64_t>(*bytes))
      refuse(where, std::to_string(*bytes) + " bytes for " + tensor.description(),
             std::to_string(*end - *begin), kAgain);
    tensor.bytes = data_.subspan(*begin, *end - *begin);
    ranges_.push_back({*begin, *end, header_.tensors.size()});
    header_.tensors.push_back(std::move(tensor));
  }

  DType read_type(const std::string& place, const Json& value) const {
    std::string known;
    for (const StoredType& row : kStoredTypes) {
      if (value == row.name) return row.type;
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    refuse(place + ": dtype", "one of " + known, shown(value), "store the tensor as one of these");
  }

  static std::optional<uint64_t> unsigned_number(const Json& value) {
    if (!value.is_number_unsigned()) return std::nullopt;
    return value.get<uint64_t>();
  }

  /// The ranges stand one after the other, from the first byte of data to the last.
  void check_layout() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t covered = 0;
    for (const Range& range : ranges_) {
      const std::string where = place_of(header_.tensors[range.tensor].name) + ": data_offsets";
      const std::string expected = "a begin at " + std::to_string(covered) + ", where ";
      if (range.begin < covered)
        refuse(where, expected + "the tensor before it ends",
               std::to_string(range.begin) + ", so that the two overlap", kAgain);
      if (range.begin > covered)
        refuse(where, expected + "the tensor before it ends",
               std::to_string(range.begin) + ", so that bytes between belong to none", kAgain);
      covered = range.end;
    }
    if (covered != data_.size())
      refuse(path_, std::to_string(covered) + " bytes of data, as the header says",
             std::to_string(data_.size()), kAgain);
  }

  std::string place_of(const std::string& name) const { return path_ + ": tensor '" + name + "'"; }

  [[noreturn]] static void refuse(const std::string& where, std::string_view expected,
                                  std::string_view got, std::string_view fix) {
    throw Error(ErrorKind::io, where, expected, got, fix);
  }

  const std::string& path_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  std::vector<Range> ranges_;
  Header header_;
};

}  // namespace

Header read_header(const std::string& path, std::span<const std::byte> file) {
  return HeaderReader(path, file).run();
}

}  // namespace coda::train
