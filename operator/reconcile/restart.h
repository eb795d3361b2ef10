// Restart policies: which failed pods are replaced, and how that is charged. PURE.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/context.h"

namespace tfjob {

// The exit code that v1.9 assumes for a failed pod whose tensorflow container never ended:
// retryable.
inline constexpr int kNoExitCode = 0xbeef;

// Charged pods that are gone and still remembered in the status (4 KB): more than the list of a
// lagging API server shows again.
inline constexpr size_t kRememberedPods = 100;

// The restart of this pod is on record: it may be deleted, and is never charged again.
bool IsCharged(const TfJobStatus& status, const PodView& pod);

// Worth a retry under policy ExitCode: the codes of `retryable`, or all from 128 on (killed by a
// signal) where that is empty.
bool IsRetryableExitCode(int exit_code, const std::set<int>& retryable = {});

// What becomes of a pod in phase Failed: kRetry, kDisrupted or kFailed. `rule`: what the failure
// policy says of it, nullptr where the restart policy decides.
ReplicaState ClassifyFailure(const PodView& pod, const FailureRule* rule,
                             const std::string& restart_policy, const PlanOptions& options);

// A failed pod that restarts the job as a whole, and is not on record yet; nullptr: there is none.
// One that counts comes first.
const Replica* NewGangRestart(const Context& context);

// Pods of before a restart of the job as a whole are still there: new ones have to wait.
bool IsGangLeaving(const Context& context);

// ExitedWithCode: one event for all pods that ended with the same code.
void AddExitEvents(Context& context, const std::vector<const Replica*>& replicas);

// Replaces failed pods, or all pods where a rule restarts the job as a whole, and sets Restarting,
// or sets Failed where policy ExitCode says so. Intent before effect: a pod is deleted only if its
// restart is in the observed status; a new restart is written to the status first, and no other
// action is planned in that pass.
void PlanRestarts(Context& context);

}  // namespace tfjob
