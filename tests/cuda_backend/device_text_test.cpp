// SPDX-License-Identifier: Apache-2.0
// Device text from a folder in place of the embedded one.
#include "cuda/backend/device_text.h"

#include <coda/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/folder.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FolderOfText : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(CODA_SOURCE_DIR "/src/cuda", folder_.path(), fs::copy_options::recursive);
    setenv("CODA_DEVICE_TEXT", folder_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("CODA_DEVICE_TEXT"); }

  static std::string embedded() {
    unsetenv("CODA_DEVICE_TEXT");
    return assemble_source(DeviceText::both, "");
  }
  static std::string failure() {
    try {
      assemble_source(DeviceText::both, "");
    } catch (const Error& error) {
      return error.kind() == ErrorKind::io ? error.what() : "another kind";
    }
    return "none";
  }
  test::Folder folder_;
};

TEST_F(FolderOfText, a_copy_gives_the_same_text_and_a_change_another) {
  const std::string copy = assemble_source(DeviceText::both, "");
  std::ofstream(folder_.path() + "/device/mainloop.cuh", std::ios::app) << "// changed here\n";
  const std::string changed = assemble_source(DeviceText::both, "");
  EXPECT_EQ(copy, embedded());
  EXPECT_THAT(changed, HasSubstr("// changed here\n"));
  EXPECT_THAT(embedded(), Not(HasSubstr("// changed here\n")));
}

TEST_F(FolderOfText, the_embedded_text_stands_in_for_nothing) {
  setenv("CODA_DEVICE_TEXT", "", 1);
  const std::string text = assemble_source(DeviceText::standalone, "");
  unsetenv("CODA_DEVICE_TEXT");
  EXPECT_EQ(text, assemble_source(DeviceText::standalone, ""));
}

TEST_F(FolderOfText, what_cannot_be_read_is_named) {
  fs::remove(folder_.path() + "/device/wgmma.cuh");
  EXPECT_THAT(failure(), HasSubstr(folder_.path() + "/device/wgmma.cuh"));
  fs::create_directory(folder_.path() + "/device/wgmma.cuh");
  EXPECT_THAT(failure(), HasSubstr(folder_.path() + "/device/wgmma.cuh"));
  setenv("CODA_DEVICE_TEXT", "/nowhere/at/all", 1);
  EXPECT_THAT(failure(), HasSubstr("CODA_DEVICE_TEXT"));
  EXPECT_THAT(failure(), HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace coda::cuda
