// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/compiler.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/log.h"
#include "cuda/runtime/dump.h"
#include "cuda/runtime/translate.h"
#include "cuda/runtime/worker.h"

namespace coda::cuda {
namespace {

/// Raise it when the meaning of a stored entry changes.
constexpr std::string_view kFormat = "coda cubin 1";

std::string place(const Source& source) { return "[" + source.name + "] compile"; }

/// The outcome for one source while compile_sources works.
struct Work {
  Digest key;
  std::optional<Translation> translation;
  std::optional<Error> error;
  bool from_cache = false;
};

void look_up(Work& work, Cache& cache) {
  const std::optional<std::string> payload = cache.load(work.key);
  if (payload) work.translation = decode_translation(*payload);
  work.from_cache = work.translation.has_value();
}

void translate_in_workers(std::span<const Source> sources, std::span<Work> all,
                          const std::vector<size_t>& missing, const std::string& helper,
                          std::span<const std::string> flags, const CompilerOptions& options) {
  std::vector<Job> jobs;
  jobs.reserve(missing.size());
  for (const size_t i : missing) jobs.push_back({&sources[i].name, &sources[i].text});
  std::vector<WorkerResult> results = run_workers(helper, nvrtc(), jobs, flags, options.workers);
  for (size_t j = 0; j < missing.size(); ++j) {
    Work& work = all[missing[j]];
    if (auto* done = std::get_if<Translation>(&results[j])) work.translation = std::move(*done);
    if (const auto* dead = std::get_if<DeadWorker>(&results[j]))
      work.error.emplace(ErrorKind::unsupported, place(sources[missing[j]]),
                         "an outcome of the compile worker",
                         "its end by signal " + std::to_string(dead->signal),
                         "see that memory suffices; fewer workers need less");
  }
}

void translate_here(const Source& source, Work& work, std::span<const std::string> flags) try {
  work.translation = translate(nvrtc(), source.name, source.text, flags);
} catch (const Error& error) {
  work.error = error;
}

/// Dumps what CODA_DUMP asks for. PTX needs another run of NVRTC, whatever the cache holds.
void dump_requested(const Source& source, const Translation& translation,
                    std::span<const std::string> flags) {
  const DumpSettings settings = dump_settings();
  if (settings.cuda) dump(settings, source.name, "cu", source.text);
  if (!translation.compiled) return;
  if (settings.ptx)
    dump(settings, source.name, "ptx",
         translate(nvrtc(), source.name, source.text, flags, true).ptx);
  if (settings.sass) dump_sass(settings, source.name, translation.image);
}

CompileResult judge(const Source& source, Work& work, Cache& cache, bool local_memory) {
  if (work.error) return *std::move(work.error);
  Translation& translation = *work.translation;
  std::vector<KernelResources> kernels = parse_ptxas_log(translation.log);
  std::string faults = local_memory ? "" : find_faults(translation.log, kernels);
  if (translation.compiled && kernels.empty()) faults = "no kernel, or no report of ptxas";
  if (translation.compiled && faults.empty())
    return Cubin{std::move(translation.image), std::move(kernels), work.from_cache};

  const std::string path = keep_refused(cache, source.name, source.text, translation.log);
  const std::string kept = path.empty() ? "" : "; source: " + path;
  if (!translation.compiled)
    return Error(ErrorKind::internal, place(source), "CUDA text that compiles",
                 "errors:\n" + translation.log, "report it with the source" + kept);
  return Error(ErrorKind::unsupported, place(source),
               "a kernel without spills, stack frame, serialised wgmma or ignored setmaxnreg",
               faults + "\n" + translation.log, "use a smaller tile or fewer live values" + kept);
}

}  // namespace

std::vector<std::string> compiler_flags(const CompilerOptions& options) {
  // No --use_fast_math: what a program computes does not depend on flags.
  // Generic lambdas carry no execution space of their own.
  std::vector<std::string> flags = {"--gpu-architecture=" + options.architecture, "--std=c++20",
                                    "-default-device", "--ptxas-options=-v"};
  if (options.line_info) flags.emplace_back("--generate-line-info");
  return flags;
}

Digest cache_key(const Source& source, const CompilerOptions& options,
                 std::string_view compiler_identity) {
  Sha256 hash;
  hash.add_field(kFormat);
  hash.add_field(compiler_identity);
  for (const std::string& flag : compiler_flags(options)) hash.add_field(flag);
  // NVRTC takes flags from these as well.
  for (const char* name : {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"}) {
    const char* value = std::getenv(name);
    hash.add_field(value == nullptr ? "" : value);
  }
  hash.add_field(source.name);
  hash.add_field(source.text);
  return hash.finish();
}

std::vector<CompileResult> compile_sources(std::span<const Source> sources,
                                           const CompilerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Cache& cache = options.cache != nullptr ? *options.cache : default_cache();
  const std::string compiler = identity(nvrtc());
  const std::vector<std::string> flags = compiler_flags(options);
  std::vector<Work> all(sources.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < sources.size(); ++i) {
    all[i].key = cache_key(sources[i], options, compiler);
    look_up(all[i], cache);
    if (!all[i].translation) missing.push_back(i);
  }
  if (missing.size() > 1)
    if (const std::string helper = find_helper(); !helper.empty())
      translate_in_workers(sources, all, missing, helper, flags, options);
  for (const size_t i : missing) {
    if (!all[i].translation && !all[i].error) translate_here(sources[i], all[i], flags);
    if (all[i].translation && all[i].translation->compiled)
      cache.store(all[i].key, encode(*all[i].translation));
  }
  std::vector<CompileResult> results;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (all[i].translation) dump_requested(sources[i], *all[i].translation, flags);
    results.push_back(judge(sources[i], all[i], cache, options.local_memory));
  }
  if (log_enabled(LogLevel::debug)) {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    log(LogLevel::debug, std::to_string(missing.size()) + " of " + std::to_string(sources.size()) +
                             " kernels compiled in " + std::to_string(spent.count()) + " ms");
  }
  return results;
}

Cubin compile_source(const Source& source, const CompilerOptions& options) {
  CompileResult result = std::move(compile_sources({&source, 1}, options).front());
  if (const auto* error = std::get_if<Error>(&result)) throw *error;
  return std::get<Cubin>(std::move(result));
}

}  // namespace coda::cuda
