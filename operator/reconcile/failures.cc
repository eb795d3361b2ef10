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

bool Matches(const FailureRule& rule, const std::string& type, const PodView& pod) {
  if (!rule.types.empty() && !rule.types.contains(type)) return false;
  if (rule.exit_codes) {
    return pod.exit_code.value_or(0) != 0 &&
           rule.exit_codes->values.contains(*pod.exit_code) == rule.exit_codes->in;
  }
  return rule.pod_conditions.empty() ||
         std::any_of(
             rule.pod_conditions.begin(), rule.pod_conditions.end(),
             [&](const auto& wanted) { return HasCondition(pod, wanted.first, wanted.second); });
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

const FailureRule* RuleFor(const TfJob& job, const std::string& type, const PodView& pod) {
  const std::vector<FailureRule>& rules = job.spec.run_policy.failure_rules;
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const FailureRule& rule) {
    return Matches(rule, type, pod);
  });
  return found == rules.end() ? nullptr : &*found;
}

bool MayRestartJob(const TfJob& job) {
  const std::vector<FailureRule>& rules = job.spec.run_policy.failure_rules;
  return std::any_of(rules.begin(), rules.end(),
                     [](const FailureRule& rule) { return rule.action == kRestartJob; });
}

std::string NameOf(const FailureRule& rule, const TfJob& job) {
  return absl::StrCat("rule ", &rule - job.spec.run_policy.failure_rules.data(),
                      " of spec.runPolicy.failurePolicy");
}

void NoteFailures(Context& context) {
  std::vector<PodFailure>& failures = context.plan.status.failures;
  for (const Replica& replica : context.replicas.wanted) {
    const PodView* pod = replica.pod;
    if (pod == nullptr || pod->phase != PodPhase::kFailed || pod->deletion_time) continue;
    const bool is_known = std::any_of(failures.begin(), failures.end(),
                                      [&](const PodFailure& f) { return f.uid == pod->uid; });
    if (!is_known) failures.push_back(FailureOf(*pod));
  }
  std::stable_sort(failures.begin(), failures.end(), IsEarlier);
  if (failures.size() > kFirstFailures + kLastFailures) {
    failures.erase(failures.begin() + kFirstFailures, failures.end() - kLastFailures);
  }
}

}  // namespace tfjob
