// `trainer check`: is every task of this cluster reachable? Prints a table of who answers, how
// fast, and who does not and why.
#pragma once

#include <cstdio>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"

namespace trainer {

// Checks from outside (no --job_name and no task in TF_CONFIG) or as a task of the cluster: then it
// also answers on its own address until all others that check have seen it, so that `trainer check`
// on every replica of a job ends well everywhere. The table goes to `output` (borrowed).
// OK: all answered. kUnavailable names those that did not within --wait_timeout; kInvalidArgument:
// no cluster, or the own port is taken; kCancelled when stopped.
absl::Status RunCheck(const Options& options, const Role& role, std::stop_token stop,
                      std::FILE* output = stdout);

// One line of the table. PURE.
struct CheckRow {
  std::string task, address;
  std::string answer;         // "ok", "this task", or why there is none
  absl::Duration round_trip;  // printed where the answer is "ok"
};
std::string FormatCheckTable(const std::vector<CheckRow>& rows);

}  // namespace trainer
