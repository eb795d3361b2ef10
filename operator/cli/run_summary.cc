#include "operator/cli/run_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

std::string Outcome(const RunResult& result) {
  if (result.signal) return "interrupted";
  if (HasCondition(result.status, kSucceeded)) return "succeeded";
  if (HasCondition(result.status, kFailed)) return "failed";
  return "did not finish";
}

std::string EndOf(const PodRecord& pod) {
  if (!pod.started) return "never started";
  if (!pod.exit_code) return "stopped";
  return base::StrCat(pod.stopped ? "stopped, exit " : "exit ", *pod.exit_code);
}

std::string PodLine(const PodRecord& pod, size_t width) {
  std::string line =
      absl::StrFormat("  %-*s  %-17s", static_cast<int>(width), pod.label, EndOf(pod));
  if (pod.started && pod.ended)
    absl::StrAppend(&line,
                    absl::StrFormat("  %7.1f s", absl::ToDoubleSeconds(*pod.ended - *pod.started)));
  const int restarts = pod.restarts + std::max(0, pod.created - 1);
  if (restarts > 0)
    absl::StrAppend(&line, "  ", restarts, restarts == 1 ? " restart" : " restarts");
  return base::StrCat(line, "  ", pod.log_path);
}

}  // namespace

std::vector<std::string> Summarize(const RunResult& result) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrFormat("TFJob %s %s after %.1f s", result.job, Outcome(result),
                                  absl::ToDoubleSeconds(result.duration)));
  size_t width = 0;
  for (const auto& [name, pod] : result.pods) width = std::max(width, pod.label.size());
  for (const auto& [name, pod] : result.pods) lines.push_back(PodLine(pod, width));
  for (const Condition& condition : result.status.conditions) {
    lines.push_back(base::StrCat("  ", condition.type, "=", condition.status, "  ",
                                 condition.reason, ": ", condition.message));
  }
  for (const auto& [name, volume] : result.volumes)
    lines.push_back(base::StrCat("  volume ", name, ": ", volume.folder));
  if (!result.checkpoint_folder.empty()) {
    lines.push_back(base::StrCat("  checkpoints and summaries: ", result.checkpoint_folder));
    lines.push_back(base::StrCat("  look at them: tensorboard --logdir=", result.checkpoint_folder,
                                 "   go on from them: run the same command again"));
  }
  return lines;
}

int ExitCodeOf(const RunResult& result) {
  if (result.signal) return 128 + *result.signal;
  if (HasCondition(result.status, kSucceeded)) return base::kExitOk;
  switch (result.failure_code) {
    case base::kExitUsage:
    case base::kExitData:
    case base::kExitNumeric:
      return result.failure_code;
    default:
      return base::kExitFailure;
  }
}

}  // namespace tfjob
