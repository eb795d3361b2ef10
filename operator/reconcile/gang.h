// A job as a gang: its PodGroup, which a gang scheduler admits and places as a whole, what ties
// pods to it, and whether they have to wait for it. Two kinds of PodGroup: Volcano's, and that of
// scheduler-plugins for every other scheduler. PURE.
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/context.h"

namespace tfjob {

// What the job asks for, by its schedulingPolicy or else as a whole. `job` has its defaults.
PodGroupSpec PodGroupSpecOf(const TfJob& job, const PlanOptions& options);

// Its PodGroup: named and labelled as the job, with its annotations, as v1.9 makes it.
Json BuildPodGroup(const TfJob& job, const PlanOptions& options);

// The merge patch that makes `wanted` of the spec `current`; {} where they agree. The queue in
// which a PodGroup stands is kept.
Json PodGroupPatch(const PodGroupSpec& current, const PodGroupSpec& wanted,
                   const PlanOptions& options);

// Ties the pod of one replica to the gang; its own schedulerName stays.
void JoinGang(Json& pod, const TfJob& job, const std::string& type, const PlanOptions& options);

// "PS (mine)": the types whose template names another scheduler than the gang's.
std::vector<std::string> TypesOfOtherSchedulers(const TfJob& job, const PlanOptions& options);

// No pod is made now: Volcano admits jobs before their pods (a PodGroup leaves the phase Pending
// then); and the PodGroup of before a suspension may still be on its way out.
bool MustWaitForPodGroup(const Context& context);

// Makes the PodGroup or brings it up to date; false if children are not to be made yet.
bool PlanPodGroup(Context& context);

// The job needs no pods any more: deletes its PodGroup.
void DissolveGang(Context& context);

// The condition Queued, its event and plan.waits_for, while pods that are missing wait.
void UpdateQueued(Context& context);

}  // namespace tfjob
