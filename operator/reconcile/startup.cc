#include "operator/reconcile/startup.h"

#include <algorithm>
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

bool IsBefore(const Replica& a, const Replica& b) {
  return CreationRank(a.type) < CreationRank(b.type);
}

}  // namespace

bool MustWaitForOthers(const Context& context, const Replica& replica) {
  if (!IsInOrder(context)) return false;
  const std::vector<Replica>& wanted = context.replicas.wanted;
  return std::any_of(wanted.begin(), wanted.end(), [&](const Replica& other) {
    return IsBefore(other, replica) && !HasStarted(other);
  });
}

void NoteStartupOrder(Context& context) {
  if (!IsInOrder(context)) return;
  const std::vector<Replica>& wanted = context.replicas.wanted;
  const bool some_wait = std::any_of(wanted.begin(), wanted.end(), [&](const Replica& replica) {
    return replica.state == ReplicaState::kMissing && MustWaitForOthers(context, replica);
  });
  if (!some_wait) return;
  std::vector<std::string> names;
  for (const Replica& replica : wanted) {
    if (HasStarted(replica) || MustWaitForOthers(context, replica)) continue;
    names.push_back(ReplicaName(context.job.metadata.name, replica.type, replica.index));
  }
  context.plan.waits_for =
      absl::StrCat(NameList(names), " to be ready (startupPolicyOrder is InOrder)");
}

}  // namespace tfjob
