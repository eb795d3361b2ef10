#include "operator/reconcile/success.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/api/success_policy.h"
#include "operator/reconcile/failures.h"
#include "operator/reconcile/restart.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

bool HasChief(const Context& context) {
  return context.job.spec.replicas->contains(kChief) ||
         context.job.spec.replicas->contains(kMaster);
}

// Chief or Master where there is one, else Worker.
bool Decides(const Context& context, const std::string& type) {
  return HasChief(context) ? IsChiefLike(type) : type == kWorker;
}

// Worker 0 has ended well: its pod succeeded with exit code 0, or is gone and on record as
// succeeded.
bool WorkerZeroDone(const Context& context) {
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.type != kWorker || replica.index != 0) continue;
    if (replica.state != ReplicaState::kSucceeded) return false;
    return replica.pod == nullptr || replica.pod->exit_code == 0;
  }
  return false;
}

std::set<int> SucceededIndexes(const Context& context, const std::string& type) {
  std::set<int> indexes;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.type == type && replica.state == ReplicaState::kSucceeded) {
      indexes.insert(replica.index);
    }
  }
  return indexes;
}

bool Holds(const Context& context, const SuccessRule& rule) {
  return std::all_of(rule.types.begin(), rule.types.end(), [&](const std::string& type) {
    return Holds(rule, SucceededIndexes(context, type), ReplicaCount(context.job.spec, type));
  });
}

// Types of one's own decide nothing, unless a rule says so.
bool IsJudged(const Context& context, const std::string& type) {
  const std::vector<SuccessRule>& rules = context.job.spec.run_policy.success_rules;
  return IsKnownReplicaType(type) ||
         std::any_of(rules.begin(), rules.end(),
                     [&](const SuccessRule& rule) { return rule.types.contains(type); });
}

// Of the replicas that end by themselves: parameter servers do when others have. Of none, too,
// where the job has been scaled down to none.
bool AllButPsAre(const Context& context, const std::set<ReplicaState>& states) {
  const auto ends = [&](const std::string& type) { return type != kPs && IsJudged(context, type); };
  const auto& types = *context.job.spec.replicas;
  const std::vector<Replica>& wanted = context.replicas.wanted;
  return std::any_of(types.begin(), types.end(),
                     [&](const auto& type) { return ends(type.first); }) &&
         std::all_of(wanted.begin(), wanted.end(), [&](const Replica& replica) {
           return !ends(replica.type) || states.contains(replica.state);
         });
}

bool HasSucceeded(const Context& context, const std::string& type) {
  const int succeeded = context.plan.status.replica_statuses.at(type).succeeded;
  if (ReplicaCount(context.job.spec, type) == succeeded) return true;
  return type == kWorker && !HasChief(context) &&
         context.job.spec.success_policy != kSuccessAllWorkers && WorkerZeroDone(context);
}

// Every worker has ended: a failed dynamic worker is not replaced, so waiting longer would be for
// ever.
bool AllWorkersOver(const Context& context) {
  const int over = context.replicas.Count(kWorker, ReplicaState::kSucceeded) +
                   context.replicas.Count(kWorker, ReplicaState::kFailed);
  return over == ReplicaCount(context.job.spec, kWorker);
}

// Workers that may come and go: any of them, or those beyond minReplicas.
bool ToleratesFailure(const Context& context, const std::string& type) {
  if (type != kWorker) return false;
  const ReplicaSpec& workers = context.job.spec.replicas->at(type);
  if (!workers.min_replicas) return context.job.spec.enable_dynamic_worker;
  const int left =
      ReplicaCount(context.job.spec, type) - context.replicas.Count(type, ReplicaState::kFailed);
  return left >= *workers.min_replicas;
}

void FailBecauseOf(Context& context, const std::string& type, int failed) {
  const std::string& name = context.job.metadata.name;
  const bool by_exit_code = context.policy_of(type) == kRestartExitCode &&
                            context.replicas.Count(type, ReplicaState::kFailed) > 0;
  std::vector<const Replica*> ended;
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.type == type && replica.state == ReplicaState::kFailed) ended.push_back(&replica);
  }
  AddExitEvents(context, ended);
  if (by_exit_code) {
    Finish(context, kFailed,
           absl::StrCat("job \"", name, "\" is failing because \"", type, "\" replica(s) failed."),
           "Warning");
  } else {
    Finish(context, kFailed,
           absl::StrCat("TFJob ", JobKey(context), " has failed because ", failed, " ", type,
                        " replica(s) failed."));
  }
}

// A rule of the failure policy fails the job because of a pod of this type.
bool FailByRule(Context& context, const std::string& type) {
  for (const Replica& replica : context.replicas.wanted) {
    if (replica.type != type || replica.state != ReplicaState::kFailed || !replica.rule) continue;
    AddExitEvents(context, {&replica});
    Finish(
        context, kFailed,
        absl::StrCat("TFJob ", JobKey(context), " has failed because ", CauseOf(replica, context)),
        "Warning");
    return true;
  }
  return false;
}

void Succeed(Context& context, const std::string& why = "") {
  Finish(context, kSucceeded,
         absl::StrCat("TFJob ", JobKey(context), " successfully completed", why, "."));
}

bool HasRules(const Context& context) { return !context.job.spec.run_policy.success_rules.empty(); }

// Rules take the place of spec.successPolicy and of the chief. As with those of a Job, it also has
// succeeded when nothing is left that could.
void JudgeByRules(Context& context) {
  const std::vector<SuccessRule>& rules = context.job.spec.run_policy.success_rules;
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const SuccessRule& candidate) {
    return Holds(context, candidate);
  });
  if (rule != rules.end()) {
    Succeed(context, absl::StrCat(": rule ", rule - rules.begin(),
                                  " of spec.runPolicy.successPolicy holds"));
  } else if (AllButPsAre(context, {ReplicaState::kSucceeded})) {
    Succeed(context);
  }
}

void MarkRunning(Context& context) {
  SetCondition(context, kRunning, kTrue, kReasonRunning,
               absl::StrCat("TFJob ", JobKey(context), " is running."));
}

void JudgeByDefault(Context& context, const std::string& type) {
  if (!HasRules(context) && Decides(context, type) && HasSucceeded(context, type)) {
    return Succeed(context);
  }
  const int failed = context.replicas.Count(type, ReplicaState::kFailed);
  if (failed == 0) return;
  if (FailByRule(context, type)) return;
  if (!ToleratesFailure(context, type)) return FailBecauseOf(context, type, failed);
  if (HasRules(context)) {
    const bool is_over = AllButPsAre(context, {ReplicaState::kSucceeded, ReplicaState::kFailed});
    return is_over ? FailBecauseOf(context, type, failed) : void();
  }
  if (!Decides(context, type) || !AllWorkersOver(context)) return;
  const bool some_suffice = context.job.spec.success_policy != kSuccessAllWorkers &&
                            context.replicas.Count(type, ReplicaState::kSucceeded) > 0;
  if (some_suffice) return Succeed(context);
  FailBecauseOf(context, type, failed);
}

// v1.9 counts every failed pod, but a standing Restarting condition excuses all of them.
void JudgeAsV19(Context& context, const std::string& type,
                const std::optional<Condition>& restarting) {
  const ReplicaStatus status = context.plan.status.replica_statuses.at(type);
  if (Decides(context, type)) {
    if (IsChiefLike(type) && status.active > 0) MarkRunning(context);
    if (HasSucceeded(context, type)) {
      Succeed(context);
    } else if (status.active > 0) {
      MarkRunning(context);
    }
  }
  if (status.failed == 0) return;
  if (restarting) {
    SetCondition(context, kRestarting, kTrue, restarting->reason, restarting->message);
  } else if (!ToleratesFailure(context, type)) {
    FailBecauseOf(context, type, status.failed);
  }
}

}  // namespace

void JudgeReplicas(Context& context) {
  if (HasRules(context)) JudgeByRules(context);
  if (IsFinished(context.plan.status)) return;
  std::optional<Condition> restarting;
  for (const Condition& condition : context.plan.status.conditions) {
    if (condition.type == kRestarting) restarting = condition;
  }
  for (const auto& [type, spec] : *context.job.spec.replicas) {
    if (!IsJudged(context, type)) continue;
    if (context.options.compat_v19) {
      JudgeAsV19(context, type, restarting);
    } else {
      JudgeByDefault(context, type);
    }
  }
}

void UpdateRunning(Context& context) {
  const auto& wanted = context.replicas.wanted;
  const bool restarting = std::any_of(wanted.begin(), wanted.end(), [](const Replica& replica) {
    return replica.state == ReplicaState::kRetry || replica.state == ReplicaState::kDisrupted ||
           replica.state == ReplicaState::kGangRestart;
  });
  if (restarting) return;
  const bool running = std::any_of(wanted.begin(), wanted.end(), [&](const Replica& replica) {
    return replica.state == ReplicaState::kRunning && Decides(context, replica.type);
  });
  if (running) MarkRunning(context);
}

}  // namespace tfjob
