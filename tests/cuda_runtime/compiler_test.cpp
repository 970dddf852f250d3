// SPDX-License-Identifier: Apache-2.0
// Compiling needs NVRTC but no GPU. Kernels that ptxas builds badly must be refused.
#include "cuda/runtime/compiler.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "cuda/runtime/library.h"
#include "cuda/runtime/process.h"
#include "cuda/runtime/worker.h"
#include "support.h"

namespace coda::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kSaxpy =
    R"(extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
})";

/// An array with an index that is not known while compiling lives in memory.
constexpr const char* kStackFrame =
    R"(extern "C" __global__ void stack_frame(const int* at, float* y) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = y[i];
  values[at[0] & 63] += 1;
  for (int i = 0; i < 64; ++i) y[i] = values[at[i] & 63];
})";

/// 1024 threads leave 64 registers each; twice that many values are live.
constexpr const char* kSpills =
    R"(extern "C" __global__ void __launch_bounds__(1024) spills(const float* x, float* y) {
  float v[128];
  #pragma unroll
  for (int i = 0; i < 128; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 128; ++i) y[i * 1024 + threadIdx.x] = v[i] * v[127 - i];
})";

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Error error_of(const CompileResult& result) { return std::get<Error>(result); }

/// A source that takes a moment: `count` unrolled steps.
Source slow_source(int number) {
  const std::string name = "slow_" + std::to_string(number);
  return {name, "extern \"C\" __global__ void " + name + R"((float* x) {
  float v = x[threadIdx.x];
  #pragma unroll
  for (int i = 0; i < 200; ++i) v = __sinf(v) * x[i] + )" +
                    std::to_string(number) + ";\n  x[threadIdx.x] = v;\n}"};
}

class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open_nvrtc(CudaSearch::from_environment());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  TestFolder folder_;
  Cache cache_{{folder_ / "cache", 1 << 30, ""}};
  CompilerOptions options_ = {.cache = &cache_};
  Environment dump_{"CODA_DUMP", std::nullopt}, dump_folder_{"CODA_DUMP_DIR", std::nullopt},
      helper_{"CODA_NVRTC_HELPER", std::nullopt};
  Warnings warnings_;
};

TEST_F(CompilerTest, compiles_a_kernel_and_takes_it_from_the_cache_the_next_time) {
  const Source source = {"saxpy", kSaxpy};
  Cubin first, second;
  const double cold = seconds_of([&] { first = compile_source(source, options_); });
  const double warm = seconds_of([&] { second = compile_source(source, options_); });
  std::printf("saxpy, opening NVRTC included: %.0f ms; from the cache: %.2f ms\n", 1e3 * cold,
              1e3 * warm);
  EXPECT_TRUE(
      first.image.starts_with("\x7f"
                              "ELF"));
  ASSERT_THAT(first.kernels, SizeIs(1));
  EXPECT_EQ(first.kernels[0].name, "saxpy");
  EXPECT_GT(first.kernels[0].registers, 3);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.image, first.image);
  EXPECT_EQ(second.kernels, first.kernels);
  EXPECT_THAT(files_of(cache_.folder()), SizeIs(1));
  EXPECT_EQ(warnings_.text(), "");
}

TEST_F(CompilerTest, builds_again_what_is_damaged_in_the_cache) {
  const Source source = {"saxpy", kSaxpy};
  const Cubin first = compile_source(source, options_);
  const std::string path = cache_.folder() + "/" + files_of(cache_.folder()).at(0);
  const std::string good = contents(path);
  std::string flipped = good;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& bad : {good.substr(0, good.size() / 2), std::string(), flipped}) {
    overwrite(path, bad);
    warnings_.clear();
    const Cubin again = compile_source(source, options_);
    EXPECT_FALSE(again.from_cache);
    EXPECT_EQ(again.image, first.image);
    EXPECT_EQ(warnings_.count(), 1u) << warnings_.text();
    EXPECT_TRUE(compile_source(source, options_).from_cache);
  }
}

TEST_F(CompilerTest, refuses_a_stack_frame_and_keeps_the_source) {
  const Source source = {"stack_frame", kStackFrame};
  for (const bool again : {false, true}) {
    const CompileResult result = compile_sources({&source, 1}, options_).front();
    ASSERT_TRUE(std::holds_alternative<Error>(result)) << again;
    const Error error = error_of(result);
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.where(), "[stack_frame] compile");
    EXPECT_THAT(error.got(),
                AllOf(HasSubstr("stack_frame: a stack frame of"), HasSubstr("ptxas info")));
    const std::string fix = error.fix(), path = fix.substr(fix.find("source: ") + 8);
    EXPECT_THAT(contents(path), AllOf(HasSubstr(kStackFrame), HasSubstr("bytes stack frame")));
    // The refusal itself comes from the cache the second time: one entry, one source.
    EXPECT_THAT(files_of(cache_.folder()), SizeIs(2));
  }
}

TEST_F(CompilerTest, refuses_spills) {
  const Source source = {"spills", kSpills};
  try {
    compile_source(source, options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.got(), HasSubstr("spills: "));
    EXPECT_THAT(error.got(), HasSubstr("bytes of spill stores"));
  }
}

TEST_F(CompilerTest, refuses_wgmma_that_ptxas_serialises) {
  // The accumulators are changed by ordinary code while the product that writes them is in flight.
  const Source source = {
      "serial",
      R"(extern "C" __global__ void __launch_bounds__(128) serial(float* y, unsigned long long d) {
  float c[4] = {y[0], y[1], y[2], y[3]};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < 4; ++k) {
    asm volatile("{ wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(d), "l"(d + k));
    c[0] += 1;
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) y[i * 128 + threadIdx.x] = c[i];
})"};
  const CompileResult result = compile_sources({&source, 1}, options_).front();
  ASSERT_TRUE(std::holds_alternative<Error>(result));
  EXPECT_EQ(error_of(result).kind(), ErrorKind::unsupported);
  EXPECT_THAT(error_of(result).got(), HasSubstr("(C75"));
}

TEST_F(CompilerTest, reports_a_text_that_does_not_compile_as_its_own_fault) {
  const Source source = {"broken", "extern \"C\" __global__ void broken() { undeclared = 1; }"};
  for (const bool again : {false, true}) {
    const CompileResult result = compile_sources({&source, 1}, options_).front();
    ASSERT_TRUE(std::holds_alternative<Error>(result)) << again;
    EXPECT_EQ(error_of(result).kind(), ErrorKind::internal);
    EXPECT_THAT(error_of(result).got(), AllOf(HasSubstr("broken.cu(1)"), HasSubstr("undeclared")));
    EXPECT_THAT(error_of(result).fix(), HasSubstr(".cu"));
  }
}

TEST_F(CompilerTest, refuses_a_text_without_a_kernel) {
  const Source source = {"nothing", "__device__ int unused;"};
  const CompileResult result = compile_sources({&source, 1}, options_).front();
  ASSERT_TRUE(std::holds_alternative<Error>(result));
  EXPECT_THAT(error_of(result).got(), HasSubstr("no kernel"));
}

TEST_F(CompilerTest, compiles_several_in_worker_processes_as_in_this_one) {
  const std::vector<Source> sources = {slow_source(0), {"stack_frame", kStackFrame},
                                       slow_source(1), {"broken", "nonsense"},
                                       slow_source(2), slow_source(3)};
  Cache none({"", 0, ""});
  options_.cache = &none;
  const auto compile = [&](std::vector<CompileResult>& results) {
    return seconds_of([&] { results = compile_sources(sources, options_); });
  };
  std::vector<CompileResult> one, two, here;
  options_.workers = 1;
  const double one_worker = compile(one);
  options_.workers = 2;
  const double two_workers = compile(two);
  double in_process = 0;
  {
    const Environment missing("CODA_NVRTC_HELPER", "/nonexistent");
    EXPECT_EQ(find_helper(), "");
    in_process = compile(here);
  }
  std::printf("6 sources: 1 worker %.2f s, 2 workers %.2f s, in this process %.2f s\n", one_worker,
              two_workers, in_process);
  for (const auto* results : {&one, &two, &here}) {
    ASSERT_THAT(*results, SizeIs(6));
    for (size_t i = 0; i < 6; ++i) {
      const CompileResult& result = (*results)[i];
      ASSERT_EQ(std::holds_alternative<Error>(result), i == 1 || i == 3) << i;
      if (const auto* cubin = std::get_if<Cubin>(&result)) {
        EXPECT_EQ(cubin->image, std::get<Cubin>(here[i]).image) << i;
      } else {
        EXPECT_EQ(error_of(result).kind(), i == 1 ? ErrorKind::unsupported : ErrorKind::internal);
      }
    }
  }
}

TEST_F(CompilerTest, keeps_what_workers_compiled_in_the_cache) {
  const std::vector<Source> sources = {slow_source(1), slow_source(2)};
  for (const bool cached : {false, true})
    for (const CompileResult& result : compile_sources(sources, options_))
      EXPECT_EQ(std::get<Cubin>(result).from_cache, cached);
}

TEST_F(CompilerTest, does_the_work_itself_where_a_helper_cannot) {
  const Environment useless("CODA_NVRTC_HELPER", "/bin/true");
  for (const CompileResult& result :
       compile_sources(std::vector<Source>{slow_source(1), slow_source(2)}, options_))
    EXPECT_TRUE(std::holds_alternative<Cubin>(result));
}

TEST_F(CompilerTest, reports_a_helper_that_was_killed_and_lives_on) {
  const std::string helper = folder_ / "helper";
  overwrite(helper, "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
  const Environment dying("CODA_NVRTC_HELPER", helper);
  for (const CompileResult& result :
       compile_sources(std::vector<Source>{slow_source(1), slow_source(2)}, options_))
    EXPECT_THAT(error_of(result).got(), HasSubstr("signal 9"));
}

// What each process of the next test runs.
TEST_F(CompilerTest, DISABLED_compiles_saxpy_with_the_cache_of_the_environment) {
  options_.cache = nullptr;
  EXPECT_FALSE(compile_source({"saxpy", kSaxpy}, options_).image.empty());
  EXPECT_EQ(warnings_.text(), "");
}

TEST_F(CompilerTest, sixteen_processes_with_an_empty_cache_leave_one_file) {
  const Environment folder("CODA_CACHE_DIR", folder_ / "shared");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<int> codes(16, -1);
  std::vector<std::thread> threads(codes.size());
  for (size_t i = 0; i < codes.size(); ++i)
    threads[i] = std::thread([&, i] {
      codes[i] = run_process({self, "--gtest_also_run_disabled_tests",
                              "--gtest_filter=*DISABLED_compiles_saxpy*"})
                     .exit_code;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(codes, ::testing::Each(0));
  EXPECT_THAT(files_of(folder_ / "shared"), SizeIs(1));
}

TEST_F(CompilerTest, dumps_what_the_environment_asks_for) {
  const Environment what("CODA_DUMP", "cuda,ptx,sass,soup"),
      where("CODA_DUMP_DIR", folder_ / "dump");
  const Cubin cubin = compile_source({"saxpy", kSaxpy}, options_);
  EXPECT_EQ(contents(folder_ / "dump/saxpy.cu"), kSaxpy);
  EXPECT_THAT(contents(folder_ / "dump/saxpy.ptx"),
              AllOf(HasSubstr(".target sm_90a"), HasSubstr(".entry saxpy")));
  EXPECT_EQ(contents(folder_ / "dump/saxpy.cubin"), cubin.image);
  EXPECT_THAT(warnings_.text(), HasSubstr("got soup"));
  if (warnings_.text().find("cuobjdump") == std::string::npos) {
    EXPECT_THAT(contents(folder_ / "dump/saxpy.sass"), HasSubstr("FFMA"));
  }
}

TEST_F(CompilerTest, writes_no_dump_unasked) {
  const Environment where("CODA_DUMP_DIR", folder_ / "dump");
  compile_source({"saxpy", kSaxpy}, options_);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "dump"));
}

TEST(Helper, is_found_in_the_libexec_folder_above_this_program) {
  const Environment unset("CODA_NVRTC_HELPER", std::nullopt);
  EXPECT_EQ(find_helper(), std::filesystem::canonical(CODA_TEST_HELPER));
}

TEST(CacheKey, changes_with_everything_that_the_outcome_depends_on) {
  const Source source = {"saxpy", kSaxpy};
  const CompilerOptions options;
  const Digest key = cache_key(source, options, "nvrtc 13000 5");
  EXPECT_EQ(cache_key(source, options, "nvrtc 13000 5"), key);
  EXPECT_NE(cache_key(source, options, "nvrtc 12090 5"), key) << "compiler version";
  EXPECT_NE(cache_key(source, options, "nvrtc 13000 6"), key) << "compiler build";
  EXPECT_NE(cache_key({"saxpy", source.text + " "}, options, "nvrtc 13000 5"), key) << "text";
  EXPECT_NE(cache_key({"saxpz", source.text}, options, "nvrtc 13000 5"), key) << "name";
  CompilerOptions other = options;
  other.architecture = "sm_100a";
  EXPECT_NE(cache_key(source, other, "nvrtc 13000 5"), key) << "architecture";
  other = options;
  other.line_info = true;
  EXPECT_NE(cache_key(source, other, "nvrtc 13000 5"), key) << "line info";
  for (const char* variable : {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"}) {
    const Environment flags(variable, "--fmad=false");
    EXPECT_NE(cache_key(source, options, "nvrtc 13000 5"), key) << variable;
  }
  other = options;
  other.workers = 7;
  EXPECT_EQ(cache_key(source, other, "nvrtc 13000 5"), key) << "workers change nothing";
}

TEST(CompilerFlags, keep_the_numeric_contract) {
  for (const std::string& flag : compiler_flags({})) {
    EXPECT_THAT(flag, Not(HasSubstr("fast")));
    EXPECT_THAT(flag, Not(HasSubstr("ftz")));
  }
}

}  // namespace
}  // namespace coda::cuda
