#include "operator/reconcile/blocked.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "operator/api/names.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

std::vector<Trouble> NamesTaken(const Context& context) {
  std::vector<Trouble> troubles;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state != ReplicaState::kBlocked) continue;
    const std::string name = ReplicaName(context.job.metadata.name, replica.type, replica.index);
    const auto holder = std::find_if(context.observed.pods.begin(), context.observed.pods.end(),
                                     [&](const PodView& pod) { return pod.name == name; });
    if (holder != context.observed.pods.end() && holder->owned_by_namesake) continue;
    troubles.push_back(
        {kReasonForeignPod,
         absl::StrCat("Pod ", name, " belongs to another owner; delete or rename it")});
  }
  return troubles;
}

bool WantsToCreate(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<CreatePod>(action) ||
           std::holds_alternative<CreateService>(action) ||
           std::holds_alternative<CreateSecret>(action) ||
           std::holds_alternative<CreateClaim>(action) ||
           std::holds_alternative<CreatePodGroup>(action) ||
           std::holds_alternative<UpdatePodGroup>(action);
  });
}

}  // namespace

void UpdateBlocked(Context& context) {
  if (IsFinished(context.plan.status)) return RemoveCondition(context.plan.status, kBlocked);
  std::vector<Trouble> troubles = context.observed.troubles.value_or(std::vector<Trouble>());
  for (Trouble& taken : NamesTaken(context)) troubles.push_back(std::move(taken));
  if (troubles.empty()) {
    const bool untried = !context.observed.troubles && WantsToCreate(context.plan);
    if (!untried && !context.write_status_first) RemoveCondition(context.plan.status, kBlocked);
    return;
  }
  const std::string message = absl::StrJoin(
      troubles, "; ",
      [](std::string* out, const Trouble& trouble) { absl::StrAppend(out, trouble.message); });
  if (!context.options.compat_v19 &&
      !SetCondition(context, kBlocked, kTrue, troubles.front().reason, message)) {
    return;
  }
  for (const Trouble& trouble : troubles) {
    AddEvent(context, "Warning", trouble.reason, trouble.message);
  }
}

}  // namespace tfjob
