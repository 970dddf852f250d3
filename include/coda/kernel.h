// SPDX-License-Identifier: Apache-2.0
// Compiling a program for a device and launching it. The caller owns all memory; a kernel is
// immutable and may be launched from several threads at once, each call with its own workspace.
#pragma once

#include <coda/dtype.h>
#include <coda/export.h>
#include <coda/program.h>
#include <coda/tensor.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace coda {

struct SizeValue {
  std::string_view name;  // a size parameter of the program
  int64_t value;
};

struct CompileOptions {
  DType type = DType::bf16;          // the type parameter T: f32, bf16 or f16
  std::span<const SizeValue> sizes;  // one for each size parameter
  bool fused = true;                 // false: a whole matrix product, then the program over tiles
  int threads = 0;                   // CPU workers; 0: one per core. Results do not depend on it
};

enum class Axis : unsigned char { rows, columns };

/// The arguments of one call, by name. Setting a name again replaces it, except product(), which
/// adds a term to the accumulator's sum of products.
class CODA_API Arguments {
 public:
  Arguments();
  ~Arguments();
  Arguments(const Arguments&);
  Arguments(Arguments&&) noexcept;
  Arguments& operator=(Arguments) noexcept;

  /// An input or output tensor. Shape as declared; see docs/language.md, "Arguments of a call".
  Arguments& tensor(std::string_view name, TensorView view);
  /// An input or output that lies in several tensors, side by side along `axis`.
  Arguments& tensor(std::string_view name, Axis axis, std::span<const TensorView> segments);
  /// A number given at the call (eps: f32).
  Arguments& scalar(std::string_view name, double value);
  /// Adds A [M, K] times B [N, K] transposed to an accumulator. Any strides: NT, NN and TN are
  /// views.
  Arguments& product(std::string_view accumulator, TensorView a, TensorView b);
  /// The same with several weights [N_i, K] side by side along N.
  Arguments& product(std::string_view accumulator, TensorView a,
                     std::span<const TensorView> weights);
  /// M and N, where no tensor of the program tells them.
  Arguments& sizes(int64_t m, int64_t n);

  struct State;
  const State& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// Bytes that the workspace of launch() must be aligned to.
inline constexpr size_t kWorkspaceAlignment = 64;

class CODA_API Kernel {
 public:
  /// Bytes of workspace that launch() with these arguments needs; the pointers may be null here.
  /// Throws like launch().
  size_t workspace_bytes(const Arguments& arguments) const;
  /// Runs the program. `stream` is a CUDA stream on a CUDA device and null on the CPU, where the
  /// call returns when the work is done. Every argument is checked first: on Error nothing was
  /// written.
  void launch(void* stream, const Arguments& arguments, void* workspace,
              size_t workspace_size) const;
  const Program& program() const noexcept;

  struct State;
  explicit Kernel(std::shared_ptr<const State> state);

 private:
  std::shared_ptr<const State> state_;
};

/// Throws Error{argument} for missing or unknown sizes, Error{dtype} for a type T that is not f32,
/// bf16 or f16, Error{unsupported} when the device cannot run the program.
CODA_API Kernel compile(const Program& program, Device device, const CompileOptions& options);

/// Labels are contents of a tensor, which launch() does not look at: a label outside [0, n) matches
/// no column. This helper looks, at labels in host memory (i32 or i64): it throws Error{argument}
/// naming the first row whose label is neither in [0, n) nor `ignore_index`, and its value.
CODA_API void check_labels(TensorView labels, int64_t n, std::optional<int64_t> ignore_index = {});

}  // namespace coda
