// SPDX-License-Identifier: Apache-2.0
#include "train/mapped_file.h"

#include <coda/error.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace coda::train {

MappedFile::MappedFile(const std::string& path) {
  const auto refuse = [&](const char* expected, const char* got, const char* fix) {
    throw Error(ErrorKind::io, path, expected, got, fix);
  };
  // Without O_NONBLOCK a pipe of that name would block for ever.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) refuse("a file that can be read", std::strerror(errno), "check the path");
  struct stat status;
  int error = fstat(file, &status) != 0 ? errno : 0;
  const bool regular = error == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<size_t>(regular ? status.st_size : 0);
  if (size > 0) {
    data_ = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data_ == MAP_FAILED) error = errno;
  }
  close(file);
  if (error != 0) refuse("a file that can be read", std::strerror(error), "check the path");
  if (!regular)
    refuse("a regular file", S_ISDIR(status.st_mode) ? "a folder" : "something else",
           "give the path of one file");
  size_ = size;
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(data_, size_);
}

}  // namespace coda::train
