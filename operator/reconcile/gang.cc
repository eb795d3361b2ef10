#include "operator/reconcile/gang.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/resources.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

constexpr char kDefaultQueue[] = "default";
constexpr char kPhasePending[] = "Pending";

bool IsGang(const PlanOptions& options) { return !options.gang_scheduler.empty(); }
bool IsVolcano(const PlanOptions& options) { return options.gang_scheduler == kVolcano; }

int TotalRequired(const TfJob& job) {
  int total = 0;
  for (const auto& [type, replica] : *job.spec.replicas) total += RequiredReplicas(replica);
  return total;
}

const PodGroupView* Find(const Context& context) {
  for (const PodGroupView& group : context.observed.pod_groups) {
    if (group.name == context.job.metadata.name && group.owner_uid == context.job.metadata.uid) {
      return &group;
    }
  }
  return nullptr;
}

Json SpecToJson(const PodGroupSpec& spec) {
  Json out = {{"minMember", spec.min_member}};
  if (!spec.queue.empty()) out["queue"] = spec.queue;
  if (!spec.priority_class.empty()) out["priorityClassName"] = spec.priority_class;
  if (!spec.min_resources.empty()) out["minResources"] = spec.min_resources;
  if (spec.schedule_timeout_seconds) {
    out["scheduleTimeoutSeconds"] = *spec.schedule_timeout_seconds;
  }
  return out;
}

Json ResourcesPatch(const Resources& current, const Resources& wanted) {
  if (wanted.empty()) return nullptr;
  Json patch = wanted;
  for (const auto& [name, quantity] : current) {
    if (!wanted.contains(name)) patch[name] = nullptr;
  }
  return patch;
}

void WarnOfOtherSchedulers(Context& context) {
  const std::vector<std::string> types = TypesOfOtherSchedulers(context.job, context.options);
  if (types.empty()) return;
  AddEvent(context, "Warning", kReasonTemplateScheduler,
           absl::StrCat("Another scheduler is specified when gang-scheduling is enabled and it "
                        "will not be overwritten: ",
                        absl::StrJoin(types, ", ")));
}

bool LacksPods(const Context& context) {
  const std::vector<Replica>& wanted = context.replicas.wanted;
  return std::any_of(wanted.begin(), wanted.end(), [](const Replica& replica) {
    return replica.state == ReplicaState::kMissing;
  });
}

// With what the scheduler says about it now, for people who ask.
std::string WaitsFor(const Context& context) {
  const PodGroupView* group = Find(context);
  std::string out = absl::StrCat("its PodGroup ", JobKey(context));
  if (group == nullptr) return absl::StrCat(out, " to be made");
  if (group->deletion_time) return absl::StrCat(out, " of before to be gone");
  absl::StrAppend(&out, " (minMember ", group->spec.min_member, ") to be admitted by ",
                  context.options.gang_scheduler);
  if (group->phase.empty()) return absl::StrCat(out, ", which has not looked at it yet");
  if (!group->message.empty()) absl::StrAppend(&out, ": ", group->message);
  return out;
}

}  // namespace

PodGroupSpec PodGroupSpecOf(const TfJob& job, const PlanOptions& options) {
  const SchedulingPolicy policy =
      job.spec.run_policy.scheduling_policy.value_or(SchedulingPolicy());
  PodGroupSpec spec;
  spec.min_member = policy.min_available.value_or(TotalRequired(job));
  spec.min_resources = policy.min_resources;
  if (spec.min_resources.empty()) spec.min_resources = RequestsOf(job, spec.min_member);
  if (IsVolcano(options)) {
    spec.queue = policy.queue.empty() ? kDefaultQueue : policy.queue;
    spec.priority_class = policy.priority_class;
  } else {
    spec.schedule_timeout_seconds = policy.schedule_timeout_seconds;
  }
  return spec;
}

Json BuildPodGroup(const TfJob& job, const PlanOptions& options) {
  Json meta = {
      {"name", job.metadata.name},
      {"namespace", NamespaceOf(job, options)},
      {"labels", {{kLabelOperatorName, kOperatorName}, {kLabelJobName, job.metadata.name}}},
      {"ownerReferences", OwnersOf(job)}};
  if (!job.metadata.annotations.empty()) meta["annotations"] = job.metadata.annotations;
  return {{"apiVersion", IsVolcano(options) ? kVolcanoApiVersion : kSchedulerPluginsApiVersion},
          {"kind", kPodGroupKind},
          {"metadata", std::move(meta)},
          {"spec", SpecToJson(PodGroupSpecOf(job, options))}};
}

Json PodGroupPatch(const PodGroupSpec& current, const PodGroupSpec& wanted,
                   const PlanOptions& options) {
  Json patch = Json::object();
  if (current.min_member != wanted.min_member) patch["minMember"] = wanted.min_member;
  if (!SameResources(current.min_resources, wanted.min_resources)) {
    patch["minResources"] = ResourcesPatch(current.min_resources, wanted.min_resources);
  }
  if (IsVolcano(options)) {
    if (current.queue.empty()) patch["queue"] = wanted.queue;
    if (current.priority_class != wanted.priority_class) {
      patch["priorityClassName"] =
          wanted.priority_class.empty() ? Json(nullptr) : Json(wanted.priority_class);
    }
  } else if (current.schedule_timeout_seconds != wanted.schedule_timeout_seconds) {
    patch["scheduleTimeoutSeconds"] =
        wanted.schedule_timeout_seconds ? Json(*wanted.schedule_timeout_seconds) : Json(nullptr);
  }
  return patch;
}

void JoinGang(Json& pod, const TfJob& job, const std::string& type, const PlanOptions& options) {
  if (!IsGang(options)) return;
  Json& meta = pod["metadata"];
  if (IsVolcano(options)) {
    Json& annotations = ObjectAt(meta, "annotations");
    annotations[kAnnotationGroupName] = job.metadata.name;
    annotations[kAnnotationTaskSpec] = LowerReplicaType(type);
  } else {
    ObjectAt(meta, "labels")[kLabelPodGroup] = job.metadata.name;
  }
  Json& spec = pod["spec"];
  if (base::StringAt(spec, "schedulerName").empty()) {
    spec["schedulerName"] = options.gang_scheduler;
  }
}

std::vector<std::string> TypesOfOtherSchedulers(const TfJob& job, const PlanOptions& options) {
  std::vector<std::string> types;
  for (const auto& [type, replica] : *job.spec.replicas) {
    const std::string own = base::StringAt(base::At(replica.pod_template, "spec"), "schedulerName");
    if (own.empty() || own == options.gang_scheduler) continue;
    types.push_back(absl::StrCat(type, " (", own, ")"));
  }
  return types;
}

bool MustWaitForPodGroup(const Context& context) {
  if (!IsGang(context.options)) return false;
  const PodGroupView* group = Find(context);
  if (group != nullptr && group->deletion_time) return true;
  if (!IsVolcano(context.options)) return false;
  return group == nullptr || group->phase.empty() || group->phase == kPhasePending;
}

bool PlanPodGroup(Context& context) {
  if (!IsGang(context.options)) return true;
  const PodGroupView* group = Find(context);
  if (group == nullptr) {
    context.plan.actions.push_back(
        CreatePodGroup{context.job.metadata.name, BuildPodGroup(context.job, context.options)});
    WarnOfOtherSchedulers(context);
  } else if (!group->deletion_time) {
    Json patch =
        PodGroupPatch(group->spec, PodGroupSpecOf(context.job, context.options), context.options);
    if (!patch.empty()) {
      context.plan.actions.push_back(UpdatePodGroup{group->name, group->uid, std::move(patch)});
    }
  }
  return !MustWaitForPodGroup(context);
}

void DissolveGang(Context& context) {
  const PodGroupView* group = Find(context);
  if (group == nullptr || group->deletion_time) return;
  context.plan.actions.push_back(DeletePodGroup{group->name, group->uid});
}

void UpdateQueued(Context& context) {
  TfJobStatus& status = context.plan.status;
  const bool waits = !IsFinished(status) && !context.job.spec.run_policy.suspend &&
                     MustWaitForPodGroup(context) && LacksPods(context);
  if (!waits) {
    RemoveCondition(status, kQueued);
    return;
  }
  context.plan.waits_for = WaitsFor(context);
  if (context.options.compat_v19) return;
  const std::string message =
      absl::StrCat("TFJob ", JobKey(context), " is queued: its pods are made once ",
                   context.options.gang_scheduler, " admits its PodGroup.");
  if (SetCondition(context, kQueued, kTrue, kReasonPodGroupPending, message)) {
    AddEvent(context, "Normal", kReasonPodGroupPending, message);
  }
}

}  // namespace tfjob
