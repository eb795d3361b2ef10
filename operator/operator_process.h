// The operator's parts put together, and its life: connect, watch, lead, work, hand over.
#pragma once

#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "operator/flags.h"
#include "operator/kube/client.h"
#include "operator/kube/transport.h"

namespace tfjob {

// `ns`: where the lease is when no flag says so; `server`: for metrics.
struct Surroundings {
  std::shared_ptr<kube::Transport> transport;
  // The same server without credentials, for callers with tokens of their own; needed for the page.
  std::shared_ptr<kube::Transport> nobody;
  std::string server;
  std::string ns;
  std::string host;  // of this process
};
// Where the Lease is.
std::string LeaseNamespace(const OperatorOptions& options, const Surroundings& surroundings);

// Blocks until `stop` is requested (OK: work ended, lease given up) or the lease was lost
// (kAborted). kInvalidArgument: an address that cannot be listened on.
absl::Status RunOperator(const OperatorOptions& options, const Surroundings& surroundings,
                         std::stop_token stop);

}  // namespace tfjob
