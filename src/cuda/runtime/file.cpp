// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace coda::cuda {
namespace {

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Repeats a system call that a signal interrupts.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return write(file, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

int read_file(const std::string& path, std::string& bytes, bool touch) {
  // Without O_NONBLOCK a pipe of that name would block for ever.
  const File file(
      uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = uninterrupted(
        [&] { return read(file.get(), bytes.data() + filled, bytes.size() - filled); });
    if (got < 0) return errno;
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  if (touch) futimens(file.get(), nullptr);
  return 0;
}

int write_file(const std::string& path, std::string_view bytes) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::string temporary = (folder.empty() ? "." : folder) + "/";
  temporary += std::string(kTemporaryPrefix) + "XXXXXX";
  int error = 0;
  {
    const File file(mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) return errno;
    error = write_all(file.get(), bytes);
    if (error == 0 && uninterrupted([&] { return fsync(file.get()); }) != 0) error = errno;
  }
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

int make_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path(folder);
  if (std::filesystem::is_directory(path, error)) return 0;
  std::filesystem::create_directories(path.parent_path(), error);
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  return errno;
}

}  // namespace coda::cuda
