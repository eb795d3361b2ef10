// Which nodes a pod would fit on by what they are: their labels, their taints, and all that they
// have (not what is free of it, which the scheduler alone knows).
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_read.h"
#include "operator/api/pod_requests.h"
#include "operator/api/quantity.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

bool HasAllLabels(const Json& node, const Json& selector) {
  if (!selector.is_object()) return true;
  const Json& labels = base::At(node, "metadata", "labels");
  for (const auto& [key, value] : selector.items()) {
    if (base::At(labels, key) != value) return false;
  }
  return true;
}

bool HasAsMuch(const Json& node, const Amounts& requests) {
  const Json& allocatable = base::At(node, "status", "allocatable");
  for (const auto& [name, amount] : requests) {
    const double has = ParseQuantity(base::Scalar(base::At(allocatable, name))).value_or(0);
    if (amount > has) return false;
  }
  return true;
}

bool Tolerates(const Json& pod, const Json& taint) {
  const std::string key = base::StringAt(taint, "key");
  for (const Json& one : base::ArrayAt(base::At(pod, "spec"), "tolerations")) {
    const std::string effect = base::StringAt(one, "effect");
    if (!effect.empty() && effect != base::StringAt(taint, "effect")) continue;
    const bool any_value = base::StringAt(one, "operator") == "Exists";
    const std::string wanted = base::StringAt(one, "key");
    if (wanted != key && !(wanted.empty() && any_value)) continue;
    if (any_value || base::StringAt(one, "value") == base::StringAt(taint, "value")) return true;
  }
  return false;
}

// Taints that Kubernetes itself sets say that the node is no place for now, or not for jobs.
bool IsOfKubernetes(const Json& taint) {
  const std::string key = base::StringAt(taint, "key");
  return absl::StartsWith(key, "node.kubernetes.io/") ||
         absl::StartsWith(key, "node-role.kubernetes.io/");
}

std::string TaintText(const Json& taint) {
  const std::string value = base::StringAt(taint, "value");
  return absl::StrCat(base::StringAt(taint, "key"), value.empty() ? "" : "=", value, ":",
                      base::StringAt(taint, "effect"));
}

}  // namespace

std::string TaintsThatKeepItOff(const Json& pod, const std::vector<Json>& nodes) {
  const Json& affinity = base::At(base::At(pod, "spec"), "affinity", "nodeAffinity");
  if (base::At(affinity, "requiredDuringSchedulingIgnoredDuringExecution").is_object()) {
    return "";  // not judged here
  }
  const Amounts requests = RequestsOfPod(pod);
  std::vector<std::string> tainted;
  for (const Json& node : nodes) {
    if (!HasAllLabels(node, base::At(pod, "spec", "nodeSelector")) || !HasAsMuch(node, requests)) {
      continue;
    }
    std::vector<std::string> taints;
    bool of_kubernetes = false;
    for (const Json& taint : base::ArrayAt(base::At(node, "spec"), "taints")) {
      const bool counts = base::StringAt(taint, "effect") != "PreferNoSchedule";
      if (!counts || Tolerates(pod, taint)) continue;
      of_kubernetes = of_kubernetes || IsOfKubernetes(taint);
      taints.push_back(TaintText(taint));
    }
    if (of_kubernetes) continue;
    if (taints.empty()) return "";  // here it would fit if there were room
    tainted.push_back(absl::StrCat(ObjectName(node), ": ", absl::StrJoin(taints, ", ")));
  }
  constexpr size_t kMaxNodes = 3;
  const bool more = tainted.size() > kMaxNodes;
  if (more) tainted.resize(kMaxNodes);
  return absl::StrCat(absl::StrJoin(tainted, "; "), more ? "; …" : "");
}

}  // namespace tfjob
