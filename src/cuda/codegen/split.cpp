// SPDX-License-Identifier: Apache-2.0
#include "cuda/codegen/split.h"

#include <fmt/format.h>

#include "cuda/scalar/op_text.h"

namespace coda::cuda {

Fused generate_split(const Instance& instance, const device::Config& config,
                     const std::string& name) {
  const ir::Program& program = *instance.program;
  const SplitForm form = *split_form(instance);
  Fused result = generate_fused(split_product(instance), config, name);
  const DType out = storage(program.outputs[0].type, instance);
  const DType old = form.addend >= 0 ? storage(program.inputs[form.addend].type, instance) : out;
  result.finish.text = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(256)\n"
      "    {}_sum(const __grid_constant__ SplitSum s) {{\n  split_sum<{}, {}, {}>(s);\n}}\n",
      name, storage_text(out), storage_text(old), form.addend >= 0);
  return result;
}

}  // namespace coda::cuda
