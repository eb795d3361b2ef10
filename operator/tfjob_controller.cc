#include "operator/tfjob_controller.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "operator/api/names.h"
#include "operator/pod_view.h"
#include "operator/status_change.h"

namespace tfjob {
namespace {

using runtime::Outcome;
using runtime::Priority;

bool IsCreate(const Action& action) {
  return std::holds_alternative<CreatePod>(action) ||
         std::holds_alternative<CreateService>(action) ||
         std::holds_alternative<CreateSecret>(action) ||
         std::holds_alternative<CreateClaim>(action) ||
         std::holds_alternative<CreatePodGroup>(action) ||
         std::holds_alternative<UpdatePodGroup>(action);
}

absl::Duration Earlier(std::optional<absl::Duration> wish, absl::Duration other) {
  return wish ? std::min(*wish, other) : other;
}

// The CRD of training-operator prunes what we add to the status. In one operator's life its own
// memory makes up for it; over a restart of the operator, restarts are then counted afresh.
void WarnOfOldCrd(const TfJobStatus& status, const Json& written) {
  static std::atomic<bool> said = false;
  if (status.charged_pods.empty() || !written.is_object()) return;
  const auto kept = written.find("status");
  if (kept == written.end() || kept->contains("chargedPods") || said.exchange(true)) return;
  base::LogWarning(
      "the CRD of TFJob is an old one: restart counts do not survive a restart of the "
      "operator; apply crds/tfjob.yaml");
}

}  // namespace

// One pass; lives on the stack of Reconcile.
struct TfJobController::Pass {
  std::string key;
  std::stop_token stop;
  Observed observed;
  Memory memory;
  Plan plan;
  Execution execution;
  bool acted = false;  // actions were tried
  bool tried_creates = false;
  bool withheld = false;  // creations wait for the end of a back-off
  bool changed = false;   // the status is to be written

  const TfJob& job() const { return observed.job; }
};

TfJobController::TfJobController(Parts parts, TfJobControllerOptions options)
    : parts_(parts),
      options_(std::move(options)),
      news_(parts.events, parts.metrics, options_.clock) {}

TfJobController::Memory TfJobController::Recall(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  const auto it = memories_.find(key);
  return it == memories_.end() ? Memory() : it->second;
}

void TfJobController::Remember(const std::string& key, Memory memory) {
  absl::MutexLock lock(&mutex_);
  memories_[key] = std::move(memory);
}

void TfJobController::Forget(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  memories_.erase(key);
}

Outcome TfJobController::Reconcile(const std::string& key, std::stop_token stop) {
  std::optional<JobCache::Snapshot> snapshot = parts_.cache->Observe(key);
  if (!snapshot) {
    Forget(key);
    if (parts_.progress != nullptr)
      parts_.progress->Follow(key, std::nullopt, absl::InfinitePast());
    return Outcome::Done();
  }
  Pass pass{.key = key, .stop = std::move(stop), .observed = std::move(snapshot->observed)};
  pass.observed.now = options_.clock->Now();
  ObserveProgress(parts_.progress, key, pass.observed);
  pass.memory = Recall(key);
  if (pass.memory.spec_hash != snapshot->spec_hash) {
    const bool is_new = pass.memory.spec_hash == 0;
    const bool is_fresh = is_new ? pass.job().status.conditions.empty() : pass.memory.is_fresh;
    pass.memory = {.spec_hash = snapshot->spec_hash,
                   .is_fresh = is_fresh,
                   .all_pods_told = pass.memory.all_pods_told};
  }
  std::optional<absl::Time>& start_time = pass.observed.job.status.start_time;
  if (!start_time) start_time = pass.memory.start_time;
  const Outcome outcome = Look(pass);
  pass.memory.looked = pass.observed.now;
  pass.memory.looks_again.reset();
  if (outcome.kind == Outcome::Kind::kRequeueAfter) {
    pass.memory.looks_again = pass.observed.now + outcome.after;
  }
  if (IsFinished(pass.job().status) && outcome.kind == Outcome::Kind::kDone) {
    Forget(key);
  } else {
    Remember(key, std::move(pass.memory));
  }
  return outcome;
}

Outcome TfJobController::Look(Pass& pass) {
  pass.plan = MakePlan(pass.observed, options_.plan);
  const absl::Duration until_creates = pass.memory.creates_again - pass.observed.now;
  // Longer than any wait: the clock was set back.
  if (until_creates > absl::ZeroDuration() && until_creates <= options_.max_retry) {
    const auto first = std::remove_if(pass.plan.actions.begin(), pass.plan.actions.end(), IsCreate);
    pass.withheld = first != pass.plan.actions.end();
    pass.plan.actions.erase(first, pass.plan.actions.end());
  }
  Act(pass);
  pass.changed = !SameStatus(pass.plan.status, pass.job().status);
  if (!IsFinished(pass.plan.status)) {
    news_.TellWaitingPods(pass.observed, pass.memory.waits_told);
  }
  if (pass.changed && MayWait(pass)) {
    if (!pass.memory.counters_since) pass.memory.counters_since = pass.observed.now;
    const absl::Duration left =
        *pass.memory.counters_since + options_.counter_delay - pass.observed.now;
    pass.memory.waits_for = "more pods, before their number is written to the status";
    return Outcome::RequeueAfter(
        Earlier(pass.plan.requeue_after, left),
        Begins(pass.job().status, pass.plan.status, kRunning) ? Priority::kHigh : Priority::kLow);
  }
  const bool waits = pass.changed && CreatedMayWait(pass);
  const absl::Status written = waits ? absl::OkStatus() : WriteStatus(pass);
  for (const Event& event : pass.execution.events) {
    parts_.events->Record(pass.job().metadata, event);
  }
  if (written.ok() && !waits) {
    news_.TellTransitions(pass.job(), pass.plan, pass.memory.is_fresh);
  }
  TellAllPods(pass);
  Outcome outcome = Conclude(pass, written);
  if (!waits) return outcome;
  if (!pass.memory.created_since) pass.memory.created_since = pass.observed.now;
  pass.memory.start_time = pass.plan.status.start_time;
  const absl::Duration left =
      *pass.memory.created_since + options_.longest_delay - pass.observed.now;
  return Outcome::RequeueAfter(Earlier(pass.plan.requeue_after, left), Priority::kLow);
}

// Tries the plan's actions, then plans again with what they ran into: that decides the status.
void TfJobController::Act(Pass& pass) {
  pass.tried_creates = std::any_of(pass.plan.actions.begin(), pass.plan.actions.end(), IsCreate);
  if (!pass.plan.actions.empty()) {
    parts_.events->WriteBegins();
    const absl::Cleanup end = [this] { parts_.events->WriteEnds(); };
    pass.execution = parts_.executor->Execute(pass.job(), pass.plan, pass.stop);
    pass.acted = true;
  }
  if (pass.withheld) {
    pass.observed.troubles = pass.memory.troubles;
  } else if (pass.acted && (pass.execution.error.ok() || !pass.execution.troubles.empty())) {
    pass.observed.troubles = pass.execution.troubles;
  }
  if (pass.acted || pass.withheld) pass.plan = MakePlan(pass.observed, options_.plan);
  if (parts_.metrics == nullptr) return;
  parts_.metrics->PodsCreated(pass.execution.created_pods);
  parts_.metrics->PodsDeleted(pass.execution.deleted_pods);
}

// Nobody waits for the exact number of running pods; everything else is written at once.
bool TfJobController::MayWait(const Pass& pass) const {
  if (pass.acted || !pass.plan.events.empty()) return false;
  const bool is_first = pass.memory.created_since && pass.job().status.conditions.empty();
  if (!IsOnlyAboutCounters(pass.job(), pass.plan.status, is_first)) return false;
  if (!pass.memory.counters_since) return true;
  const absl::Duration waited = pass.observed.now - *pass.memory.counters_since;
  return waited >= absl::ZeroDuration() && waited < options_.counter_delay;  // < 0: clock set back
}

// In a burst: its pods will run soon, and one write then says both.
bool TfJobController::CreatedMayWait(const Pass& pass) const {
  const Plan& plan = pass.plan;
  if (!options_.is_busy || !pass.job().status.conditions.empty()) return false;
  if (plan.status.conditions.size() != 1 || !HasCondition(plan.status, kCreated)) return false;
  const Execution& done = pass.execution;
  if (!done.error.ok() || !done.troubles.empty() || done.look_again || pass.withheld) return false;
  if (!plan.events.empty() || plan.requeue_after == absl::ZeroDuration()) return false;
  if (!pass.memory.created_since) return options_.is_busy();
  const absl::Duration waited = pass.observed.now - *pass.memory.created_since;
  return waited >= absl::ZeroDuration() && waited < options_.longest_delay;  // < 0: clock set back
}

absl::Status TfJobController::WriteStatus(Pass& pass) {
  pass.memory.counters_since.reset();
  if (!pass.changed || pass.execution.deleted_job) return absl::OkStatus();
  const ObjectMeta& meta = pass.job().metadata;
  // The rest of the object is not the status writer's business; the API server keeps it.
  const Json object = {{"apiVersion", kApiVersion},
                       {"kind", kKind},
                       {"metadata",
                        {{"name", meta.name},
                         {"namespace", meta.namespace_name},
                         {"uid", meta.uid},
                         {"resourceVersion", meta.resource_version}}},
                       {"status", StatusToJson(pass.plan.status)}};
  parts_.events->WriteBegins();
  const absl::Cleanup end = [this] { parts_.events->WriteEnds(); };
  const absl::StatusOr<Json> written =
      parts_.client->ReplaceStatus(kube::kTfJobs, meta.namespace_name, object, pass.stop);
  if (!written.ok()) {
    if (absl::IsAborted(written.status()) && parts_.metrics) parts_.metrics->StatusConflict();
    return written.status();
  }
  WarnOfOldCrd(pass.plan.status, *written);
  parts_.cache->NoteStatus(pass.key, meta.uid, ResourceVersionOf(*written), pass.plan.status);
  if (parts_.metrics) parts_.metrics->StatusWritten();
  return absl::OkStatus();
}

void TfJobController::TellAllPods(Pass& pass) {
  if (!pass.memory.is_fresh || pass.memory.all_pods_told || !pass.tried_creates) return;
  if (!pass.execution.error.ok() || !pass.execution.troubles.empty()) return;
  if (!pass.plan.waits_for.empty()) return;  // only its PodGroup was made
  pass.memory.all_pods_told = true;
  news_.TellAllPods(pass.job());
}

Outcome TfJobController::Conclude(Pass& pass, const absl::Status& written) {
  Memory& memory = pass.memory;
  memory.waits_for.clear();
  if (absl::IsNotFound(written)) return Outcome::Done();  // deleted; the watch will say so
  const absl::Status& error = written.ok() ? pass.execution.error : written;
  if (!error.ok()) {
    memory.waits_for = absl::StrCat("another try: ", error.message());
    return Outcome::Retry(error, kube::RetryAfter(error).value_or(absl::ZeroDuration()));
  }
  if (!pass.execution.troubles.empty()) {
    const absl::Duration wait =
        std::min(options_.max_retry, options_.first_retry * (1LL << std::min(memory.refusals, 20)));
    ++memory.refusals;
    memory.troubles = pass.execution.troubles;
    memory.creates_again = pass.observed.now + wait;
    memory.waits_for = absl::StrCat("somebody's help: ", memory.troubles.front().message);
    return Outcome::RequeueAfter(Earlier(pass.plan.requeue_after, wait));
  }
  if (pass.withheld) {
    memory.waits_for = absl::StrCat(
        "somebody's help: ", memory.troubles.empty() ? "refused" : memory.troubles.front().message);
    return Outcome::RequeueAfter(
        Earlier(pass.plan.requeue_after, memory.creates_again - pass.observed.now));
  }
  if (pass.tried_creates) {
    memory.refusals = 0;
    memory.troubles.clear();
  }
  if (pass.execution.look_again) return Outcome::RequeueAfter(absl::ZeroDuration());
  memory.waits_for = pass.plan.waits_for;
  if (!pass.plan.requeue_after) return Outcome::Done();
  if (*pass.plan.requeue_after > absl::ZeroDuration() && memory.waits_for.empty()) {
    memory.waits_for = IsFinished(pass.plan.status)
                           ? "its ttlSecondsAfterFinished"
                           : "its pods, a deadline or the back-off of a restart";
  }
  // What is left of a finished job is clean-up: nobody waits for it.
  return Outcome::RequeueAfter(*pass.plan.requeue_after,
                               IsFinished(pass.plan.status) ? Priority::kLow : Priority::kNormal);
}

Json TfJobController::Debug(const std::string& key) const {
  Json out = Json::array();
  const absl::Time now = options_.clock->Now();
  for (const std::string& each : parts_.cache->Keys()) {
    if (!key.empty() && each != key) continue;
    const std::optional<JobCache::Snapshot> snapshot = parts_.cache->Observe(each);
    if (!snapshot) continue;
    const Observed& observed = snapshot->observed;
    const Memory memory = Recall(each);
    Json job = {{"job", each}, {"resourceVersion", observed.job.metadata.resource_version}};
    const Json status = StatusToJson(observed.job.status);
    job["status"] = status.is_null() ? Json::object() : status;
    for (const PodView& pod : observed.pods) {
      Json view = {{"name", pod.name}, {"phase", PhaseName(pod.phase)}};
      if (pod.exit_code) view["exitCode"] = *pod.exit_code;
      if (pod.deletion_time) view["isBeingDeleted"] = true;
      if (!pod.waiting_reason.empty()) view["waiting"] = pod.waiting_reason;
      if (pod.owner_uid != observed.job.metadata.uid) view["foreign"] = true;
      job["pods"].push_back(std::move(view));
    }
    job["services"] = observed.services.size();
    std::string waits = memory.waits_for;
    if (waits.empty()) waits = IsFinished(observed.job.status) ? "nothing: finished" : "its pods";
    job["waitsFor"] = waits;
    if (memory.spec_hash != 0) job["lookedAgo"] = absl::FormatDuration(now - memory.looked);
    if (memory.looks_again) job["looksAgainIn"] = absl::FormatDuration(*memory.looks_again - now);
    out.push_back(std::move(job));
  }
  return out;
}

}  // namespace tfjob
