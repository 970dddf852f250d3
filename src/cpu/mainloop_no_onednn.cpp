// SPDX-License-Identifier: Apache-2.0
// Stands in for mainloop_onednn.cpp where oneDNN is absent.
#include "cpu/mainloop.h"

namespace coda::cpu {

std::shared_ptr<const Mainloop> make_onednn_mainloop() { return nullptr; }

}  // namespace coda::cpu
