// SPDX-License-Identifier: Apache-2.0
// coda doctor: what this machine offers, and how to get what it lacks.
#include "runtime/doctor.h"

#include <coda/version.h>
#include <fmt/core.h>

#include "commands.h"

namespace coda::tool {

void add_doctor(CLI::App& app, Shell& shell) {
  add_command(app, shell, "doctor", "tell what this machine offers", [&shell] {
    const std::vector<Finding> findings = examine_machine();
    if (shell.json) {
      Json list = Json::array();
      for (const Finding& finding : findings)
        list.push_back({{"subject", finding.subject},
                        {"found", finding.found},
                        {"detail", finding.detail},
                        {"fix", finding.fix}});
      print_json({{"version", version()}, {"findings", list}});
      return kOk;
    }
    fmt::print("coda {}\n", version());
    for (const Finding& finding : findings) {
      const std::string mark =
          finding.found ? paint(Colour::green, "ok     ") : paint(Colour::red, "missing");
      fmt::print("{}  {:<14}{}\n", mark, finding.subject, finding.detail);
      if (!finding.fix.empty()) fmt::print("{:23}{}\n", "", finding.fix);
    }
    return kOk;
  });
}

}  // namespace coda::tool
