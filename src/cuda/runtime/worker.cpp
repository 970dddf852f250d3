// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/worker.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <thread>

#include "cuda/runtime/entry.h"
#include "cuda/runtime/file.h"
#include "cuda/runtime/process.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;

/// A folder for one group of jobs; empty path where it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "coda-XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

WorkerResult run_job(const std::string& helper, const Nvrtc& nvrtc, const Job& job,
                     std::span<const std::string> flags, const std::string& stem) {
  const std::string source = stem + ".cu", output = stem + ".out";
  if (write_file(source, *job.text) != 0) return NoWorker{};
  std::vector<std::string> arguments = {helper, nvrtc.library.path, source, output, *job.name};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const ProcessEnd end = run_process(arguments);
  if (end.signal != 0) return DeadWorker{end.signal};
  // The file proves itself, so that no exit code is needed.
  std::string bytes;
  if (!end.started || read_file(output, bytes) != 0) return NoWorker{};
  const std::optional<std::string> payload = decode_entry(sha256(*job.text), bytes);
  if (!payload) return NoWorker{};
  std::optional<Translation> translation = decode_translation(*payload);
  if (!translation) return NoWorker{};
  return *std::move(translation);
}

}  // namespace

std::string find_helper() {
  if (const char* path = std::getenv("CODA_NVRTC_HELPER"); path != nullptr && *path != '\0')
    return access(path, X_OK) == 0 ? path : "";
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&find_helper), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const fs::path folder = fs::canonical(info.dli_fname, error).parent_path();
  if (error) return {};
  for (const fs::path& base : {folder, folder.parent_path(), folder.parent_path().parent_path()})
    if (const fs::path path = base / "libexec/coda/coda-nvrtc"; access(path.c_str(), X_OK) == 0)
      return path.string();
  return {};
}

std::vector<WorkerResult> run_workers(const std::string& helper, const Nvrtc& nvrtc,
                                      std::span<const Job> jobs, std::span<const std::string> flags,
                                      int workers) {
  std::vector<WorkerResult> results(jobs.size());
  const TemporaryFolder folder;
  if (folder.path().empty()) return results;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < jobs.size();)
      results[i] = run_job(helper, nvrtc, jobs[i], flags, folder.path() + "/" + std::to_string(i));
  };
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t count = std::min<size_t>(jobs.size(), workers > 0 ? workers : cores);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

int run_helper(std::span<char* const> arguments) try {
  if (arguments.size() < 5) return 2;
  const std::string library = arguments[1], source = arguments[2], output = arguments[3];
  const std::vector<std::string> flags(arguments.begin() + 5, arguments.end());
  CudaSearch search = CudaSearch::from_environment();
  // The caller's own NVRTC and no other: once loaded, it is what a search of the process finds.
  if (!library.empty()) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return 3;
    search = {true, {}, false};
  }
  const Nvrtc nvrtc = open_nvrtc(search);
  std::string text;
  if (read_file(source, text) != 0) return 2;
  const Translation translation = translate(nvrtc, arguments[4], text, flags);
  return write_file(output, encode_entry(sha256(text), encode(translation))) == 0 ? 0 : 4;
} catch (const std::exception&) {
  return 1;
}

}  // namespace coda::cuda
