// A TFJob as one line of text: what state it is in and how far it is. PURE; total.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// Deleting, Succeeded, Failed, Suspended, Blocked, Queued, Restarting, Stalled, Running, Created;
// "New" until the operator has looked at it.
std::string StateOf(const Json& job);
// status.progress.summary, "" where there is none.
std::string ProgressOf(const Json& job);

struct ReplicaCounts {
  std::string type;  // PS
  int wanted = 0;
  int running = 0;
  int succeeded = 0;
};
// In the order Chief, Master, PS, Worker, Evaluator, others.
std::vector<ReplicaCounts> ReplicasOf(const Json& job);
// "ps 1/1 worker 2/4": those that run or have succeeded, of those that are wanted.
std::string ReplicasText(const Json& job);
// Of all pods, as the operator counts them.
int RestartsOf(const Json& job);
// The newest condition's message.
std::string ReasonOf(const Json& job);

// "45s", "12m", "3h20m", "5d".
std::string ShortDuration(absl::Duration duration);
// Since the time (RFC 3339) under `key`, "-" if there is none.
std::string AgeText(const Json& object, std::string_view key, absl::Time now);

// Columns as wide as their longest cell; the last one as it is.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

}  // namespace tfjob
