// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace coda {
namespace {

namespace fs = std::filesystem;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

void add_listed(std::vector<fs::path>& folders, std::string_view list) {
  while (!list.empty()) {
    const size_t end = list.find(':');
    if (end != 0) folders.emplace_back(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
  }
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    result.push_back(at->path());
  return result;
}

/// PREFIX/lib/python3.X/site-packages/nvidia/PART/lib
void add_wheels(std::vector<fs::path>& folders, const fs::path& prefix) {
  for (const fs::path& python : entries(prefix / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const fs::path& part : entries(python / packages / "nvidia"))
        folders.push_back(part / "lib");
  }
}

/// The wheels of the python3 on PATH: beside the file itself (a virtual environment) and beside
/// what it links to. A pyenv shim stands for any of its versions.
void add_python_on_path(std::vector<fs::path>& folders) {
  std::vector<fs::path> path;
  add_listed(path, environment("PATH"));
  std::error_code error;
  for (const fs::path& folder : path) {
    const fs::path python = folder / "python3";
    if (!fs::exists(python, error)) continue;
    add_wheels(folders, folder.parent_path());
    if (folder.filename() == "shims")
      for (const fs::path& version : entries(folder.parent_path() / "versions"))
        add_wheels(folders, version);
    const fs::path target = fs::canonical(python, error);
    if (!error) add_wheels(folders, target.parent_path().parent_path());
    return;
  }
}

std::vector<fs::path> environment_folders() {
  std::vector<fs::path> folders;
  add_listed(folders, environment("CODA_CUDA_PATH"));
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string_view home = environment(variable); !home.empty()) {
      folders.push_back(fs::path(home) / "lib64");
      folders.push_back(fs::path(home) / "lib");
    }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string_view prefix = environment(variable); !prefix.empty())
      add_wheels(folders, prefix);
  add_python_on_path(folders);
  if (const std::string_view home = environment("HOME"); !home.empty())
    add_wheels(folders, fs::path(home) / ".local");
  for (const char* prefix : {"/usr/local", "/usr"}) add_wheels(folders, prefix);
  return folders;
}

CudaLibrary open(const std::string& name, int flags) {
  CudaLibrary library;
  library.handle = dlopen(name.c_str(), flags);
  return library;
}

/// The toolkits of /usr/local: the one that "cuda" links to, then the newest version first.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> versions;
  for (const fs::path& entry : entries("/usr/local"))
    if (entry.filename().string().starts_with("cuda-")) versions.push_back(entry / "lib64");
  std::sort(versions.begin(), versions.end(), std::greater<>());
  versions.insert(versions.begin(), "/usr/local/cuda/lib64");
  return versions;
}

CudaLibrary find_in(const std::vector<fs::path>& folders, std::span<const char* const> names) {
  std::error_code error;
  for (const fs::path& folder : folders)
    for (const char* name : names)
      if (const fs::path path = folder / name; fs::exists(path, error))
        if (CudaLibrary library = open(path.string(), RTLD_NOW | RTLD_LOCAL)) return library;
  return {};
}

CudaLibrary find(std::span<const char* const> names, const CudaSearch& search) {
  if (search.process)
    for (const char* name : names)
      if (CudaLibrary library = open(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  if (CudaLibrary library = find_in({search.folders.begin(), search.folders.end()}, names))
    return library;
  if (!search.system) return {};
  for (const char* name : names)
    if (CudaLibrary library = open(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return find_in(toolkit_folders(), names);
}

}  // namespace

void* CudaLibrary::symbol(const char* name) const {
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

CudaSearch CudaSearch::from_environment() {
  CudaSearch search;
  for (const fs::path& folder : environment_folders()) {
    std::string text = folder.string();
    if (std::find(search.folders.begin(), search.folders.end(), text) == search.folders.end())
      search.folders.push_back(std::move(text));
  }
  return search;
}

std::string CudaSearch::text() const {
  std::string result = process ? "loaded libraries, " : "";
  for (const std::string& folder : folders) result += folder + ", ";
  if (system) result += "the system's libraries, /usr/local/cuda*/lib64, ";
  if (result.empty()) return "nowhere";
  result.resize(result.size() - 2);
  return result;
}

CudaLibrary open_cuda_library(std::span<const char* const> names, const CudaSearch& search) {
  CudaLibrary library = find(names, search);
  // RTLD_DI_ORIGIN gives the folder alone; the name is the one of the list that lies there.
  char origin[4096];
  std::error_code error;
  if (library && dlinfo(library.handle, RTLD_DI_ORIGIN, origin) == 0)
    for (const char* name : names)
      if (const fs::path path = fs::path(origin) / name;
          library.path.empty() && fs::exists(path, error))
        library.path = path.string();
  return library;
}

}  // namespace coda
