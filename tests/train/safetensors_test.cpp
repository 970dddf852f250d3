// SPDX-License-Identifier: Apache-2.0
// Reading and writing of safetensors: what transformers wrote is read, what is written is read
// back, and every way in which a file can be wrong is refused with its whole message.
#include "train/safetensors.h"

#include <coda/error.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/convert.h"
#include "support/folder.h"

namespace coda::train {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  /// What the call refuses, with the folder's own path left out.
  template <class Call>
  std::string refusal(Call call) const {
    try {
      call();
    } catch (const Error& error) {
      std::string what = error.what();
      const std::string prefix = folder_.string() + "/";
      for (size_t at = what.find(prefix); at != std::string::npos; at = what.find(prefix))
        what.erase(at, prefix.size());
      return what;
    }
    return "nothing refused";
  }

  const test::Folder home_;
  const fs::path folder_ = home_.path();
};

std::string file_of(std::string_view header, size_t data) {
  const uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += header;
  bytes.append(data, '\x3f');
  return bytes;
}

/// Values without a pattern that a mixed-up offset would repeat.
template <class T>
std::vector<T> drawn(size_t count, unsigned seed) {
  std::vector<T> values(count);
  uint32_t state = seed * 2654435761u + 1;
  for (T& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<T>(state >> 8);
  }
  return values;
}

TEST_F(SafetensorsTest, ReadsWhatIsWritten) {
  const auto f32 = drawn<float>(6, 1);
  const auto bf16 = drawn<uint16_t>(15, 2);
  const auto f16 = drawn<uint16_t>(1, 3);
  const auto i64 = drawn<int64_t>(4, 4);
  const auto i32 = drawn<int32_t>(7, 5);
  const auto u8 = drawn<uint8_t>(3, 6);
  const TensorToStore tensors[] = {
      {"flags", DType::u8, {3}, u8.data()},       {"ids", DType::i64, {2, 2}, i64.data()},
      {"weight", DType::f32, {2, 3}, f32.data()}, {"nothing", DType::f16, {0, 5}, nullptr},
      {"half", DType::bf16, {3, 5}, bf16.data()}, {"one", DType::f16, {}, f16.data()},
      {"cube", DType::i32, {7, 1, 1}, i32.data()}};
  write_safetensors(path("a.safetensors"), tensors, {{"step", "7"}});

  const Safetensors file = Safetensors::open(path("a.safetensors"));
  ASSERT_EQ(file.tensors().size(), std::size(tensors));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"step", "7"}}));
  for (const TensorToStore& stored : tensors) {
    const StoredTensor& tensor = file.at(stored.name);
    EXPECT_EQ(tensor.type, stored.type) << stored.name;
    EXPECT_EQ(tensor.shape, stored.shape) << stored.name;
    ASSERT_EQ(tensor.bytes.size(), static_cast<size_t>(tensor.elements()) * size_of(stored.type));
    const auto* expected = static_cast<const std::byte*>(stored.data);
    EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), expected)) << stored.name;
    // Aligned, since the widest come first and the header is padded.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % size_of(stored.type), 0u);
  }
  EXPECT_EQ(floats_of(file.at("weight")), f32);
  EXPECT_EQ(integers_of(file.at("ids")), i64);
  for (size_t i = 0; i < bf16.size(); ++i) {
    const auto expected = std::bit_cast<uint32_t>(to_f32(Bf16{bf16[i]}));
    EXPECT_EQ(std::bit_cast<uint32_t>(floats_of(file.at("half"))[i]), expected) << i;
  }
  EXPECT_EQ(floats_of(file.at("one"))[0], to_f32(F16{f16[0]}));
  EXPECT_EQ(file.at("one").elements(), 1);
  EXPECT_EQ(file.find("weigh"), nullptr);

  uint64_t header = 0;
  const std::string bytes = read("a.safetensors");
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u);
}

TEST_F(SafetensorsTest, CopiesKeepTheMapping) {
  const auto values = drawn<float>(5, 1);
  const TensorToStore tensor = {"x", DType::f32, {5}, values.data()};
  write_safetensors(path("x"), {&tensor, 1});
  auto file = std::make_unique<Safetensors>(Safetensors::open(path("x")));
  const Safetensors copy = *file;
  file.reset();
  EXPECT_EQ(floats_of(copy.at("x")), values);
}

TEST_F(SafetensorsTest, ReadsUnalignedTensors) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}} )";
  write("a", file_of(header, 7));
  EXPECT_EQ(floats_of(Safetensors::open(path("a")).at("b")), std::vector<float>{0x1.7e7e7ep-1f});
}

TEST_F(SafetensorsTest, ReadsNoTensors) {
  write("a", file_of("{}", 0));
  EXPECT_TRUE(Safetensors::open(path("a")).tensors().empty());
}

TEST_F(SafetensorsTest, ReadsSeveralFilesThroughAnIndex) {
  const auto values = drawn<float>(6, 9);
  const TensorToStore first[] = {{"b", DType::f32, {2}, values.data()},
                                 {"c", DType::f32, {1}, values.data() + 2}};
  const TensorToStore second = {"a", DType::f32, {3}, values.data() + 3};
  write_safetensors(path("model-1.safetensors"), first);
  write_safetensors(path("model-2.safetensors"), {&second, 1});
  write("model.safetensors.index.json",
        R"({"metadata": {"total_size": 24}, "weight_map": {"a": "model-2.safetensors",
            "b": "model-1.safetensors", "c": "model-1.safetensors"}})");
  const Safetensors model = Safetensors::open(folder_.string());
  ASSERT_EQ(model.tensors().size(), 3u);
  EXPECT_EQ(model.tensors()[0].name, "a");
  EXPECT_EQ(floats_of(model.at("a")), std::vector<float>(values.begin() + 3, values.end()));
  EXPECT_EQ(floats_of(model.at("c")), std::vector<float>{values[2]});
}

TEST_F(SafetensorsTest, OneFileGoesBeforeAnIndex) {
  const auto values = drawn<float>(2, 9);
  const TensorToStore tensor = {"x", DType::f32, {2}, values.data()};
  write_safetensors(path("model.safetensors"), {&tensor, 1});
  write("model.safetensors.index.json", "{");
  EXPECT_EQ(floats_of(Safetensors::open(folder_.string()).at("x")), values);
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* what;
};

void PrintTo(const BadFile& row, std::ostream* out) { *out << row.name; }

std::string with_length(uint64_t size, std::string_view rest) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + std::string(rest);
}

const BadFile kBadFiles[] = {
    {"empty", "", "f: expected at least 8 bytes, got 0; fix: copy or download the file again"},
    {"seven_bytes", "1234567",
     "f: expected at least 8 bytes, got 7; fix: copy or download the file again"},
    {"header_too_long", with_length(100'000'001, "{}"),
     "f: expected a header of at most 100000000 bytes, got 100000001; fix: check that this is a "
     "safetensors file"},
    {"header_of_all_bits", with_length(UINT64_MAX, "{}"),
     "f: expected a header of at most 100000000 bytes, got 18446744073709551615; fix: check that "
     "this is a safetensors file"},
    {"header_cut_off", with_length(3, "{}"),
     "f: expected a header of 3 bytes, got a file that ends after 2 of them; fix: copy or download "
     "the file again"},
    {"header_no_json", file_of("{\"a\": ", 0),
     "f: header: expected valid JSON, got parse error at line 1, column 7: syntax error while "
     "parsing value - unexpected end of input; expected '[', '{', or a literal; fix: write the "
     "file "
     "again"},
    {"header_a_list", file_of("[1]", 0),
     "f: header: expected a JSON object, got [1]; fix: write the file again"},
    {"header_two_objects", file_of("{} {}", 0),
     "f: header: expected valid JSON, got parse error at line 1, column 4: syntax error while "
     "parsing value - unexpected '{'; expected end of input; fix: write the file again"},
    {"header_no_utf8", file_of("{\"\xff\": 1}", 0),
     "f: header: expected valid JSON, got parse error at line 1, column 3: syntax error while "
     "parsing object key - invalid string: ill-formed UTF-8 byte; last read: '\"\xff'; expected "
     "string literal; fix: write the file again"},
    {"name_twice",
     file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
             2),
     "f: header: expected every key once, got two of \"a\"; fix: write the file again"},
    {"nested", file_of("{\"a\":" + std::string(100000, '['), 0),
     "f: header: expected JSON of at most 16 levels, got more of them; fix: write the file again"},
    {"metadata_a_number", file_of(R"({"__metadata__":{"format":1}})", 0),
     "f: metadata 'format': expected a text, got 1; fix: copy or download the file again"},
    {"metadata_a_text", file_of(R"({"__metadata__":"pt"})", 0),
     "f: metadata: expected an object of texts, got \"pt\"; fix: copy or download the file again"},
    {"tensor_a_number", file_of(R"({"a":5})", 0),
     "f: tensor 'a': expected an object of dtype, shape and data_offsets, got 5; fix: copy or "
     "download the file again"},
    {"no_offsets", file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1),
     "f: tensor 'a': expected an object of dtype, shape and data_offsets, got "
     "{\"dtype\":\"U8\",\"shape\":[1]}; fix: copy or download the file again"},
    {"one_key_more",
     file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"scale":2}})", 1),
     "f: tensor 'a': expected an object of dtype, shape and data_offsets, got "
     "{\"data_offsets\":[0,1],\"dtype\":\"U8\",\"scale\":2,\"shape\":[1]}; fix: copy or download "
     "the "
     "file again"},
    {"type_f64", file_of(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
     "f: tensor 'a': dtype: expected one of F32, BF16, F16, I64, I32, U8, got \"F64\"; fix: store "
     "the tensor as one of these"},
    {"type_a_number", file_of(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4),
     "f: tensor 'a': dtype: expected one of F32, BF16, F16, I64, I32, U8, got 32; fix: store the "
     "tensor as one of these"},
    {"shape_a_number", file_of(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1),
     "f: tensor 'a': shape: expected a list of sizes, got 1; fix: copy or download the file again"},
    {"size_negative", file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
     "f: tensor 'a': shape: expected sizes of 0 to 2^63 - 1, got [-1]; fix: copy or download the "
     "file again"},
    {"size_real", file_of(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1),
     "f: tensor 'a': shape: expected sizes of 0 to 2^63 - 1, got [1.0]; fix: copy or download the "
     "file again"},
    {"size_of_64_bits",
     file_of(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1),
     "f: tensor 'a': shape: expected sizes of 0 to 2^63 - 1, got [18446744073709551615]; fix: copy "
     "or download the file again"},
    {"size_beyond_64_bits",
     file_of(R"({"a":{"dtype":"U8","shape":[18446744073709551617],"data_offsets":[0,1]}})", 1),
     "f: tensor 'a': shape: expected sizes of 0 to 2^63 - 1, got [1.8446744073709552e+19]; fix: "
     "copy or download the file again"},
    {"shape_overflows",
     file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
     "f: tensor 'a': shape: expected fewer than 2^63 bytes, got f32[4294967296, 4294967296]; fix: "
     "copy or download the file again"},
    {"one_offset", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}})", 1),
     "f: tensor 'a': data_offsets: expected two integers [begin, end], begin at most end, got [1]; "
     "fix: copy or download the file again"},
    {"offset_negative", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1),
     "f: tensor 'a': data_offsets: expected two integers [begin, end], begin at most end, got "
     "[-1,0]; fix: copy or download the file again"},
    {"offsets_swapped", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1),
     "f: tensor 'a': data_offsets: expected two integers [begin, end], begin at most end, got "
     "[1,0]; fix: copy or download the file again"},
    {"offset_beyond_64_bits",
     file_of(
         R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551616,18446744073709551617]}})",
         1),
     "f: tensor 'a': data_offsets: expected two integers [begin, end], begin at most end, got "
     "[1.8446744073709552e+19,1.8446744073709552e+19]; fix: copy or download the file again"},
    {"leaves_the_file", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
     "f: tensor 'a': data_offsets: expected an end of at most 7, where the file ends, got [0,8]; "
     "fix: copy or download the file again"},
    {"far_outside",
     file_of(
         R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}})",
         7),
     "f: tensor 'a': data_offsets: expected an end of at most 7, where the file ends, got "
     "[18446744073709551614,18446744073709551615]; fix: copy or download the file again"},
    {"range_too_short", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 8),
     "f: tensor 'a': data_offsets: expected 8 bytes for f32[2], got 7; fix: copy or download the "
     "file again"},
    {"range_too_long", file_of(R"({"a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,8]}})", 8),
     "f: tensor 'a': data_offsets: expected 6 bytes for bf16[3, 1], got 8; fix: copy or download "
     "the "
     "file again"},
    {"overlap",
     file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
             7),
     "f: tensor 'b': data_offsets: expected a begin at 4, where the tensor before it ends, got 3, "
     "so "
     "that the two overlap; fix: copy or download the file again"},
    {"same_range",
     file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
             4),
     "f: tensor 'b': data_offsets: expected a begin at 4, where the tensor before it ends, got 0, "
     "so "
     "that the two overlap; fix: copy or download the file again"},
    {"hole",
     file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
             9),
     "f: tensor 'b': data_offsets: expected a begin at 4, where the tensor before it ends, got 5, "
     "so "
     "that bytes between belong to none; fix: copy or download the file again"},
    {"bytes_at_the_end", file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5),
     "f: expected 4 bytes of data, as the header says, got 5; fix: copy or download the file "
     "again"},
};

class BadFileTest : public SafetensorsTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadFileTest, IsRefused) {
  write("f", GetParam().bytes);
  EXPECT_EQ(refusal([&] { Safetensors::open(path("f")); }), GetParam().what);
}

INSTANTIATE_TEST_SUITE_P(Files, BadFileTest, ::testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(SafetensorsTest, EveryCutOfAFileIsRefused) {
  const auto values = drawn<float>(3, 1);
  const TensorToStore tensors[] = {{"a", DType::f32, {2}, values.data()},
                                   {"b", DType::f32, {1}, values.data() + 2}};
  write_safetensors(path("whole"), tensors);
  const std::string whole = read("whole");
  for (size_t size = 0; size < whole.size(); ++size) {
    write("part", std::string_view(whole).substr(0, size));
    EXPECT_THROW(Safetensors::open(path("part")), Error) << size;
  }
}

// Whatever a damaged header says, the tensors that are had lie within the file.
TEST_F(SafetensorsTest, EveryChangedByteOfAHeaderIsHarmless) {
  const auto values = drawn<float>(3, 1);
  const TensorToStore tensors[] = {{"a", DType::f32, {2}, values.data()},
                                   {"b", DType::u8, {3}, values.data()}};
  write_safetensors(path("whole"), tensors);
  const std::string whole = read("whole");
  int refused = 0;
  for (size_t at = 0; at + 11 < whole.size(); ++at) {
    for (const char byte : {'\0', '\1', '"', ',', '1', '9', '[', '}', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[at] = byte;
      write("changed", changed);
      try {
        const Safetensors file = Safetensors::open(path("changed"));
        for (const StoredTensor& tensor : file.tensors())
          EXPECT_LE(tensor.bytes.size(), 11u) << at << ' ' << int{byte};
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(SafetensorsTest, RefusesPathsWithoutAFile) {
  EXPECT_EQ(refusal([&] { Safetensors::open(path("none")); }),
            "none: expected a file that can be read, got No such file or directory; fix: check the "
            "path");
  fs::create_directory(path("folder"));
  EXPECT_EQ(
      refusal([&] { Safetensors::open(path("folder")); }),
      "folder: expected model.safetensors or model.safetensors.index.json, got neither in the "
      "folder; fix: check the path; models of other formats have to be converted");
  EXPECT_EQ(
      refusal([&] { Safetensors::open("/dev/zero"); }),
      "/dev/zero: expected a regular file, got something else; fix: give the path of one file");
}

struct BadIndex {
  const char* name;
  const char* text;
  const char* what;
};

void PrintTo(const BadIndex& row, std::ostream* out) { *out << row.name; }

const BadIndex kBadIndexes[] = {
    {"no_map", R"({"metadata": {}})",
     "key 'weight_map': expected an object of tensor names and file names, got no such key"},
    {"empty_map", R"({"weight_map": {}})",
     "key 'weight_map': expected an object of tensor names and file names, got {}"},
    {"file_a_number", R"({"weight_map": {"a": 1}})",
     "tensor 'a': expected the name of a file in the same folder, got 1"},
    {"file_elsewhere", R"({"weight_map": {"a": "../one"}})",
     "tensor 'a': expected the name of a file in the same folder, got \"../one\""},
    {"file_of_root", R"({"weight_map": {"a": "/etc/passwd"}})",
     "tensor 'a': expected the name of a file in the same folder, got \"/etc/passwd\""},
    {"name_twice", R"({"weight_map": {"a": "one", "a": "two"}})",
     "expected every key once, got two of \"a\""},
    {"no_such_file", R"({"weight_map": {"a": "three"}})",
     "three: expected a file that can be read, got No such file or directory"},
    {"tensor_elsewhere", R"({"weight_map": {"a": "two", "b": "two"}})",
     "two: expected the tensor 'a', as model.safetensors.index.json says, got none of that name"},
    {"tensor_not_listed", R"({"weight_map": {"b": "two", "c": "one"}})",
     "one: tensor 'a': expected the tensors that model.safetensors.index.json has here, got one "
     "that "
     "it does not"},
};

class BadIndexTest : public SafetensorsTest, public ::testing::WithParamInterface<BadIndex> {};

TEST_P(BadIndexTest, IsRefused) {
  const auto values = drawn<float>(1, 1);
  const TensorToStore a = {"a", DType::f32, {1}, values.data()};
  const TensorToStore b = {"b", DType::f32, {1}, values.data()};
  write_safetensors(path("one"), {&a, 1});
  write_safetensors(path("two"), {&b, 1});
  write("model.safetensors.index.json", GetParam().text);
  const std::string what = refusal([&] { Safetensors::open(folder_.string()); });
  EXPECT_NE(what.find(GetParam().what), std::string::npos) << what;
}

INSTANTIATE_TEST_SUITE_P(Indexes, BadIndexTest, ::testing::ValuesIn(kBadIndexes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(SafetensorsTest, RefusesTensorsThatAreNotAsAsked) {
  const auto values = drawn<float>(6, 1);
  const TensorToStore tensor = {"weight", DType::f32, {2, 3}, values.data()};
  write_safetensors(path("f"), {&tensor, 1});
  const Safetensors file = Safetensors::open(path("f"));
  EXPECT_EQ(refusal([&] { file.at("weights"); }),
            "f: expected a tensor 'weights', got none of that name; fix: did you mean 'weight'?");
  const int64_t right[] = {2, 3}, turned[] = {3, 2};
  EXPECT_EQ(&file.at("weight", right), file.find("weight"));
  EXPECT_EQ(refusal([&] { file.at("weight", turned); }),
            "f: tensor 'weight': expected the shape [3, 2], got [2, 3]; fix: use the config.json "
            "that belongs to this file");
  EXPECT_EQ(refusal([&] { integers_of(file.at("weight")); }),
            "tensor 'weight': expected i64, i32 or u8, got f32; fix: read it as floats");
  EXPECT_EQ(refusal([&] {
              floats_of({"ids", DType::i32, {}, {}});
            }),
            "tensor 'ids': expected f32, bf16 or f16, got i32; fix: read it as integers");
}

struct BadTensor {
  const char* name;
  std::vector<TensorToStore> tensors;
  const char* what;
};

void PrintTo(const BadTensor& row, std::ostream* out) { *out << row.name; }

constexpr float kOne = 1;

const BadTensor kBadTensors[] = {
    {"type_f64",
     {{"a", DType::f64, {1}, &kOne}},
     "f: tensor 'a': expected f32, bf16, f16, i64, i32 or u8, got f64; fix: convert the tensor"},
    {"size_negative",
     {{"a", DType::f32, {-1}, &kOne}},
     "f: tensor 'a': expected sizes of at least 0 and fewer than 2^63 bytes, got [-1]; fix: "
     "correct "
     "the shape"},
    {"shape_overflows",
     {{"a", DType::f32, {int64_t{1} << 61}, &kOne}},
     "f: tensor 'a': expected sizes of at least 0 and fewer than 2^63 bytes, got "
     "[2305843009213693952]; fix: correct the shape"},
    {"no_data",
     {{"a", DType::f32, {1}, nullptr}},
     "f: tensor 'a': expected data, got a null pointer; fix: pass the tensor's memory"},
    {"name_of_metadata",
     {{"__metadata__", DType::f32, {1}, &kOne}},
     "f: tensor '__metadata__': expected another name, got that of the metadata; fix: rename it"},
    {"name_twice",
     {{"a", DType::f32, {1}, &kOne}, {"a", DType::u8, {1}, &kOne}},
     "f: tensor 'a': expected every name once, got two of this name; fix: rename one of them"},
    {"name_no_utf8",
     {{"\xff", DType::f32, {1}, &kOne}},
     "f: expected names and metadata in UTF-8, got other bytes; fix: rename the tensor"},
    {"too_much_in_all",
     {{"a", DType::u8, {INT64_MAX}, &kOne}, {"b", DType::u8, {1}, &kOne}},
     "f: tensor 'b': expected fewer than 2^63 bytes in all, got more; fix: write several files"},
};

class BadTensorTest : public SafetensorsTest, public ::testing::WithParamInterface<BadTensor> {};

TEST_P(BadTensorTest, IsRefused) {
  write("f", "as it was");
  EXPECT_EQ(refusal([&] { write_safetensors(path("f"), GetParam().tensors); }), GetParam().what);
  EXPECT_EQ(read("f"), "as it was");
}

INSTANTIATE_TEST_SUITE_P(Tensors, BadTensorTest, ::testing::ValuesIn(kBadTensors),
                         [](const auto& info) { return std::string(info.param.name); });

/// Files of this process may have so many bytes, as on a disk that is full after them.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFile) {
  const auto old_values = drawn<float>(100, 1);
  const auto new_values = drawn<float>(100000, 2);
  const TensorToStore old_tensor = {"x", DType::f32, {100}, old_values.data()};
  const TensorToStore new_tensor = {"x", DType::f32, {100000}, new_values.data()};
  write_safetensors(path("f"), {&old_tensor, 1});
  {
    const FileLimit limit(4096);
    EXPECT_EQ(refusal([&] {
                write_safetensors(path("f"), {&new_tensor, 1});
              }),
              "f: expected room for the file, got File too large; fix: make room and write again; "
              "the file that was there is as it was");
  }
  EXPECT_EQ(floats_of(Safetensors::open(path("f")).at("x")), old_values);
  // No part of the new one is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  write_safetensors(path("f"), {&new_tensor, 1});
  EXPECT_EQ(floats_of(Safetensors::open(path("f")).at("x")), new_values);
}

TEST_F(SafetensorsTest, ReadersOfTheOldFileKeepIt) {
  const auto old_values = drawn<float>(3, 1);
  const auto new_values = drawn<float>(3, 2);
  const TensorToStore old_tensor = {"x", DType::f32, {3}, old_values.data()};
  const TensorToStore new_tensor = {"x", DType::f32, {3}, new_values.data()};
  write_safetensors(path("f"), {&old_tensor, 1});
  const Safetensors old_file = Safetensors::open(path("f"));
  write_safetensors(path("f"), {&new_tensor, 1});
  EXPECT_EQ(floats_of(old_file.at("x")), old_values);
  EXPECT_EQ(floats_of(Safetensors::open(path("f")).at("x")), new_values);
}

TEST_F(SafetensorsTest, RefusesPlacesThatTakeNoFile) {
  const TensorToStore tensor = {"x", DType::f32, {1}, &kOne};
  EXPECT_EQ(
      refusal([&] {
        write_safetensors(path("no/f"), {&tensor, 1});
      }),
      "no/f: expected a folder that files can be made in, got No such file or directory; fix: "
      "check the path and its permissions");
  fs::create_directories(path("full/inside"));
  EXPECT_EQ(refusal([&] {
              write_safetensors(path("full"), {&tensor, 1});
            }),
            "full: expected a place that a file can take, got Is a directory; fix: check the path "
            "and its permissions");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST(SafetensorsOfTransformers, AreRead) {
  const Safetensors file =
      Safetensors::open(CODA_SOURCE_DIR "/tests/reference/llama3/reference.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const StoredTensor& ids = file.at("input_ids");
  EXPECT_EQ(ids.description(), "i64[2, 24]");
  EXPECT_EQ(file.at("logits").description(), "f32[2, 24, 128]");
  EXPECT_EQ(file.at("loss").description(), "f32[]");
  EXPECT_NEAR(floats_of(file.at("loss"))[0], 5.629042, 1e-6);
  for (const int64_t id : integers_of(ids)) EXPECT_TRUE(id >= 3 && id < 128) << id;
}

}  // namespace
}  // namespace coda::train
