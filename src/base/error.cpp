// SPDX-License-Identifier: Apache-2.0
#include <coda/error.h>

#include <string>

namespace coda {

struct Error::Fields {
  ErrorKind kind;
  std::string where, expected, got, fix, what;
};

Error::Error(ErrorKind kind, std::string_view where, std::string_view expected,
             std::string_view got, std::string_view fix) {
  auto fields = std::make_shared<Fields>();
  fields->kind = kind;
  fields->where = where;
  fields->expected = expected;
  fields->got = got;
  fields->fix = fix;
  fields->what = fields->where + ": expected " + fields->expected + ", got " + fields->got;
  if (!fix.empty()) fields->what += "; fix: " + fields->fix;
  fields_ = std::move(fields);
}

ErrorKind Error::kind() const noexcept { return fields_->kind; }
const char* Error::where() const noexcept { return fields_->where.c_str(); }
const char* Error::expected() const noexcept { return fields_->expected.c_str(); }
const char* Error::got() const noexcept { return fields_->got.c_str(); }
const char* Error::fix() const noexcept { return fields_->fix.c_str(); }
const char* Error::what() const noexcept { return fields_->what.c_str(); }

const char* name_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::syntax:
      return "syntax";
    case ErrorKind::program:
      return "program";
    case ErrorKind::argument:
      return "argument";
    case ErrorKind::shape:
      return "shape";
    case ErrorKind::dtype:
      return "dtype";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::device:
      return "device";
    case ErrorKind::io:
      return "io";
    case ErrorKind::check:
      return "check";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace coda
