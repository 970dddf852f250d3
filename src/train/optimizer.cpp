// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <coda/error.h>
#include <coda/program.h>

#include <cmath>

#include "base/convert.h"
#include "language/library.h"

namespace coda::train {
namespace {

Kernel library_kernel(const char* name, DType type, int threads) {
  for (const language::LibraryFile& file : language::library_files())
    if (file.name == std::string_view("optimizer.coda")) {
      CompileOptions options;
      options.type = type;
      options.threads = threads;
      return compile(Program::parse(file.text, name), {}, options);
    }
  throw Error(ErrorKind::internal, "optimizer", "optimizer.coda in the library", "none");
}

TensorView matrix(const Memory& memory, const Parameter& parameter, DType type) {
  return matrix_view(memory.data(), parameter.rows, parameter.columns, type);
}

}  // namespace

Optimizer::Optimizer(const nn::ModelConfig& config, DType type, StateType state,
                     const OptimizerOptions& options, int threads)
    : type_(type),
      state_(state),
      options_(options),
      adamw_(library_kernel(state == StateType::f32 ? "adamw" : "adamw_in_type", type, threads)),
      squares_(library_kernel("sum_squares", type, threads)),
      clip_(library_kernel("clip_scale", type, threads)) {
  // The mean of squares of gradients below 2^-12 is 0 in float16, and steps become huge.
  if (state_type() == DType::f16)
    throw Error(ErrorKind::argument, "optimizer state", "float32, or bf16 with a bf16 model",
                "f16, in which second moments vanish", "keep the states in float32");
  for (const nn::ParameterSpec& spec : nn::parameters(config)) {
    Parameter parameter{spec, spec.columns ? spec.rows : 1,
                        spec.columns ? spec.columns : spec.rows};
    const auto count = static_cast<size_t>(parameter.count());
    parameter.weight = Memory(count * size_of(type));
    if (has_masters()) parameter.master = Memory(count * sizeof(float));
    parameter.momentum = Memory(count * size_of(state_type()));
    parameter.variance = Memory(count * size_of(state_type()));
    parameter.gradient = Memory(count * sizeof(float));
    parameters_.push_back(std::move(parameter));
  }
}

void Optimizer::set(Parameter& parameter, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != parameter.count())
    throw Error(ErrorKind::shape, "'" + parameter.spec.name + "'",
                std::to_string(parameter.count()) + " values", std::to_string(values.size()));
  if (has_masters())
    std::memcpy(parameter.master.data(), values.data(), values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type_ == DType::bf16)
      reinterpret_cast<Bf16*>(parameter.weight.data())[i] = to_bf16(values[i]);
    else if (type_ == DType::f16)
      reinterpret_cast<F16*>(parameter.weight.data())[i] = to_f16(values[i]);
    else
      reinterpret_cast<float*>(parameter.weight.data())[i] = values[i];
  }
}

double Optimizer::step(int64_t step, double rate) {
  const auto launch = [this](const Kernel& kernel, const Arguments& arguments) {
    const size_t bytes = kernel.workspace_bytes(arguments);
    if (bytes > workspace_.size()) workspace_ = Memory(bytes);
    kernel.launch(nullptr, arguments, workspace_.data(), workspace_.size());
  };
  double squares = 0;
  for (const Parameter& parameter : parameters_) {
    float total = 0;
    launch(squares_, Arguments()
                         .tensor("g", matrix(parameter.gradient, parameter, DType::f32))
                         .tensor("total", scalar_view(&total, DType::f32)));
    squares += static_cast<double>(total);
  }
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) return norm;
  const auto total = static_cast<float>(squares);
  float scale = 1;
  if (options_.clip > 0)
    launch(clip_, Arguments()
                      .tensor("total", scalar_view(&total, DType::f32))
                      .tensor("scale", scalar_view(&scale, DType::f32))
                      .scalar("limit", options_.clip)
                      .sizes(1, 1));
  const auto fix = [step](double beta) {
    return 1 - std::pow(beta, static_cast<double>(step) + 1);
  };
  for (Parameter& parameter : parameters_) {
    const DType state = state_type();
    const Memory& weights = has_masters() ? parameter.master : parameter.weight;
    Arguments arguments;
    arguments.tensor("g", matrix(parameter.gradient, parameter, DType::f32))
        .tensor("p", matrix(weights, parameter, state))
        .tensor("p_new", matrix(weights, parameter, state))
        .tensor("mom", matrix(parameter.momentum, parameter, state))
        .tensor("mom_new", matrix(parameter.momentum, parameter, state))
        .tensor("var", matrix(parameter.variance, parameter, state))
        .tensor("var_new", matrix(parameter.variance, parameter, state))
        .tensor("scale", scalar_view(&scale, DType::f32))
        .scalar("lr", rate)
        .scalar("beta1", options_.beta1)
        .scalar("beta2", options_.beta2)
        .scalar("eps", options_.eps)
        .scalar("decay", parameter.spec.columns ? options_.weight_decay : 0)
        .scalar("fix1", fix(options_.beta1))
        .scalar("fix2", fix(options_.beta2));
    if (has_masters()) arguments.tensor("w", matrix(parameter.weight, parameter, type_));
    launch(adamw_, arguments);
  }
  return norm;
}

std::string not_finite(const Optimizer& optimizer) {
  const size_t width = size_of(optimizer.type());
  for (const Parameter& parameter : optimizer.parameters())
    for (size_t i = 0; i < static_cast<size_t>(parameter.count()); ++i)
      if (!std::isfinite(load_element(parameter.weight.data() + i * width, optimizer.type())))
        return parameter.spec.name;
  return {};
}

}  // namespace coda::train
