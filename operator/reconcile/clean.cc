#include "operator/reconcile/clean.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using Place = std::pair<std::string, int>;

bool IsAlive(const PodView& pod) {
  return pod.phase == PodPhase::kRunning || pod.phase == PodPhase::kPending || pod.sidecar_runs;
}

void Delete(Context& context, const PodView& pod) {
  if (!pod.deletion_time) context.plan.actions.push_back(DeletePod{pod.name, pod.uid});
}

void Delete(Context& context, const ServiceView& service) {
  if (service.deletion_time) return;
  context.plan.actions.push_back(DeleteService{service.name, service.uid});
}

// One call by the label would do for all of these: each of ours that is to go carries it, and no
// stranger does.
template <typename View>
bool CanGoByLabel(const std::vector<View>& views, const TfJob& job) {
  return std::all_of(views.begin(), views.end(), [&](const View& view) {
    const bool labelled = view.job_uid == job.metadata.uid;
    return IsOurs(view, job) ? labelled || view.deletion_time : !labelled;
  });
}

}  // namespace

void PlanCleanUp(Context& context) {
  bool keeps_pods = false;
  bool keeps_services = false;
  std::set<Place> going_on;  // of pods that are left running
  std::set<Place> deleted;
  for (const PodView& pod : context.observed.pods) {
    if (!IsOurs(pod, context.job)) continue;
    const std::string& policy = CleanPolicyOf(context.job.spec, CanonicalReplicaType(pod.type));
    const bool keep = policy == kCleanNone || (policy == kCleanRunning && !IsAlive(pod));
    keeps_pods = keeps_pods || keep;
    if (keep && IsAlive(pod)) going_on.insert({pod.type, pod.index});
    if (keep) continue;
    deleted.insert({pod.type, pod.index});
    Delete(context, pod);
  }
  for (const ServiceView& service : context.observed.services) {
    if (!IsOurs(service, context.job)) continue;
    const Place place{service.type, service.index};
    // v1.9 leaves the services of pods that it keeps, though nobody answers there any more.
    const bool goes_on =
        IsSubdomainService(service, context.job) ? !going_on.empty() : going_on.contains(place);
    const bool keep = context.options.compat_v19 ? !deleted.contains(place) : goes_on;
    keeps_services = keeps_services || keep;
    if (!keep) Delete(context, service);
  }
  context.plan.deletes_all_pods = !keeps_pods && CanGoByLabel(context.observed.pods, context.job);
  context.plan.deletes_all_services =
      !keeps_services && CanGoByLabel(context.observed.services, context.job);
}

void DeleteEverything(Context& context) {
  for (const PodView& pod : context.observed.pods) {
    if (IsOurs(pod, context.job)) Delete(context, pod);
  }
  for (const ServiceView& service : context.observed.services) {
    if (IsOurs(service, context.job)) Delete(context, service);
  }
}

}  // namespace tfjob
