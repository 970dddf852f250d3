// SPDX-License-Identifier: Apache-2.0
#include "check/programs.h"

#include <coda/error.h>

#include "autodiff/differentiate.h"
#include "language/library.h"
#include "language/parser.h"

namespace coda::check {

std::vector<NamedProgram> with_derivatives(const ir::Program& program) {
  std::vector<NamedProgram> result{{program.name, program}};
  ir::Program backward;
  try {
    backward = autodiff::differentiate(program, {}).backward;
  } catch (const Error&) {  // nothing to differentiate by
    return result;
  }
  result.push_back({program.name + ".bwd", backward});
  for (const ir::Input& input : backward.inputs)
    if (input.name.starts_with("d_") && input.kind == ir::Input::Kind::tensor) try {
        result.push_back({program.name + ".bwd(" + input.name + ")",
                          autodiff::into_accumulator(backward, input.name)});
      } catch (const Error&) {  // no full-width tile
      }
  return result;
}

std::vector<NamedProgram> all_programs() {
  std::vector<NamedProgram> result;
  for (const auto& file : language::library_files())
    for (const ir::Program& program : language::parse_file(file.text, file.name))
      for (NamedProgram& named : with_derivatives(program)) result.push_back(std::move(named));
  return result;
}

Instance instance_of(const ir::Program& program, DType type) {
  Instance instance{std::make_shared<const ir::Program>(program), type, {0, 0}};
  for (size_t i = ir::kFirstParameter; i < program.symbols.size(); ++i) {
    const std::string& name = program.symbols[i];
    instance.symbols.push_back(name == "dh" ? 64 : name == "part" ? 32 : name[0] == 'n' ? 2 : 128);
  }
  return instance;
}

}  // namespace coda::check
