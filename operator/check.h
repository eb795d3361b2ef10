// Is this installation complete? `trainyard-operator --check` with the flags of the operator, as
// the account that it runs under: by people, and by `helm test`. Changes nothing.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "operator/flags.h"
#include "operator/operator_process.h"

namespace tfjob {

// What was looked at; the status of one that does not hold says what to do.
struct Finding {
  std::string what;
  absl::Status status;
};

// The API server serves TFJobs (and PodGroups, where gangs are wanted), the account has each right
// that the operator uses, and somebody leads: the Lease is renewed while this looks at it, for as
// long as a lease lasts at most. Findings end early where the API server cannot be asked.
std::vector<Finding> CheckInstallation(const OperatorOptions& options,
                                       const Surroundings& surroundings, std::stop_token stop);

// A line each, "ok" or "FAIL" first.
std::string ToText(const std::vector<Finding>& findings);
bool AllHold(const std::vector<Finding>& findings);

}  // namespace tfjob
