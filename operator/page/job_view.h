// A job as the page shows it: JSON of what is known of it. PURE. Knows no HTTP and no API server.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/page/progress_history.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Failed, Succeeded, Suspended, Blocked, Queued, Restarting, Stalled, Running, Created; "New" until
// the operator has looked at it.
std::string_view StateOf(const std::vector<Condition>& conditions);
// Where jobs of this state come in a list: those that may need somebody first, ended ones last.
size_t RankOf(std::string_view state);

// One line of the list: names, state, progress, replicas by type, restarts, times.
Json JobRow(const TfJob& job);

struct JobParts {
  std::string waits_for;             // of the plan
  std::vector<ProgressPoint> curve;  // of the last hour
  // Why the pods may not be told; empty: they may.
  std::string pods_refused;
};
// The line and all the rest: conditions, failures, pods, curve, and why it waits, in sentences.
Json JobDetail(const Observed& observed, const JobParts& parts);

// Of an Event of the API server: type, reason, message, count, last time.
Json EventRow(const Json& event);

}  // namespace tfjob
