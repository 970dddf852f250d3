// SPDX-License-Identifier: Apache-2.0
// The one exception type of coda. Every failure says what was wrong, where, what was expected, what
// was got and how to fix it; all of it is known before any work starts, so nothing is written on
// failure.
#pragma once

#include <coda/export.h>

#include <exception>
#include <memory>
#include <string_view>

namespace coda {

enum class ErrorKind {
  syntax,       // the text of a program does not follow the grammar
  program,      // a well-formed text that is not a valid program
  argument,     // a call's argument is missing, unknown, null, aliased, misaligned or out of range
  shape,        // sizes or strides do not fit the program
  dtype,        // a storage type does not fit the program
  unsupported,  // valid, but not on this device or build
  device,       // the device or its driver failed
  io,           // a file could not be read or written
  check,        // a verification found a wrong number
  internal,     // a fault of coda itself
};

class CODA_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string_view where, std::string_view expected, std::string_view got,
        std::string_view fix = {});
  ErrorKind kind() const noexcept;
  const char* where() const noexcept;          // "[residual_rms] argument 'w'" or "file.coda:3:14"
  const char* expected() const noexcept;       // what the rule asks for
  const char* got() const noexcept;            // what was found instead
  const char* fix() const noexcept;            // may be empty
  const char* what() const noexcept override;  // all of it in one line

 private:
  struct Fields;
  std::shared_ptr<const Fields> fields_;
};

CODA_API const char* name_of(ErrorKind kind) noexcept;

}  // namespace coda
