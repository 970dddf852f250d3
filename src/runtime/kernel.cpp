// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include "call/backend.h"
#include "runtime/cpu.h"

namespace coda {

struct Kernel::State {
  Program program;
  Instance instance;
  Device device;
  std::shared_ptr<const Executable> executable;

  [[noreturn]] void refuse(std::string_view expected, std::string_view got,
                           std::string_view fix) const {
    throw Error(ErrorKind::argument, "[" + instance.program->name + "] launch", expected, got, fix);
  }
};

Kernel::Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const Program& Kernel::program() const noexcept { return state_->program; }

size_t Kernel::workspace_bytes(const Arguments& arguments) const {
  const BoundCall call = bind(state_->instance, arguments, state_->device, Memory::may_be_null);
  return state_->executable->workspace_bytes(call);
}

void Kernel::launch(void* stream, const Arguments& arguments, void* workspace,
                    size_t workspace_size) const {
  const BoundCall call = bind(state_->instance, arguments, state_->device);
  if (stream != nullptr && state_->device.kind == Device::Kind::cpu)
    state_->refuse("no stream on the CPU", "a stream", "pass nullptr");
  const size_t needed = state_->executable->workspace_bytes(call);
  const std::string bytes = std::to_string(needed) + " bytes of workspace";
  const char* ask = "allocate what workspace_bytes() says for these arguments";
  if (needed > 0) {
    if (workspace == nullptr) state_->refuse(bytes, "a null pointer", ask);
    if (workspace_size < needed)
      state_->refuse(bytes, std::to_string(workspace_size) + " bytes", ask);
    if (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0)
      state_->refuse("a workspace aligned to " + std::to_string(kWorkspaceAlignment) + " bytes",
                     std::to_string(reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment) +
                         " bytes beyond such an address",
                     "allocate it aligned");
  }
  state_->executable->launch(stream, call, workspace);
}

Kernel compile(const Program& program, Device device, const CompileOptions& options) {
  // The program's text and IR are shared with the caller's object, never copied.
  const std::shared_ptr<const ir::Program> ir(std::make_shared<Program>(program), &program.ir());
  Instance instance = instantiate(ir, options);
  if (options.threads < 0)
    throw Error(ErrorKind::argument, "[" + ir->name + "] compile",
                "0 threads (one per core) or more", std::to_string(options.threads),
                "set CompileOptions::threads to a count");
  auto executable = device.kind == Device::Kind::cpu ? compile_for_cpu(instance, options)
                                                     : compile_for_cuda(instance, device, options);
  Kernel::State state{program, std::move(instance), device, std::move(executable)};
  return Kernel(std::make_shared<const Kernel::State>(std::move(state)));
}

}  // namespace coda
