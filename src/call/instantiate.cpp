// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/nearest.h"
#include "call/call.h"
#include "call/divisibility.h"
#include "call/where.h"

namespace coda {

Instance instantiate(std::shared_ptr<const ir::Program> program, const CompileOptions& options) {
  const Where where{*program, {}};
  if (options.type != DType::f32 && options.type != DType::bf16 && options.type != DType::f16)
    where.refuse(ErrorKind::dtype, "f32, bf16 or f16 as T", name_of(options.type),
                 "choose CompileOptions::type among them");
  const std::vector<std::string>& symbols = program->symbols;
  const std::vector<std::string_view> names(symbols.begin() + ir::kFirstParameter, symbols.end());
  Instance instance{program, options.type, std::vector<int64_t>(symbols.size(), 0)};
  std::vector<bool> given(names.size(), false);
  for (const SizeValue& size : options.sizes) {
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), size.name) - names.begin());
    const std::string place = "[" + program->name + "] size '" + std::string(size.name) + "'";
    if (at == names.size())
      throw Error(
          ErrorKind::argument, place, "a size parameter of the program", "an unknown name",
          names.empty() ? "the program has no size parameters" : suggestion(size.name, names));
    if (given[at])
      throw Error(ErrorKind::argument, place, "one value", "two", "give each size once");
    if (size.value < 0)
      throw Error(ErrorKind::argument, place, "a value of at least 0", std::to_string(size.value),
                  "give the size in columns or elements");
    given[at] = true;
    instance.symbols[ir::kFirstParameter + at] = size.value;
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (!given[i])
      throw Error(ErrorKind::argument,
                  "[" + program->name + "] size '" + std::string(names[i]) + "'", "a value", "none",
                  "add {\"" + std::string(names[i]) + "\", ...} to CompileOptions::sizes");
  check_parameters(instance);
  return instance;
}

}  // namespace coda
