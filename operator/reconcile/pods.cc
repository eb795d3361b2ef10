#include "operator/reconcile/pods.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/claims.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/cluster.h"
#include "operator/reconcile/gang.h"
#include "operator/reconcile/restart.h"
#include "operator/reconcile/startup.h"
#include "operator/reconcile/status.h"
#include "operator/reconcile/task_tls.h"

namespace tfjob {
namespace {

// Wanted replicas in the order in which they are created.
std::vector<const Replica*> InCreationOrder(const Replicas& replicas) {
  std::vector<const Replica*> ordered;
  for (const Replica& replica : replicas.wanted) ordered.push_back(&replica);
  std::stable_sort(ordered.begin(), ordered.end(), [](const Replica* a, const Replica* b) {
    return CreationRank(a->type) < CreationRank(b->type);
  });
  return ordered;
}

// Before their pod, so that a crash in between leaves a pod that says that they are still to go.
// They stay until it has ended (pvc-protection).
void DeleteClaimsOf(Context& context, const PodView& pod) {
  for (const auto& [type, replica] : *context.job.spec.replicas) {
    if (LowerReplicaType(type) != pod.type || replica.claims_when_scaled != kDelete) continue;
    if (pod.index < replica.replicas.value_or(1)) continue;  // one pod too many for its index
    for (const std::string& claim : ClaimTemplateNames(replica)) {
      context.plan.actions.push_back(
          DeleteClaim{ClaimName(claim, ReplicaName(context.job.metadata.name, type, pod.index))});
    }
  }
}

void DeleteSurplus(Context& context) {
  for (const PodView* pod : context.replicas.surplus_pods) {
    DeleteClaimsOf(context, *pod);
    if (!pod->deletion_time) context.plan.actions.push_back(DeletePod{pod->name, pod->uid});
  }
  for (const ServiceView* service : context.replicas.surplus_services) {
    if (service->deletion_time) continue;
    context.plan.actions.push_back(DeleteService{service->name, service->uid});
  }
}

// v1.9 takes a service without owner for its own and leaves it so; then it would outlive the job.
void AdoptOrphans(Context& context) {
  std::vector<const ServiceView*> services = {context.replicas.subdomain_service};
  for (const Replica& replica : context.replicas.wanted) services.push_back(replica.service);
  for (const ServiceView* service : services) {
    if (service == nullptr || !service->owner_uid.empty() || service->deletion_time) continue;
    context.plan.actions.push_back(AdoptService{service->name, service->uid});
  }
}

void CreateServices(Context& context, const std::vector<const Replica*>& ordered) {
  const std::string& subdomain = context.job.spec.network.subdomain;
  if (!subdomain.empty()) {
    if (context.replicas.subdomain_service != nullptr) return;
    context.plan.actions.push_back(
        CreateService{subdomain, "", -1, BuildSubdomainService(context.job, context.options)});
    return;
  }
  for (const Replica* replica : ordered) {
    if (replica->service != nullptr) continue;
    context.plan.actions.push_back(
        CreateService{ReplicaName(context.job.metadata.name, replica->type, replica->index),
                      LowerReplicaType(replica->type), replica->index,
                      BuildService(context.job, replica->type, replica->index, context.options)});
  }
}

void CreateClaims(Context& context, const Replica& replica) {
  for (Json& claim : BuildClaims(context.job, replica.type, replica.index, context.options)) {
    const std::string name = base::StringAt(base::At(claim, "metadata"), "name");
    context.plan.actions.push_back(CreateClaim{name, std::move(claim)});
  }
}

// The template's own restart policy is overwritten; said once, with the first pod of the type.
void WarnOfTemplatePolicy(Context& context, const Replica& replica) {
  if (replica.index != 0) return;
  const Json& pod_template = context.job.spec.replicas->at(replica.type).pod_template;
  if (!pod_template.is_object() || !pod_template.contains("spec")) return;
  const Json& spec = pod_template["spec"];
  if (!spec.is_object() || !spec.contains("restartPolicy") || spec["restartPolicy"].is_null())
    return;
  AddEvent(context, "Warning", kReasonTemplateRestartPolicy,
           absl::StrCat("restartPolicy inside the pod template of ", replica.type,
                        " is overwritten by the replica's own restartPolicy"));
}

}  // namespace

size_t CreationRank(const std::string& type) {
  constexpr std::array<const char*, 5> kOrder = {kPs, kChief, kMaster, kWorker, kEvaluator};
  return std::find(kOrder.begin(), kOrder.end(), type) - kOrder.begin();
}

void PlanChildren(Context& context) {
  DeleteSurplus(context);
  AdoptOrphans(context);
  if (!PlanPodGroup(context)) return;
  PlanTaskTlsSecret(context);
  const std::string& job_name = context.job.metadata.name;
  const std::vector<const Replica*> ordered = InCreationOrder(context.replicas);
  CreateServices(context, ordered);
  if (IsGangLeaving(context)) return;
  const size_t last_rank = PlanStartupOrder(context);
  std::optional<base::ClusterSpec> cluster;  // built only if a pod needs it
  for (const Replica* replica : ordered) {
    const std::string name = ReplicaName(job_name, replica->type, replica->index);
    if (replica->state != ReplicaState::kMissing) continue;
    if (CreationRank(replica->type) > last_rank) break;  // as are those after it
    if (!cluster) cluster = ClusterOf(context.job, context.options);
    Json pod = BuildPod(context.job, replica->type, replica->index, *cluster, context.options);
    if (context.plan.status.task_tls) {
      AddTaskTls(pod, TaskTlsSecretName(context.job), context.options.task_tls_file_mode);
    }
    CreateClaims(context, *replica);
    context.plan.actions.push_back(
        CreatePod{name, LowerReplicaType(replica->type), replica->index, std::move(pod)});
    WarnOfTemplatePolicy(context, *replica);
  }
}

}  // namespace tfjob
