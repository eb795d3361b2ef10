#include "operator/reconcile/replicas.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "operator/api/names.h"
#include "operator/reconcile/failures.h"
#include "operator/reconcile/restart.h"

namespace tfjob {
namespace {

bool RecordedAsSucceeded(const TfJob& job, const Replica& replica) {
  const auto it = job.status.replica_statuses.find(replica.type);
  return it != job.status.replica_statuses.end() &&
         it->second.succeeded_indexes.contains(replica.index);
}

// `is_charged`: a restart of the job as a whole has it on record.
ReplicaState StateOfPod(const PodView& pod, const Replica& replica,
                        const std::string& restart_policy, bool is_charged,
                        const PlanOptions& options) {
  if (pod.phase == PodPhase::kSucceeded) return ReplicaState::kSucceeded;
  const bool judge_while_deleted = options.compat_v19 && pod.phase == PodPhase::kFailed;
  if (pod.deletion_time && !judge_while_deleted) return ReplicaState::kTerminating;
  ReplicaState state = ReplicaState::kPending;
  if (pod.phase == PodPhase::kRunning) state = ReplicaState::kRunning;
  if (pod.phase == PodPhase::kFailed || replica.rule != nullptr) {
    state = ClassifyFailure(pod, replica.rule, restart_policy, options);
    if (state != ReplicaState::kFailed) return state;
  }
  return is_charged ? ReplicaState::kGangRestart : state;
}

// Of two pods for one index, the one with the derived name that is not on its way out.
bool IsBetter(const PodView& a, const PodView& b, const std::string& name) {
  if ((a.name == name) != (b.name == name)) return a.name == name;
  if (a.deletion_time.has_value() != b.deletion_time.has_value()) return !a.deletion_time;
  return a.uid < b.uid;
}

// Puts pods and services at their places, then says what state each place is in.
class Classifier {
 public:
  Classifier(const TfJob& job, const PlanOptions& options, absl::Time now)
      : job_(job), options_(options), now_(now) {
    for (const auto& [type, spec] : *job.spec.replicas) {
      const int count = std::clamp(spec.replicas.value_or(1), 0, kMaxReplicas);
      for (int i = 0; i < count; ++i) out_.wanted.push_back({.type = type, .index = i});
    }
    for (Replica& replica : out_.wanted) {
      places_[{LowerReplicaType(replica.type), replica.index}] = &replica;
    }
  }

  void Place(const PodView& pod) {
    if (!IsOurs(pod, job_)) {
      foreign_names_.insert(pod.name);
      return;
    }
    if (pod.index < 0) return;  // its labels do not say which replica it is: left alone, as in v1.9
    const auto place = places_.find({pod.type, pod.index});
    if (place == places_.end()) {
      out_.surplus_pods.push_back(&pod);
      return;
    }
    Replica& replica = *place->second;
    if (replica.pod == nullptr) {
      replica.pod = &pod;
    } else if (IsBetter(pod, *replica.pod, NameOf(replica))) {
      out_.surplus_pods.push_back(std::exchange(replica.pod, &pod));
    } else {
      out_.surplus_pods.push_back(&pod);
    }
  }

  void Place(const ServiceView& service) {
    if (!IsOurs(service, job_)) return;
    if (IsSubdomainService(service, job_)) out_.subdomain_service = &service;
    if (service.index < 0) return;
    const bool has_one_for_all = !job_.spec.network.subdomain.empty();
    const auto place = places_.find({service.type, service.index});
    if (place == places_.end() || place->second->service != nullptr || has_one_for_all) {
      out_.surplus_services.push_back(&service);
    } else {
      place->second->service = &service;
    }
  }

  Replicas Finish() && {
    for (Replica& replica : out_.wanted) {
      if (replica.pod != nullptr && !options_.compat_v19 &&
          (replica.pod->phase == PodPhase::kFailed || replica.pod->phase == PodPhase::kPending)) {
        replica.rule = RuleFor(job_, replica.type, *replica.pod, now_);
      }
      replica.state = StateOf(replica);
    }
    return std::move(out_);
  }

 private:
  using Key = std::pair<std::string, int>;  // lower type, index

  std::string NameOf(const Replica& replica) const {
    return ReplicaName(job_.metadata.name, replica.type, replica.index);
  }

  ReplicaState StateOf(const Replica& replica) const {
    // An index that has succeeded never runs again, whatever became of its pod.
    if (!options_.compat_v19 && RecordedAsSucceeded(job_, replica)) return ReplicaState::kSucceeded;
    if (replica.pod != nullptr) {
      const bool is_charged = may_restart_job_ && IsCharged(job_.status, *replica.pod);
      return StateOfPod(*replica.pod, replica, job_.spec.replicas->at(replica.type).restart_policy,
                        is_charged, options_);
    }
    if (foreign_names_.empty()) return ReplicaState::kMissing;
    return foreign_names_.contains(NameOf(replica)) ? ReplicaState::kBlocked
                                                    : ReplicaState::kMissing;
  }

  const TfJob& job_;
  const PlanOptions& options_;
  const absl::Time now_;
  const bool may_restart_job_ = !options_.compat_v19 && MayRestartJob(job_);
  Replicas out_;
  std::map<Key, Replica*> places_;
  std::set<std::string> foreign_names_;
};

}  // namespace

bool IsOurs(const PodView& pod, const TfJob& job) { return pod.owner_uid == job.metadata.uid; }

bool IsOurs(const ServiceView& service, const TfJob& job) {
  return service.owner_uid.empty() || service.owner_uid == job.metadata.uid;
}

bool IsSubdomainService(const ServiceView& service, const TfJob& job) {
  const std::string& subdomain = job.spec.network.subdomain;
  return service.index < 0 && !subdomain.empty() && service.name == subdomain;
}

int Replicas::Count(const std::string& type, ReplicaState state) const {
  return static_cast<int>(std::count_if(wanted.begin(), wanted.end(), [&](const Replica& replica) {
    return replica.type == type && replica.state == state;
  }));
}

Replicas Classify(const TfJob& job, const Observed& observed, const PlanOptions& options) {
  if (!job.spec.replicas) return {};
  Classifier classifier(job, options, observed.now);
  for (const PodView& pod : observed.pods) classifier.Place(pod);
  for (const ServiceView& service : observed.services) classifier.Place(service);
  return std::move(classifier).Finish();
}

}  // namespace tfjob
