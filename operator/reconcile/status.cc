#include "operator/reconcile/status.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "operator/api/names.h"
#include "operator/reconcile/children.h"

namespace tfjob {
namespace {

bool Replaces(const std::string& added, const std::string& existing) {
  return added == existing || (added == kRunning && existing == kRestarting) ||
         (added == kRestarting && existing == kRunning);
}

// The part of `succeeded_indexes` that the spec still asks for.
int CountBelow(const std::set<int>& indexes, int replicas) {
  return static_cast<int>(std::distance(indexes.begin(), indexes.lower_bound(replicas)));
}

}  // namespace

const Condition* FindCondition(const TfJobStatus& status, const std::string& type) {
  for (const Condition& condition : status.conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool HasCondition(const TfJobStatus& status, const std::string& type) {
  const Condition* condition = FindCondition(status, type);
  return condition != nullptr && condition->status == kTrue;
}

bool IsFinished(const TfJobStatus& status) {
  return HasCondition(status, kSucceeded) || HasCondition(status, kFailed);
}

bool SetCondition(Context& context, const std::string& type, const std::string& status,
                  const std::string& reason, const std::string& message) {
  TfJobStatus& out = context.plan.status;
  const bool is_final = context.options.compat_v19 ? HasCondition(out, kFailed) : IsFinished(out);
  if (is_final) return false;
  const Condition* current = FindCondition(out, type);
  if (current != nullptr && current->status == status && current->reason == reason) return false;
  const absl::Time now = context.observed.now;
  Condition condition{type, status, reason, message, now, now};
  if (current != nullptr && current->status == status) {
    condition.last_transition_time = current->last_transition_time;
  }
  std::erase_if(out.conditions, [&](const Condition& c) { return Replaces(type, c.type); });
  if (type == kSucceeded || type == kFailed) {
    for (Condition& other : out.conditions) {
      // An end ends the restart, too; v1.9 leaves the condition standing.
      if (other.type == kRestarting && !context.options.compat_v19) {
        other = {kRunning,
                 kTrue,
                 kReasonRunning,
                 absl::StrCat("TFJob ", JobKey(context), " is running."),
                 now,
                 now};
      }
      if (other.type != kRunning || other.status == kFalse) continue;
      other.status = kFalse;
      other.last_update_time = other.last_transition_time = now;
    }
  }
  out.conditions.push_back(std::move(condition));
  return true;
}

void RemoveCondition(TfJobStatus& status, const std::string& type) {
  std::erase_if(status.conditions, [&](const Condition& c) { return c.type == type; });
}

bool MarkCreated(Context& context) {
  if (FindCondition(context.plan.status, kCreated) != nullptr) return false;
  return SetCondition(context, kCreated, kTrue, kReasonCreated,
                      absl::StrCat("TFJob ", context.job.metadata.name, " is created."));
}

void Finish(Context& context, const std::string& condition, const std::string& message,
            const std::string& event_type) {
  const std::string reason = condition == kSucceeded ? kReasonSucceeded : kReasonFailed;
  if (!SetCondition(context, condition, kTrue, reason, message)) return;
  AddEvent(context, event_type, reason, message);
  if (!context.plan.status.completion_time) {
    context.plan.status.completion_time = context.observed.now;
  }
  context.write_status_first = true;
}

void NoteProgress(Context& context) {
  const std::optional<Progress>& read = context.observed.progress;
  std::optional<ProgressStatus>& known = context.plan.status.progress;
  if (!read || (known && known->read == *read)) return;
  const absl::Time now = context.observed.now;
  const bool same_step = known && known->read.global_step == read->global_step;
  known = {.read = *read,
           .last_update_time = now,
           .last_step_time = same_step ? known->last_step_time : now};
}

void CountReplicas(Context& context) {
  for (const auto& [type, spec] : *context.job.spec.replicas) {
    ReplicaStatus& status = context.plan.status.replica_statuses[type];
    status.active = status.succeeded = status.failed = status.ready = 0;
  }
  for (const Replica& replica : context.replicas.wanted) {
    ReplicaStatus& status = context.plan.status.replica_statuses[replica.type];
    switch (replica.state) {
      case ReplicaState::kRunning:
        ++status.active;
        status.ready += replica.pod->ready && !context.options.compat_v19;
        break;
      case ReplicaState::kSucceeded:
        if (context.options.compat_v19) {
          ++status.succeeded;
        } else {
          status.succeeded_indexes.insert(replica.index);
        }
        break;
      case ReplicaState::kRetry:
      case ReplicaState::kDisrupted:
      case ReplicaState::kFailed:
        ++status.failed;
        break;
      case ReplicaState::kGangRestart:
        status.active += replica.pod->phase == PodPhase::kRunning;
        status.failed += replica.pod->phase == PodPhase::kFailed;
        break;
      case ReplicaState::kTerminating:
        // v1.9 counts a running pod that is being deleted as failed.
        if (context.options.compat_v19 && replica.pod->phase == PodPhase::kRunning) ++status.failed;
        break;
      default:
        break;
    }
  }
  if (context.options.compat_v19) return;
  for (const auto& [type, spec] : *context.job.spec.replicas) {
    ReplicaStatus& status = context.plan.status.replica_statuses[type];
    status.succeeded = CountBelow(status.succeeded_indexes, spec.replicas.value_or(1));
    if (type == kWorker)
      status.selector = SelectorOf(context.job, type);  // of the scale subresource
  }
}

void AddEvent(Context& context, const std::string& type, const std::string& reason,
              const std::string& message) {
  context.plan.events.push_back({type, reason, message});
}

std::string NameList(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 10;
  if (names.size() <= kMaxNames) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kMaxNames, ", "), " and ",
                      names.size() - kMaxNames, " more");
}

std::string JobKey(const Context& context) {
  const std::string& name_space = context.job.metadata.namespace_name;
  return absl::StrCat(name_space.empty() ? context.options.default_namespace : name_space, "/",
                      context.job.metadata.name);
}

}  // namespace tfjob
