// SPDX-License-Identifier: Apache-2.0
#include <coda/version.h>

namespace coda {

const char* version() noexcept { return CODA_VERSION_STRING; }

}  // namespace coda
