// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/sha256.h"

#include <gtest/gtest.h>

namespace coda::cuda {
namespace {

TEST(Sha256, gives_the_digests_of_the_standard) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, agrees_with_another_implementation_at_every_length) {
  // The digest of the digests of texts of 0 to 299 bytes, byte i of text n being (7 i + n) mod 256,
  // as Python's hashlib gives it.
  Sha256 chain;
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += static_cast<char>((7 * i + n) % 256);
    const Digest digest = sha256(text);
    chain.add({reinterpret_cast<const char*>(digest.data()), digest.size()});
  }
  EXPECT_EQ(hex(chain.finish()),
            "d5238871a46ac4a1a75ac3fb19d645b0b3b9e5f35f5f720e2b240d605c6b694e");
}

TEST(Sha256, does_not_depend_on_how_the_text_is_cut) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(31 * i + 5);
  for (size_t first = 0; first <= text.size(); ++first)
    for (const size_t second : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}}) {
      Sha256 hash;
      hash.add(text.substr(0, first));
      hash.add(text.substr(first, second));
      hash.add(text.substr(std::min(text.size(), first + second)));
      ASSERT_EQ(hash.finish(), sha256(text)) << first << " " << second;
    }
}

TEST(Sha256, keeps_neighbouring_fields_apart) {
  const auto digest = [](std::string_view a, std::string_view b) {
    Sha256 hash;
    hash.add_field(a);
    hash.add_field(b);
    return hash.finish();
  };
  EXPECT_NE(digest("ab", "c"), digest("a", "bc"));
  EXPECT_NE(digest("", "abc"), digest("abc", ""));
}

}  // namespace
}  // namespace coda::cuda
