// SPDX-License-Identifier: Apache-2.0
// Stands in for the commands of the CUDA backend in builds without it.
#include "cuda.h"

namespace coda::tool {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorKind::unsupported, "--device cuda", "a device of this build: cpu", "cuda",
              "use --device cpu, or a build with CODA_CUDA=ON");
}

}  // namespace

std::vector<check::Report> check_on_cuda(const CudaCheck&) { refuse(); }

int check_suite_on_cuda(const Shell&, const CudaSuite&) { refuse(); }

int bench_on_cuda(const Shell&, const std::vector<Instance>&, const CudaBench&) { refuse(); }

int tune_on_cuda(const Shell&, const std::vector<Instance>&, const CudaTune&) { refuse(); }

CudaText cuda_text(const Instance&, int64_t, int64_t, int64_t, const std::string&,
                   const std::string&) {
  refuse();
}

std::vector<CompiledKernel> compile_for_cache(const std::vector<check::NamedProgram>&,
                                              const std::vector<Instance>&, const std::string&, int,
                                              const std::function<void(size_t, size_t)>&) {
  refuse();
}

}  // namespace coda::tool
