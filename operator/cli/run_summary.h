// The last words of `trainyard run`. PURE.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/cli/local_cluster.h"

namespace tfjob {

struct RunResult {
  std::string job;
  TfJobStatus status;
  std::map<std::string, PodRecord> pods;
  std::map<std::string, SharedVolume> volumes;
  std::string checkpoint_folder;  // "" if no trainer has one
  std::optional<int> signal;      // the run was interrupted
  int failure_code = 0;           // of the pod behind a failure
  absl::Duration duration;
};

// The lines to print: the outcome, each pod, the conditions, and where checkpoints and logs are.
std::vector<std::string> Summarize(const RunResult& result);
// The exit code of the command: 0, the failing pod's 2, 3 or 4, else 1; 128+n after signal n.
int ExitCodeOf(const RunResult& result);

}  // namespace tfjob
