// `trainyard wait JOB`: until it has come so far, or never will.
#pragma once

#include <ostream>
#include <string>

#include "operator/api/tfjob.h"
#include "operator/cli/cluster/connection.h"

namespace tfjob {

inline constexpr int kExitTimeout = 124;  // as timeout(1) has it

struct WaitFlags {
  std::string awaited = "Succeeded";  // Failed, Running, finished
  std::string timeout = "24h";
};

// "90s", "10m", "1h30m", or seconds as a number. kInvalidArgument unless it is positive.
absl::StatusOr<absl::Duration> ParseTimeout(const std::string& flag, const std::string& text);

// Exit code for main: 0 it is as awaited (with `finished`: and succeeded), 1 the job has ended
// otherwise or is gone, 124 not within the timeout, 138 the cluster does not answer for a minute.
int WaitForJob(const Cluster& cluster, const std::string& name, const WaitFlags& flags,
               std::ostream& out, std::ostream& err);

// Waits until the object's job and pods are gone. Exit codes as above.
int WaitUntilGone(const Cluster& cluster, const Json& job, absl::Duration timeout,
                  std::ostream& out, std::ostream& err);

}  // namespace tfjob
