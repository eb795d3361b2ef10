#include "operator/reconcile/waiting.h"

#include "absl/strings/str_cat.h"
#include "operator/reconcile/replicas.h"

namespace tfjob {

std::map<std::string, WaitingFor> WaitingPods(const Observed& observed) {
  std::map<std::string, WaitingFor> by_reason;
  for (const PodView& pod : observed.pods) {
    if (pod.waiting_reason.empty() || pod.deletion_time || !IsOurs(pod, observed.job)) continue;
    auto& [first, count] = by_reason[pod.waiting_reason];
    if (first == nullptr || pod.name < first->name) first = &pod;
    ++count;
  }
  return by_reason;
}

std::string AndMore(const WaitingFor& pods) {
  return pods.count > 1 ? absl::StrCat(" (and ", pods.count - 1, " more pods)") : "";
}

}  // namespace tfjob
