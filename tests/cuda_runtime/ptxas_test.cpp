// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/ptxas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coda::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwoKernels = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 6.838 ms
ptxas info    : Compiling entry function 'stack' for 'sm_90a'
ptxas info    : Function properties for stack
    256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers, 256 bytes cumulative stack size
)";

TEST(Ptxas, reads_the_resources_of_each_kernel) {
  EXPECT_THAT(parse_ptxas_log(kTwoKernels),
              ElementsAre(KernelResources{"two", 10, 1, 512, 0, 0, 0},
                          KernelResources{"stack", 48, 0, 0, 256, 0, 0}));
}

TEST(Ptxas, reads_nothing_from_a_log_without_kernels) {
  EXPECT_TRUE(parse_ptxas_log("").empty());
  EXPECT_TRUE(parse_ptxas_log("k.cu(1): warning #177-D: 12 registers were declared").empty());
}

TEST(Ptxas, finds_a_stack_frame) {
  EXPECT_EQ(find_faults(kTwoKernels, parse_ptxas_log(kTwoKernels)),
            "stack: a stack frame of 256 bytes");
}

TEST(Ptxas, finds_a_stack_frame_of_a_function_that_a_kernel_calls) {
  const std::string log = R"(ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
ptxas info    : Function properties for helper
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
)";
  EXPECT_EQ(find_faults(log, parse_ptxas_log(log)), "k: a stack frame of 32 bytes");
}

TEST(Ptxas, finds_spills_of_either_kind) {
  for (const char* spills :
       {"4 bytes spill stores, 0 bytes spill loads", "0 bytes spill stores, 8 bytes spill loads"}) {
    const std::string log =
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n    0 bytes "
        "stack frame, " +
        std::string(spills) + "\nptxas info    : Used 255 registers\n";
    EXPECT_THAT(find_faults(log, parse_ptxas_log(log)), HasSubstr("k: ")) << spills;
    EXPECT_THAT(find_faults(log, parse_ptxas_log(log)), HasSubstr("spill")) << spills;
  }
}

TEST(Ptxas, finds_each_note_on_wgmma_and_setmaxnreg_and_no_other) {
  const std::string before = "ptxas info    : (";
  const std::string after =
      ") Potential Performance Loss: wgmma.mma_async instructions are serialized in the function "
      "'k'\n";
  for (const char* note : {"C7504", "C7508", "C7510", "C7511", "C7515", "C7519", "C7520"}) {
    std::string log = before;
    log += note;
    log += after;
    EXPECT_EQ(find_faults(log, {}) + "\n", log);
  }
  EXPECT_EQ(find_faults(before + "C7600" + after, {}), "");
}

}  // namespace
}  // namespace coda::cuda
