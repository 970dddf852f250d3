// SPDX-License-Identifier: Apache-2.0
// The fused way of running a call: the program on the epilogue of coda's own mainloop (sm_90a), and
// the passes that join its partials.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cuda/backend/configure.h"
#include "cuda/backend/passes.h"
#include "cuda/codegen/fused.h"

namespace coda::cuda {

/// What the mainloop makes of a call: the choice's input, and what a kernel's text depends on
/// beside the configuration.
struct FusedCall {
  Problem problem;
  std::vector<device::Seams> seams;  // by port
  std::vector<size_t> products;      // which products have any K, by index
  int splits = 1;                    // ranges of K that run side by side; find() sets it
  bool tuned = false;                // a table had the configuration; find() sets it
};

class Fused90 {
 public:
  /// The program must have no fused_problem(). `gpu` may be null: then kernels are compiled alone.
  Fused90(const Instance& instance, const ConfigWish& wish, const Gpu* gpu, int multiprocessors);

  /// The call as the mainloop takes it, or why it cannot.
  std::variant<FusedCall, std::string> accept(const BoundCall& call) const;

  /// One compiled configuration.
  struct Kernel {
    device::Config config;
    device::Plan plan;
    Fused fused;
    std::unique_ptr<LoadedSource> loaded;
    int clusters_at_once = 1;
  };

  /// The best kernel that ptxas builds without faults, compiled at its first use; null and the
  /// reason where there is none. A forced configuration that does not fit throws.
  std::shared_ptr<const Kernel> find(FusedCall& call, std::string* why_none) const;

  void plan(const Planning& planning, const FusedCall& call, const Kernel& kernel) const;

  /// One source and its name, for a configuration.
  static Source source(const Instance& instance, const device::Config& config,
                       const std::vector<device::Seams>& seams, Fused* fused = nullptr);

  const ProgramShape& shape() const { return shape_; }
  const std::vector<FusedPort>& ports() const { return ports_; }
  /// How many kernels were compiled so far.
  size_t compiled() const;

 private:
  std::string port_problem(const BoundCall& call, size_t port, FusedCall& fused) const;
  std::string operand_problem(const BoundCall& call, FusedCall& fused) const;
  const Binding& tile_of(const BoundCall& call, size_t port) const;
  void queue_sum(const Planning& planning, const FusedCall& call, const Kernel& kernel,
                 const std::byte* partials) const;

  const Instance& instance_;
  ConfigWish wish_;
  const Gpu* gpu_;
  int multiprocessors_;
  std::vector<FusedPort> ports_;
  ProgramShape shape_;
  std::vector<int> accumulators_;  // inputs
  Copier copier_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Kernel>> kernels_;  // null: refused
};

}  // namespace coda::cuda
