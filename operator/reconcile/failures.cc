#include "operator/reconcile/failures.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

// status.reason of pods that the cluster, not the program, ended.
constexpr std::array<const char*, 6> kDisruptionReasons = {
    "Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"};

bool HasCondition(const PodView& pod, const std::string& type, const std::string& status) {
  if (type == kDisruptionTarget && status == kTrue && IsDisrupted(pod)) return true;
  const auto found = pod.failed_conditions.find(type);
  return found != pod.failed_conditions.end() && found->second == status;
}

bool SpeaksOf(const FailureRule& rule, const std::string& type) {
  return rule.types.empty() || rule.types.contains(type);
}

// How long the pod may still be Pending; nullopt: for ever, as far as this rule goes.
std::optional<absl::Duration> PendingLeft(const FailureRule& rule, const std::string& type,
                                          const PodView& pod, absl::Time now) {
  if (!rule.pending_seconds || !SpeaksOf(rule, type)) return std::nullopt;
  if (pod.phase != PodPhase::kPending || !pod.creation_time || pod.deletion_time) {
    return std::nullopt;
  }
  return *pod.creation_time + absl::Seconds(*rule.pending_seconds) - now;
}

bool Matches(const FailureRule& rule, const std::string& type, const PodView& pod, absl::Time now) {
  if (rule.pending_seconds || pod.phase == PodPhase::kPending) {
    return PendingLeft(rule, type, pod, now).value_or(absl::InfiniteDuration()) <=
           absl::ZeroDuration();
  }
  if (!SpeaksOf(rule, type)) return false;
  if (rule.exit_codes) {
    return pod.exit_code.value_or(0) != 0 &&
           rule.exit_codes->values.contains(*pod.exit_code) == rule.exit_codes->in;
  }
  return rule.pod_conditions.empty() ||
         std::any_of(
             rule.pod_conditions.begin(), rule.pod_conditions.end(),
             [&](const auto& wanted) { return HasCondition(pod, wanted.first, wanted.second); });
}

// Of a pod that never ran: why, in the cluster's words.
PodFailure PendingFailureOf(const PodView& pod, absl::Time now) {
  return {.pod = pod.name,
          .uid = pod.uid,
          .reason = pod.waiting_reason.empty() ? "Pending" : pod.waiting_reason,
          .message = pod.waiting_message,
          .time = now};
}

PodFailure FailureOf(const PodView& pod) {
  return {.pod = pod.name,
          .uid = pod.uid,
          .exit_code = pod.exit_code,
          .reason = pod.end_reason.empty() ? pod.reason : pod.end_reason,
          .message = pod.end_message,
          .time = pod.end_time};
}

// By time; one without (its container never ended) counts as early, so that the order never
// changes.
bool IsEarlier(const PodFailure& a, const PodFailure& b) {
  return std::tuple(a.time, a.pod, a.uid) < std::tuple(b.time, b.pod, b.uid);
}

}  // namespace

bool IsDisrupted(const PodView& pod) {
  return pod.disrupted || std::any_of(kDisruptionReasons.begin(), kDisruptionReasons.end(),
                                      [&](const char* reason) { return pod.reason == reason; });
}

const FailureRule* RuleFor(const TfJob& job, const std::string& type, const PodView& pod,
                           absl::Time now) {
  const std::vector<FailureRule>& rules = job.spec.run_policy.failure_rules;
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const FailureRule& rule) {
    return Matches(rule, type, pod, now);
  });
  return found == rules.end() ? nullptr : &*found;
}

void AwaitPendingPods(Context& context) {
  for (const FailureRule& rule : context.job.spec.run_policy.failure_rules) {
    if (!rule.pending_seconds) continue;
    for (const Replica& replica : context.replicas.wanted) {
      if (replica.pod == nullptr) continue;
      const std::optional<absl::Duration> left =
          PendingLeft(rule, replica.type, *replica.pod, context.observed.now);
      if (left && *left > absl::ZeroDuration()) context.RequeueAfter(*left);
    }
  }
}

bool MayRestartJob(const TfJob& job) {
  if (job.spec.progress && job.spec.progress->stall_action == kRestartJob) return true;
  const std::vector<FailureRule>& rules = job.spec.run_policy.failure_rules;
  return std::any_of(rules.begin(), rules.end(),
                     [](const FailureRule& rule) { return rule.action == kRestartJob; });
}

std::string CauseOf(const Replica& replica, const Context& context) {
  const PodView& pod = *replica.pod;
  if (replica.is_stalled) {
    return absl::StrCat("pod ", pod.name, " made no step for ",
                        *context.job.spec.progress->stall_seconds,
                        " s: stallAction of spec.progress");
  }
  const FailureRule* first = context.job.spec.run_policy.failure_rules.data();
  const std::string name =
      absl::StrCat("rule ", replica.rule - first, " of spec.runPolicy.failurePolicy");
  if (!replica.rule->pending_seconds) return absl::StrCat("pod ", pod.name, " failed: ", name);
  const PodFailure pending = PendingFailureOf(pod, context.observed.now);
  return absl::StrCat("pod ", pod.name, " was pending for ", *replica.rule->pending_seconds, " s (",
                      pending.reason, pending.message.empty() ? "" : ": ", pending.message,
                      "): ", name);
}

void NoteFailures(Context& context) {
  std::vector<PodFailure>& failures = context.plan.status.failures;
  for (const Replica& replica : context.replicas.wanted) {
    const PodView* pod = replica.pod;
    if (pod == nullptr || pod->deletion_time) continue;
    const bool is_pending = pod->phase == PodPhase::kPending && replica.rule != nullptr;
    if (pod->phase != PodPhase::kFailed && !is_pending) continue;
    const bool is_known = std::any_of(failures.begin(), failures.end(),
                                      [&](const PodFailure& f) { return f.uid == pod->uid; });
    if (is_known) continue;
    failures.push_back(is_pending ? PendingFailureOf(*pod, context.observed.now) : FailureOf(*pod));
  }
  std::stable_sort(failures.begin(), failures.end(), IsEarlier);
  if (failures.size() > kFirstFailures + kLastFailures) {
    failures.erase(failures.begin() + kFirstFailures, failures.end() - kLastFailures);
  }
}

}  // namespace tfjob
