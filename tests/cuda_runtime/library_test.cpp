// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/library.h"

#include <coda/error.h>
#include <gmock/gmock.h>

#include "support.h"

namespace coda::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Looks in the folders of stand-ins and nowhere else.
CudaSearch only(const std::string& folder) { return {false, {folder}, false}; }
CudaSearch fake(const std::string& name) { return only(CODA_FAKE_LIBRARIES "/" + name); }

template <class Open>
std::optional<Error> error_of(Open open) try {
  open();
  return std::nullopt;
} catch (const Error& error) {
  return error;
}

TEST(Library, says_for_each_one_what_was_looked_for_and_where_and_how_to_get_it) {
  const TestFolder empty;
  const CudaSearch search = only(empty.path());
  const auto expect = [&](const std::optional<Error>& error, ErrorKind kind, const char* file,
                          const char* fix) {
    ASSERT_TRUE(error.has_value()) << file;
    EXPECT_EQ(error->kind(), kind) << file;
    EXPECT_THAT(error->expected(), HasSubstr(file));
    EXPECT_THAT(error->got(), HasSubstr(empty.path()));
    EXPECT_THAT(error->fix(), HasSubstr(fix));
  };
  expect(error_of([&] { open_driver(search); }), ErrorKind::device, "libcuda.so.1", "driver");
  expect(error_of([&] { open_nvrtc(search); }), ErrorKind::unsupported,
         "libnvrtc.so.13 or libnvrtc.so.12", "pip install");
  expect(error_of([&] { open_cublas_lt(search); }), ErrorKind::unsupported, "libcublasLt.so.13",
         "pip install");
  expect(error_of([&] { open_cudnn(search); }), ErrorKind::unsupported, "libcudnn.so.9",
         "pip install");
}

TEST(Library, refuses_a_driver_older_than_cuda_12_4) {
  const auto error = error_of([] { open_driver(fake("old")); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_STREQ(error->expected(), "CUDA 12.4 or later");
  EXPECT_THAT(error->got(), AllOf(HasSubstr("CUDA 12.2"), HasSubstr("libcuda.so.1")));
}

TEST(Library, names_the_function_that_a_driver_lacks) {
  const auto error = error_of([] { open_driver(fake("twelve")); });
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->expected(), HasSubstr("cuTensorMapEncodeTiled"));
}

TEST(Library, takes_no_compiler_that_is_newer_than_the_driver) {
  EXPECT_EQ(open_nvrtc(fake("twelve")).version, 12050);
  EXPECT_EQ(open_nvrtc(fake("thirteen")).version, 13050);
}

TEST(Library, refuses_text_files_and_libraries_of_other_kinds) {
  const TestFolder folder;
  overwrite(folder / "libnvrtc.so.13", "not a library");
  EXPECT_TRUE(error_of([&] { open_nvrtc(only(folder.path())); }).has_value());
  std::filesystem::copy_file(CODA_FAKE_LIBRARIES "/old/libcuda.so.1", folder / "libnvrtc.so.12");
  const auto error = error_of([&] { open_nvrtc(only(folder.path())); });
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->expected(), HasSubstr("nvrtc"));
}

TEST(Library, looks_first_in_the_folders_of_the_environment) {
  const TestFolder empty;
  const Environment path("CODA_CUDA_PATH", empty.path() + ":" CODA_FAKE_LIBRARIES "/twelve");
  CudaSearch search = CudaSearch::from_environment();
  EXPECT_EQ(search.folders.at(0), empty.path());
  EXPECT_EQ(search.folders.at(1), CODA_FAKE_LIBRARIES "/twelve");
  search.process = false;
  EXPECT_THAT(open_nvrtc(search).library.path, HasSubstr("fake/twelve"));
}

TEST(Library, an_empty_folder_in_the_environment_hides_nothing) {
  const TestFolder empty;
  const auto open_it = [] { return error_of([] { open_nvrtc(CudaSearch::from_environment()); }); };
  const bool there = !open_it().has_value();
  const Environment path("CODA_CUDA_PATH", empty.path());
  EXPECT_EQ(!open_it().has_value(), there);
  if (!there) GTEST_SKIP() << "no NVRTC on this machine";
}

TEST(Library, finds_wheels_of_the_python_on_path) {
  const TestFolder folder;
  const std::string lib = folder / "lib/python3.12/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  std::filesystem::create_directories(folder / "bin");
  overwrite(folder / "bin/python3", "");
  std::filesystem::copy_file(CODA_FAKE_LIBRARIES "/thirteen/libnvrtc.so.13",
                             lib + "/libnvrtc.so.13");
  const Environment path("PATH", folder / "bin"), cuda("CODA_CUDA_PATH", std::nullopt),
      home("CUDA_HOME", std::nullopt), toolkit("CUDA_PATH", std::nullopt),
      venv("VIRTUAL_ENV", std::nullopt), conda("CONDA_PREFIX", std::nullopt);
  CudaSearch search = CudaSearch::from_environment();
  search.process = false;
  EXPECT_EQ(open_nvrtc(search).library.path, lib + "/libnvrtc.so.13");
}

TEST(Library, the_real_ones_tell_their_versions_where_they_are_found) {
  const auto print = [](const char* what, auto open) {
    try {
      const auto table = open(CudaSearch::from_environment());
      EXPECT_GT(table.version, 9000) << what;
      EXPECT_NE(table.library.path, "") << what;
      std::printf("%s %d, %s\n", what, table.version, table.library.path.c_str());
    } catch (const Error& error) {
      EXPECT_STRNE(error.fix(), "") << what;
      std::printf("%s\n", error.what());
    }
  };
  print("driver", open_driver);
  print("NVRTC", open_nvrtc);
  print("cuBLASLt", open_cublas_lt);
  print("cuDNN", open_cudnn);
}

}  // namespace
}  // namespace coda::cuda
