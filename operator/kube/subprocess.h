// Runs a short program and takes its output. For credential plug-ins.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kube {

struct ProcessResult {
  int exit_code = 0;  // 128 + signal when killed
  std::string out;
  std::string err;  // its end, at most 2 KiB
};

// Runs argv[0] (found through $PATH unless it has a slash) with this process's environment and
// `env` above it, nothing on standard input. kNotFound: no such program; kDeadlineExceeded: killed
// with all that it started; kResourceExhausted: more than 1 MiB of output.
absl::StatusOr<ProcessResult> RunProcess(
    const std::vector<std::string>& argv,
    const std::vector<std::pair<std::string, std::string>>& env, absl::Duration timeout);

}  // namespace kube
