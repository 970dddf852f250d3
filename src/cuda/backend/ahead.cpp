// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend/ahead.h"

#include <algorithm>
#include <map>

#include "cuda/backend/unfused.h"

namespace coda::cuda {
namespace {

constexpr size_t kBatch = 64;  // sources in memory at a time

/// Outcomes of sources, each compiled once however many calls want it.
std::vector<CompileResult> compile_once(const std::vector<Source>& wanted, int workers,
                                        bool local_memory) {
  CompilerOptions options;
  options.workers = workers;
  options.local_memory = local_memory;
  std::map<std::string_view, size_t> places;
  std::vector<Source> sources;
  std::vector<size_t> place_of;
  for (const Source& source : wanted) {
    const auto [at, is_new] = places.emplace(source.text, sources.size());
    if (is_new) sources.push_back(source);
    place_of.push_back(at->second);
  }
  const std::vector<CompileResult> compiled = compile_sources(sources, options);
  std::vector<CompileResult> results;
  for (const size_t place : place_of) results.push_back(compiled[place]);
  return results;
}

/// A call on its way through its candidates.
struct Pending {
  size_t index;
  std::vector<Candidate> candidates;
};

void compile_batch(std::span<const AheadCall> calls, std::span<AheadResult> results, int workers) {
  std::vector<Pending> pending;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Instance& instance = *calls[i].instance;
    if (const auto problem = fused_problem(instance)) {
      results[i].reason = *problem;
      continue;
    }
    Pending call{i, attempts(candidates(program_shape(instance, fused_ports(instance)),
                                        calls[i].call.problem, calls[i].wish, &results[i].reason))};
    if (!call.candidates.empty()) pending.push_back(std::move(call));
  }
  for (size_t turn = 0; !pending.empty(); ++turn) {
    std::vector<Source> sources;
    for (const Pending& p : pending)
      sources.push_back(Fused90::source(*calls[p.index].instance, p.candidates[turn].config,
                                        calls[p.index].call.seams));
    const std::vector<CompileResult> compiled = compile_once(sources, workers, false);
    std::vector<Pending> refused;
    for (size_t i = 0; i < pending.size(); ++i) {
      AheadResult& result = results[pending[i].index];
      if (const auto* error = std::get_if<Error>(&compiled[i])) {
        if (error->kind() != ErrorKind::unsupported) throw *error;
        const std::string got = error->got();
        result.reason = got.substr(0, got.find('\n'));
        if (turn + 1 < pending[i].candidates.size()) refused.push_back(std::move(pending[i]));
        continue;
      }
      const auto& cubin = std::get<Cubin>(compiled[i]);
      const Candidate& chosen = pending[i].candidates[turn];
      result = {chosen.config, chosen.splits, chosen.tuned, "", cubin.kernels, cubin.from_cache};
    }
    pending = std::move(refused);
  }
  std::vector<const Instance*> unfused;
  std::vector<size_t> places;
  for (size_t i = 0; i < calls.size(); ++i)
    if (!results[i].config) unfused.push_back(calls[i].instance), places.push_back(i);
  const std::vector<AheadResult> others = compile_unfused_ahead(unfused, workers);
  for (size_t i = 0; i < places.size(); ++i) {
    results[places[i]].kernels = others[i].kernels;
    results[places[i]].from_cache = others[i].from_cache;
  }
}

}  // namespace

std::vector<AheadResult> compile_ahead(std::span<const AheadCall> calls, int workers) {
  std::vector<AheadResult> results(calls.size());
  for (size_t from = 0; from < calls.size(); from += kBatch) {
    const size_t count = std::min(kBatch, calls.size() - from);
    compile_batch(calls.subspan(from, count), std::span(results).subspan(from, count), workers);
  }
  return results;
}

std::vector<AheadResult> compile_unfused_ahead(std::span<const Instance* const> instances,
                                               int workers) {
  std::vector<AheadResult> results;
  for (size_t from = 0; from < instances.size(); from += kBatch) {
    std::vector<Source> sources;
    for (const Instance* instance :
         instances.subspan(from, std::min(kBatch, instances.size() - from)))
      sources.push_back(Unfused::source(*instance, Unfused::kernels(*instance)));
    for (CompileResult& result : compile_once(sources, workers, true)) {
      if (const auto* error = std::get_if<Error>(&result)) throw *error;
      auto& cubin = std::get<Cubin>(result);
      results.push_back({std::nullopt, 1, false, "", std::move(cubin.kernels), cubin.from_cache});
    }
  }
  return results;
}

UsualCall usual_call(const Instance& instance, const std::string& layout, int64_t m, int64_t n,
                     int64_t k) {
  const ir::Program& program = *instance.program;
  UsualCall usual{layout, {}};
  Problem& problem = usual.call.problem;
  problem.m = m, problem.n = n, problem.depths = {k};
  problem.element = instance.type == DType::f16 ? device::Type::f16 : device::Type::bf16;
  problem.a_major = layout[0] == 'N' ? device::Major::k : device::Major::mn;
  problem.b_major = layout[1] == 'T' ? device::Major::k : device::Major::mn;
  problem.accumulators = static_cast<int>(std::count_if(
      program.inputs.begin(), program.inputs.end(),
      [](const ir::Input& input) { return input.kind == ir::Input::Kind::accumulator; }));
  usual.call.products = {0};
  if (!fused_problem(instance)) usual.call.seams.resize(fused_ports(instance).size());
  return usual;
}

std::vector<UsualCall> usual_calls(const Instance& instance, const std::string& layout) {
  constexpr int64_t kShapes[][3] = {{16384, 2048, 2048},  {16384, 2048, 5632}, {16384, 11264, 2048},
                                    {16384, 4096, 11008}, {8192, 8192, 22016}, {2048, 2048, 16384},
                                    {1024, 1024, 1024},   {256, 4096, 4096}};
  std::vector<UsualCall> calls;
  for (const auto& [m, n, k] : kShapes) calls.push_back(usual_call(instance, layout, m, n, k));
  return calls;
}

}  // namespace coda::cuda
