// Failed pods: which rule of spec.runPolicy.failurePolicy speaks of one, and what the status says
// of them. PURE.
#pragma once

#include <string>

#include "operator/reconcile/context.h"

namespace tfjob {

// How many of the first failures, and of the last, the status keeps.
inline constexpr size_t kFirstFailures = 3;
inline constexpr size_t kLastFailures = 1;

// Ended by the cluster and not by its program: evicted, pre-empted, its node lost.
bool IsDisrupted(const PodView& pod);

// The first rule that matches the failed pod, or the one that has been Pending for too long;
// nullptr: none does.
const FailureRule* RuleFor(const TfJob& job, const std::string& type, const PodView& pod,
                           absl::Time now);

// Looks again when the first pod will have been Pending for too long.
void AwaitPendingPods(Context& context);

// A failed pod may restart the job as a whole.
bool MayRestartJob(const TfJob& job);

// What is wrong with the pod of a replica that has a rule, and which rule decides about it: "pod
// j-worker-0 failed: rule 2 of spec.runPolicy.failurePolicy", counted from 0 as in paths of fields.
std::string CauseOf(const Replica& replica, const Context& context);

// Puts pods that failed, or that a rule takes for failed, into status.failures, each once.
void NoteFailures(Context& context);

}  // namespace tfjob
