// `trainyard run job.yaml`: runs a TFJob's pods as local processes with the operator's own
// defaults, validation and plan. The local cluster is a second executor of the same plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tfjob {

struct RunOptions {
  std::string manifest;  // the file; "-" is standard input
  // Which TFJob of the file to run, by metadata.name. Default: the only one.
  std::string job;
  // Where volumes, logs and pods' folders live. Default: ./trainyard-run/<job>.
  std::string work_dir;
  // NAME=FOLDER: the volume or claim NAME is that folder instead of one below work_dir.
  std::vector<std::string> volumes;
  // GPUs to hand out: a count ("4"), or indexes with a comma ("0,2,", "1,"). Default: every
  // /dev/nvidia[0-9]* that CUDA_VISIBLE_DEVICES allows.
  std::optional<std::string> gpus;
  // Do without namespaces: mount paths in commands, arguments and variables are rewritten to the
  // folders.
  bool no_sandbox = false;
  // Run a job whose runPolicy.suspend is true.
  bool resume = false;
  // How long pods have between SIGTERM and SIGKILL. At most 4 s, so that Ctrl-C ends all within 5
  // s.
  double grace_seconds = 4;
  std::string color = "auto";  // auto (only on a terminal), always, never

  // The environment that containers inherit, NAME=value, and the folder and path of this program.
  // Filled by main.
  std::vector<std::string> environment;
  std::string program;  // path of the trainyard binary; `trainer` is looked for beside it

  // All problems of the flags at once; kInvalidArgument.
  absl::Status Validate() const;
};

// Runs the job to its end; prints the pods' logs, progress and a summary to standard output and
// problems to standard error. Returns the exit code for main: 0 succeeded; 2 the manifest or flags
// are wrong; if the job failed, the failing pod's own code when that is 2, 3 or 4, else 1; 130 and
// 143 after signals. Takes over the process's signals and children: call it once, from main, before
// other threads start.
int RunJob(const RunOptions& options);

}  // namespace tfjob
