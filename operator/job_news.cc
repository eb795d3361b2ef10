#include "operator/job_news.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "operator/api/names.h"
#include "operator/reconcile/status.h"
#include "operator/reconcile/waiting.h"
#include "operator/status_change.h"

namespace tfjob {
void JobNews::TellTransitions(const TfJob& job, const Plan& plan, bool is_fresh) {
  const TfJobStatus& before = job.status;
  const TfJobStatus& after = plan.status;
  const ObjectMeta& meta = job.metadata;
  const std::string& ns = meta.namespace_name;
  int restarting_events = 0;
  for (const Event& event : plan.events) {
    events_.Record(meta, event);
    restarting_events += event.reason == kReasonRestarting;
  }
  for (const char* type :
       {kRunning, kRestarting, kSuspended, kSucceeded, kFailed, kBlocked, kQueued, kStalled}) {
    if (!Begins(before, after, type)) continue;
    const Condition* condition = FindCondition(after, type);
    base::LogInfo("job changed", {{"job", absl::StrCat(ns, "/", meta.name)},
                                  {"condition", type},
                                  {"reason", condition->reason},
                                  {"message", condition->message}});
  }
  if (metrics_ == nullptr) return;
  if (Begins(before, after, kCreated)) metrics_->Created(ns);
  if (Begins(before, after, kSucceeded)) metrics_->Successful(ns);
  if (Begins(before, after, kFailed)) metrics_->Failed(ns);
  const int restarts = std::max(RestartsOf(after) - RestartsOf(before), restarting_events);
  if (restarts > 0) metrics_->Restarted(ns, restarts);
  const std::optional<absl::Time>& created = meta.creation_time;
  if (is_fresh && created && FindCondition(before, kRunning) == nullptr &&
      FindCondition(before, kRestarting) == nullptr && HasCondition(after, kRunning)) {
    metrics_->Running(clock_.Now() - *created);
  }
}

void JobNews::TellWaitingPods(const Observed& observed, std::set<std::string>& told) {
  for (const auto& [reason, pods] : WaitingPods(observed)) {
    if (!told.insert(reason).second) continue;
    events_.Record(observed.job.metadata,
                   {"Warning", reason,
                    absl::StrCat("Error pod ", pods.first->name, " ", pods.first->waiting_message,
                                 AndMore(pods))});
  }
}

void JobNews::TellAllPods(const TfJob& job) {
  const std::optional<absl::Time>& created = job.metadata.creation_time;
  if (metrics_ != nullptr && created) metrics_->AllPodsCreated(clock_.Now() - *created);
}

}  // namespace tfjob
