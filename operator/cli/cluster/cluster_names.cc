#include "operator/cli/cluster/cluster_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

std::string TextAt(const TypedArguments& typed, const std::string& name) {
  const auto it = typed.find(name);
  return it == typed.end() ? "" : it->second;
}

}  // namespace

ConnectionFlags ConnectionOf(const TypedArguments& typed) {
  return {.kubeconfig = TextAt(typed, "kubeconfig"),
          .context = TextAt(typed, "context"),
          .ns = TextAt(typed, "namespace"),
          .call_timeout = kCompletionTimeout,
          .max_retries = 0};
}

std::vector<std::string> ClusterNames(const Cluster& cluster, NameKind kind,
                                      const TypedArguments& typed) {
  kube::ListOptions options;
  if (kind == NameKind::kPod) {
    options.label_selector = absl::StrCat(kLabelJobName, "=", TextAt(typed, "job"));
  }
  const absl::StatusOr<kube::ListPage> page =
      kind == NameKind::kJob   ? cluster.client->List(kube::kTfJobs, cluster.ns, options)
      : kind == NameKind::kPod ? cluster.client->List(kube::kPods, cluster.ns, options)
                               : cluster.client->List(kube::kNamespaces, "", options);
  std::vector<std::string> names;
  if (!page.ok()) return names;
  for (const Json& item : page->items) names.push_back(ObjectName(item));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tfjob
