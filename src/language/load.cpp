// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "language/parser.h"

namespace coda::language {

std::vector<ir::Program> load_file(std::string_view path) {
  errno = 0;
  std::ifstream file(std::string(path), std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.fail())
    throw Error(ErrorKind::io, path, "a file that can be read",
                errno ? std::strerror(errno) : "no data", "check the path");
  return parse_file(text.view(), path);
}

}  // namespace coda::language
