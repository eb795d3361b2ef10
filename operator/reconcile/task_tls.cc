#include "operator/reconcile/task_tls.h"

#include <algorithm>

#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/gang.h"

namespace tfjob {
namespace {

// A pod that is about to go says nothing about whether its Secret is still there.
bool SomePodHasIt(const Context& context) {
  const std::vector<PodView>& pods = context.observed.pods;
  return std::any_of(pods.begin(), pods.end(), [&](const PodView& pod) {
    return pod.task_tls && !pod.deletion_time && IsOurs(pod, context.job);
  });
}

}  // namespace

void DecideTaskTls(Context& context) {
  TfJobStatus& status = context.plan.status;
  if (status.task_tls) return;
  bool has_pods = false;
  for (const PodView& pod : context.observed.pods) {
    if (!IsOurs(pod, context.job)) continue;
    has_pods = true;
    status.task_tls = status.task_tls || pod.task_tls;
  }
  // Another operator, or one before this one, has started it without.
  if (has_pods || status.start_time) return;
  status.task_tls = !context.options.compat_v19 && !MustWaitForPodGroup(context) &&
                    WantsTaskTls(context.job, context.options.task_tls_images);
}

void PlanTaskTlsSecret(Context& context) {
  const std::vector<Replica>& wanted = context.replicas.wanted;
  const bool needs_pods = std::any_of(wanted.begin(), wanted.end(), [](const Replica& replica) {
    return replica.state == ReplicaState::kMissing;
  });
  if (!context.plan.status.task_tls || !needs_pods || SomePodHasIt(context)) return;
  context.plan.actions.push_back(CreateSecret{TaskTlsSecretName(context.job),
                                              BuildTaskTlsSecret(context.job, context.options)});
}

Json BuildTaskTlsSecret(const TfJob& job, const PlanOptions& options) {
  Json meta = {
      {"name", TaskTlsSecretName(job)},
      {"namespace", NamespaceOf(job, options)},
      {"labels", {{kLabelOperatorName, kOperatorName}, {kLabelJobName, job.metadata.name}}}};
  if (Json owners = OwnersOf(job); !owners.empty()) meta["ownerReferences"] = std::move(owners);
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", std::move(meta)},
          {"type", "kubernetes.io/tls"},
          {"immutable", true}};
}

}  // namespace tfjob
