#include "operator/pod_groups.h"

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

int Whole(const Json& value) { return value.is_number_integer() ? value.get<int>() : 0; }

PodGroupSpec SpecOf(const Json& json) {
  PodGroupSpec spec;
  spec.min_member = Whole(base::At(json, "minMember"));
  spec.queue = base::StringAt(json, "queue");
  spec.priority_class = base::StringAt(json, "priorityClassName");
  if (const Json& resources = base::At(json, "minResources"); resources.is_object()) {
    for (const auto& [name, quantity] : resources.items()) {
      spec.min_resources[name] = base::Scalar(quantity);
    }
  }
  if (const Json& seconds = base::At(json, "scheduleTimeoutSeconds"); seconds.is_number_integer()) {
    spec.schedule_timeout_seconds = Whole(seconds);
  }
  return spec;
}

// Volcano says so in a condition.
std::string WhyUnschedulable(const Json& status) {
  for (const Json& condition : base::ArrayAt(status, "conditions")) {
    if (base::StringAt(condition, "type") != "Unschedulable") continue;
    if (base::StringAt(condition, "status") == kTrue) return base::StringAt(condition, "message");
  }
  return "";
}

}  // namespace

kube::Resource PodGroupsOf(const std::string& gang_scheduler) {
  if (gang_scheduler.empty()) return {};
  return {gang_scheduler == kVolcano ? kVolcanoApiVersion : kSchedulerPluginsApiVersion,
          kPodGroupPlural};
}

PodGroupView PodGroupViewOf(const Json& pod_group) {
  const PodView meta = PodViewOf(pod_group);  // of another kind: name, owner, deletion
  const Json& status = base::At(pod_group, "status");
  return {.name = meta.name,
          .uid = meta.uid,
          .owner_uid = meta.owner_uid,
          .deletion_time = meta.deletion_time,
          .phase = base::StringAt(status, "phase"),
          .message = WhyUnschedulable(status),
          .spec = SpecOf(base::At(pod_group, "spec"))};
}

absl::Status CheckPodGroupsServed(kube::Client& client, const std::string& gang_scheduler,
                                  const std::string& ns) {
  const kube::Resource resource = PodGroupsOf(gang_scheduler);
  const absl::StatusOr<kube::ListPage> page = client.List(resource, ns, {.limit = 1});
  if (!absl::IsNotFound(page.status())) return absl::OkStatus();
  const std::string kind(resource.group_version);
  return absl::InvalidArgumentError(
      absl::StrCat("--gang-scheduler-name=", gang_scheduler,
                   " needs PodGroups, and the API server knows none of ", kind, ": install ",
                   gang_scheduler == kVolcano ? "Volcano" : "that scheduler and its CRDs",
                   ", or leave the flag out"));
}

}  // namespace tfjob
