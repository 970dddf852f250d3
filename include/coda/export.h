// SPDX-License-Identifier: Apache-2.0
// CODA_API marks what the shared library exports; everything else is hidden.
#pragma once

#if defined(__GNUC__)
#define CODA_API __attribute__((visibility("default")))
#else
#define CODA_API
#endif
