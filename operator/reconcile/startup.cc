#include "operator/reconcile/startup.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/pods.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

bool IsInOrder(const Context& context) {
  return context.job.spec.startup_order == kInOrder && context.options.gang_scheduler.empty() &&
         !context.options.compat_v19;
}

// Those that are over count, too: they will not become ready again.
bool HasStarted(const Replica& replica) {
  switch (replica.state) {
    case ReplicaState::kRunning:
      return replica.pod->ready;
    case ReplicaState::kSucceeded:
    case ReplicaState::kFailed:
      return true;
    default:
      return false;
  }
}

}  // namespace

size_t PlanStartupOrder(Context& context) {
  constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  if (!IsInOrder(context)) return kNoLimit;
  const std::vector<Replica>& wanted = context.replicas.wanted;
  size_t last_rank = kNoLimit;
  for (const Replica& replica : wanted) {
    if (!HasStarted(replica)) last_rank = std::min(last_rank, CreationRank(replica.type));
  }
  std::vector<std::string> names;  // of those that the next ones wait for
  bool some_wait = false;
  for (const Replica& replica : wanted) {
    const bool is_later = CreationRank(replica.type) > last_rank;
    some_wait = some_wait || (is_later && replica.state == ReplicaState::kMissing);
    if (is_later || HasStarted(replica)) continue;
    names.push_back(ReplicaName(context.job.metadata.name, replica.type, replica.index));
  }
  if (some_wait) {
    context.plan.waits_for =
        absl::StrCat(NameList(names), " to be ready (startupPolicyOrder is InOrder)");
  }
  return last_rank;
}

}  // namespace tfjob
