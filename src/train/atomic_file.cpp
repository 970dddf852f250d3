// SPDX-License-Identifier: Apache-2.0
#include "train/atomic_file.h"

#include <coda/error.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace coda::train {
namespace {

/// Repeats a system call that a signal interrupts.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A name in `folder` that this call alone has.
std::string fresh_name(const std::string& folder) {
  static std::atomic<unsigned> count = 0;
  return folder + "/.coda-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".part";
}

}  // namespace

void flush_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const std::string folder = folder_of(path_);
  // A crashed process of the same id may have left one. The mode is the user's, as of any new file.
  do {
    temporary_ = fresh_name(folder);
    descriptor_ = uninterrupted(
        [&] { return open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("a folder that files can be made in", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view expected, int error) const {
  const char* fix = error == ENOSPC || error == EDQUOT || error == EFBIG
                        ? "make room and write again; the file that was there is as it was"
                        : "check the path and its permissions";
  throw Error(ErrorKind::io, path_, expected, std::strerror(error), fix);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (written < 0) fail("room for the file", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return fsync(descriptor_); }) != 0) fail("room for the file", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("a place that a file can take", errno);
  close(descriptor_);
  descriptor_ = -1;
  flush_folder(folder_of(path_));
}

}  // namespace coda::train
