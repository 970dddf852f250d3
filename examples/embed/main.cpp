// SPDX-License-Identifier: Apache-2.0
// A complete program that uses coda: it writes an epilogue program as text, compiles it for the
// CPU, runs it on random data and checks every result against a plain loop.
//
// y = relu(x W^T + bias) and the sum of every row of it, from one pass over the matrix product.
#include <coda/coda.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <new>
#include <random>
#include <vector>

namespace {

constexpr const char* kText = R"(coda 1
program linear_relu(a: acc, bias: f32[n]) -> y: f32[m, n], total: f32[m] {
  y = max(a + bias, 0)
  total = sum[m](y)
}
)";

std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(engine); });
  return values;
}

int run() {
  const int64_t m = 37, n = 65, k = 129;
  const std::vector<float> x = random_values(m * k, 1), w = random_values(n * k, 2);
  const std::vector<float> bias = random_values(n, 3);
  std::vector<float> y(m * n, NAN), total(m, NAN);

  const coda::Program program = coda::Program::parse(kText);
  coda::CompileOptions options;
  options.type = coda::DType::f32;
  const coda::Kernel kernel = coda::compile(program, coda::Device{}, options);

  coda::Arguments arguments;
  arguments.product("a", coda::matrix_view(x.data(), m, k, coda::DType::f32),
                    coda::matrix_view(w.data(), n, k, coda::DType::f32));
  arguments.tensor("bias", coda::vector_view(bias.data(), n, coda::DType::f32));
  arguments.tensor("y", coda::matrix_view(y.data(), m, n, coda::DType::f32));
  arguments.tensor("total", coda::vector_view(total.data(), m, coda::DType::f32));
  const size_t bytes = kernel.workspace_bytes(arguments);
  const std::align_val_t alignment{coda::kWorkspaceAlignment};
  void* workspace = ::operator new(bytes, alignment);
  kernel.launch(nullptr, arguments, workspace, bytes);
  ::operator delete(workspace, alignment);

  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    double row = 0;
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias[j];
      for (int64_t l = 0; l < k; ++l) sum += static_cast<double>(x[i * k + l]) * w[j * k + l];
      sum = std::max(sum, 0.0);
      row += sum;
      worst = std::fmax(worst, std::fabs(y[i * n + j] - sum));
      if (std::isnan(y[i * n + j])) worst = INFINITY;
    }
    if (!(std::fabs(total[i] - row) < 1e-3)) worst = INFINITY;
  }
  std::printf("coda %s: %lld x %lld results, largest difference from float64 %.2g\n",
              coda::version(), static_cast<long long>(m), static_cast<long long>(n), worst);
  return worst < 1e-4 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const coda::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
