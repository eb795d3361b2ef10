#include "operator/reconcile/restart.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/failures.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

constexpr absl::Duration kMaxRestartDelay = absl::Minutes(5);

std::string RestartingMessage(const Context& context, const Replica& replica) {
  const bool was_pending = replica.rule != nullptr && replica.rule->pending_seconds;
  return absl::StrCat(
      "job ", context.job.metadata.name, " is restarting because ",
      was_pending ? CauseOf(replica, context) : absl::StrCat(replica.type, " replica(s) failed."));
}

// The restart goes on record in this pass, and its back-off begins.
void BeginDelay(Context& context) {
  for (Condition& condition : context.plan.status.conditions) {
    if (condition.type == kRestarting) condition.last_update_time = context.observed.now;
  }
  context.write_status_first = true;
}

// The restart of this pod is on record, so that it may be deleted now; if not, it is put on record.
bool ChargeOnce(Context& context, const Replica& replica) {
  TfJobStatus& status = context.plan.status;
  if (IsCharged(status, *replica.pod)) return true;
  status.charged_pods.push_back(replica.pod->uid);
  ++status.replica_statuses[replica.type].restarts;
  BeginDelay(context);
  return false;
}

// Puts a restart of the job as a whole on record: all pods that have not succeeded may be deleted.
// It counts once, however many pods have failed; the one that counts is remembered longest.
void ChargeJob(Context& context, const Replica& cause) {
  TfJobStatus& status = context.plan.status;
  const std::string message =
      absl::StrCat("job ", context.job.metadata.name, " is restarting as a whole because ",
                   CauseOf(cause, context));
  SetCondition(context, kRestarting, kTrue, kReasonRestarting, message);
  AddExitEvents(context, {&cause});
  AddEvent(context, "Warning", kReasonRestarting, message);
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.pod == nullptr || replica.state == ReplicaState::kSucceeded) continue;
    if (replica.pod == cause.pod || IsCharged(status, *replica.pod)) continue;
    status.charged_pods.push_back(replica.pod->uid);
  }
  status.charged_pods.push_back(cause.pod->uid);
  if (cause.rule->counts) ++status.replica_statuses[cause.type].restarts;
  BeginDelay(context);
}

// How long the replacement waits after its restart was put on record: not at all while each replica
// of the type has had one restart on average (the job as a whole: one), then 1 s, doubled with each
// round of restarts.
absl::Duration RestartDelay(Context& context, const std::string& type) {
  const int restarts = context.plan.status.replica_statuses[type].restarts;
  const int in_a_round =
      MayRestartJob(context.job) ? 1 : std::max(1, ReplicaCount(context.job.spec, type));
  const int rounds = (restarts - 1) / in_a_round;
  if (restarts < 1 || rounds < 1) return absl::ZeroDuration();
  return std::min(kMaxRestartDelay, absl::Seconds(1LL << std::min(rounds - 1, 20)));
}

// True while the replacement of a replica of this type has to wait.
bool MustWait(Context& context, const std::string& type) {
  for (const Condition& condition : context.plan.status.conditions) {
    if (condition.type != kRestarting) continue;
    const absl::Duration left =
        condition.last_update_time + RestartDelay(context, type) - context.observed.now;
    if (left <= absl::ZeroDuration()) return false;
    context.RequeueAfter(left);
    return true;
  }
  return false;
}

// Of the charged pods that are gone only the last ones are kept, so that the status stays small.
void ForgetGonePods(Context& context) {
  std::vector<std::string>& charged = context.plan.status.charged_pods;
  if (charged.size() <= kRememberedPods) return;
  std::set<std::string> present;
  for (const PodView& pod : context.observed.pods) present.insert(pod.uid);
  size_t surplus = charged.size() - kRememberedPods;
  std::erase_if(charged, [&](const std::string& uid) {
    if (surplus == 0 || present.contains(uid)) return false;
    --surplus;
    return true;
  });
}

void Delete(Context& context, const Replica& replica) {
  if (replica.pod->deletion_time) return;
  context.plan.actions.push_back(DeletePod{replica.pod->name, replica.pod->uid});
}

}  // namespace

bool IsCharged(const TfJobStatus& status, const PodView& pod) {
  return std::find(status.charged_pods.begin(), status.charged_pods.end(), pod.uid) !=
         status.charged_pods.end();
}

bool IsRetryableExitCode(int exit_code, const std::set<int>& retryable) {
  return retryable.empty() ? exit_code >= 128 : retryable.contains(exit_code);
}

const Replica* NewGangRestart(const Context& context) {
  const Replica* found = nullptr;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.rule == nullptr || replica.rule->action != kRestartJob) continue;
    if (replica.pod->deletion_time || IsCharged(context.plan.status, *replica.pod)) continue;
    if (found == nullptr || (replica.rule->counts && !found->rule->counts)) found = &replica;
  }
  return found;
}

bool IsGangLeaving(const Context& context) {
  if (context.options.compat_v19 || !MayRestartJob(context.job)) return false;
  const TfJobStatus& status = context.plan.status;
  const auto& wanted = context.replicas.wanted;
  const auto& surplus = context.replicas.surplus_pods;  // scaled down since
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const Replica& replica) {
                       return replica.pod != nullptr && replica.state != ReplicaState::kSucceeded &&
                              IsCharged(status, *replica.pod);
                     }) ||
         std::any_of(surplus.begin(), surplus.end(), [&](const PodView* pod) {
           return pod->phase != PodPhase::kSucceeded && IsCharged(status, *pod);
         });
}

ReplicaState ClassifyFailure(const PodView& pod, const FailureRule* rule,
                             const std::string& restart_policy, const PlanOptions& options) {
  if (rule != nullptr) {
    if (rule->action == kFailJob) return ReplicaState::kFailed;
    const bool counts = rule->action != kIgnore && rule->counts;
    return counts ? ReplicaState::kRetry : ReplicaState::kDisrupted;
  }
  if (restart_policy == kRestartNever) return ReplicaState::kFailed;
  if (!options.compat_v19 && IsDisrupted(pod)) return ReplicaState::kDisrupted;
  if (restart_policy == kRestartOnFailure || restart_policy == kRestartAlways) {
    return ReplicaState::kRetry;
  }
  if (restart_policy != kRestartExitCode) return ReplicaState::kFailed;
  return IsRetryableExitCode(pod.exit_code.value_or(kNoExitCode), options.retryable_exit_codes)
             ? ReplicaState::kRetry
             : ReplicaState::kFailed;
}

void AddExitEvents(Context& context, const std::vector<const Replica*>& replicas) {
  const std::string key = JobKey(context);
  const std::string name_space = key.substr(0, key.find('/'));
  std::map<int, std::vector<std::string>> by_code;
  for (const Replica* replica : replicas) {
    const std::optional<int>& code = replica->pod->exit_code;
    if (code) by_code[*code].push_back(absl::StrCat(name_space, ".", replica->pod->name));
  }
  for (const auto& [code, pods] : by_code) {
    AddEvent(context, "Normal", kReasonExitedWithCode,
             absl::StrCat("Pod: ", NameList(pods), " exited with code ", code));
  }
}

void PlanRestarts(Context& context) {
  ForgetGonePods(context);
  if (const Replica* cause = NewGangRestart(context)) return ChargeJob(context, *cause);
  bool gang_waits = false;
  std::map<std::string, std::vector<const Replica*>> begun;  // restarts that begin in this pass
  for (const Replica& replica : context.replicas.wanted) {
    const bool is_retry = replica.state == ReplicaState::kRetry;
    if (!is_retry && replica.state != ReplicaState::kDisrupted) continue;
    const bool is_charged = is_retry && !context.options.compat_v19;
    // With its charge it was said; where the job runs again, this pod is shown by an old list.
    const bool is_said = is_charged && IsCharged(context.plan.status, *replica.pod);
    const bool is_new = !is_said && SetCondition(context, kRestarting, kTrue, kReasonRestarting,
                                                 RestartingMessage(context, replica));
    if (is_charged && !ChargeOnce(context, replica)) {
      begun[replica.type].push_back(&replica);
      continue;
    }
    if (is_new && !is_charged) begun[replica.type].push_back(&replica);
    if (is_charged && MustWait(context, replica.type)) {
      gang_waits = true;
      continue;
    }
    Delete(context, replica);
  }
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.state == ReplicaState::kGangRestart && !gang_waits) Delete(context, replica);
  }
  for (const auto& [type, replicas] : begun) {
    AddExitEvents(context, replicas);
    AddEvent(context, "Warning", kReasonRestarting, RestartingMessage(context, *replicas.front()));
  }
}

}  // namespace tfjob
