// SPDX-License-Identifier: Apache-2.0
// Epilogue programs: parsed from text, built in C++ or derived; immutable, cheap to copy,
// thread-safe.
#pragma once

#include <coda/dtype.h>
#include <coda/export.h>
#include <coda/value.h>

#include <memory>
#include <span>
#include <string_view>

namespace coda {

namespace ir {
struct Program;
class Builder;
}  // namespace ir

class CODA_API Program {
 public:
  /// Parses a file's text (docs/language.md) that holds one program, or picks the one called
  /// `name`. Throws Error{syntax} with line and column, or Error{program} naming the rule.
  static Program parse(std::string_view text, std::string_view name = {});
  /// The same from a file. Throws Error{io} when it cannot be read.
  static Program load(std::string_view path, std::string_view name = {});

  const char* name() const noexcept;
  /// The program as text that parses to the same program. Valid as long as this object or a copy
  /// lives.
  const char* text() const noexcept;

  explicit Program(std::shared_ptr<const ir::Program> ir);
  const ir::Program& ir() const noexcept { return *ir_; }

 private:
  struct Text;
  std::shared_ptr<const ir::Program> ir_;
  std::shared_ptr<const Text> text_;
};

/// What a derivative consists of.
struct Derivative {
  Program
      forward;  // the given program, with an added output for each value that backward needs saved
  Program backward;  // inputs: d_NAME of each differentiated output, and saved or original values
                     // by name
};

struct DifferentiateOptions {
  std::span<const std::string_view>
      wrt;                               // inputs; empty: accumulators and float tensors but tables
  std::span<const std::string_view> of;  // outputs with an upstream gradient; empty: all float ones
  std::span<const std::string_view>
      nonzero;  // column vectors that are never 0 (rstd): see differentiate()
};

/// The reverse-mode derivative of `program` (docs/language.md, "Differentiation"). A gradient by a
/// column vector named in `nonzero` may divide by it and then needs only values that are stored
/// anyway. Throws Error{program} for unknown names and for operations without a derivative.
CODA_API Derivative differentiate(const Program& program, const DifferentiateOptions& options = {});

/// The derivatives of a program and of the one that uses its reduction, such as residual_rms and
/// rmsnorm_swiglu: inputs of the second that carry the name of an output of the first are that
/// output, and what the first makes by rsqrt, exp or sigmoid counts as nonzero. `of`: outputs of
/// the second.
struct ChainDerivative {
  Derivative first, second;
};
CODA_API ChainDerivative differentiate_chain(const Program& first, const Program& second,
                                             std::span<const std::string_view> of = {});

/// The same program with tile input `input` taken from an accumulator: it then runs on the epilogue
/// of the matrix product that makes that input.
CODA_API Program into_accumulator(const Program& program, std::string_view input);

/// Builds a program in C++ from the declarations of the language:
///   ProgramBuilder p("residual_rms");
///   Value a = p.input("a: acc"), r = p.input("residual: T[m, n]"), eps = p.input("eps: f32");
///   Value x = a + r;
///   p.output("x: T[m, n]", x);
///   p.output("rstd: f32[m]", rsqrt(p.reduce("mean[m]", x * x) + eps));
///   Program program = p.build();
class CODA_API ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string_view name);
  ~ProgramBuilder();
  ProgramBuilder(ProgramBuilder&&) noexcept;

  Value size(std::string_view name);                  // a size parameter, as an integer value
  Value input(std::string_view declaration);          // "w: T[n]"
  Value row_index();                                  // m
  Value column_index();                               // n
  Value rows();                                       // M
  Value columns();                                    // N
  Value reduce(std::string_view reduction, Value x);  // "sum[m]", "max[m, n:128]"
  struct Pair {
    Value first, second;
  };
  Pair moments(std::string_view kept, Value x);  // "[m]": mean and variance
  Pair split(Value x, std::string_view half);
  Value join(Value a, Value b, std::string_view half);
  Value swap(Value x, std::string_view half, std::string_view group);
  Value round(Value x, std::string_view type);
  void name(Value x, std::string_view name);
  void output(std::string_view declaration, Value x);  // "y: T[m, n]"
  Program build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coda
