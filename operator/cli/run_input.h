// What `trainyard run` takes from its manifest: the one job, ready to run, and the objects beside
// it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/config_objects.h"
#include "operator/cli/run.h"

namespace tfjob {

struct RunInput {
  TfJob job;  // defaults applied, with name, namespace and uid
  ConfigObjects config;
  // The manifest's warnings, and what a local run leaves out of it: a sentence each.
  std::vector<std::string> notes;
};

// kInvalidArgument with every problem: unreadable or invalid manifest, no or several jobs, a
// suspended job without --resume.
absl::StatusOr<RunInput> LoadRunInput(const RunOptions& options);

}  // namespace tfjob
