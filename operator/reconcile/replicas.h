// Every pod is classified once; all policies then speak of replicas and their states. PURE.
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/plan.h"

namespace tfjob {

// Failed: in phase Failed, or taken for failed by a rule (Pending for too long, stalled).
enum class ReplicaState {
  kMissing,  // no pod, and one is wanted
  kBlocked,  // no pod of ours, but a foreign one has the name
  kPending,  // phase Pending or Unknown
  kRunning,
  kSucceeded,    // phase Succeeded, or recorded as succeeded and since gone
  kRetry,        // failed, to be replaced; the replacement counts as a restart
  kDisrupted,    // failed by eviction, pre-emption or node loss: replaced without counting
  kFailed,       // failed for good
  kGangRestart,  // not over, or Failed for good, and to be deleted: the job restarts as a whole
  kTerminating,  // being deleted: neither active nor failed, replaced once it is gone
};

// One index of one type. Pointers borrow from Observed.
struct Replica {
  std::string type;  // canonical: "Worker"
  int index = 0;
  ReplicaState state = ReplicaState::kMissing;
  const PodView* pod = nullptr;
  // What decided about its pod in place of the restart policy: a rule of the failure policy, or
  // what stallAction comes to.
  const FailureRule* rule = nullptr;
  bool is_stalled = false;  // the latter
  const ServiceView* service = nullptr;
};

struct Replicas {
  std::vector<Replica> wanted;  // by type, then index; every index in 0…replicas-1 once
  std::vector<const PodView*> surplus_pods;  // ours, but of no wanted index, or doubles
  std::vector<const ServiceView*> surplus_services;
  const ServiceView* subdomain_service = nullptr;  // of the whole job, where it asks for one

  // Replicas of one type in one state.
  int Count(const std::string& type, ReplicaState state) const;
};

// `job` has its defaults. Pods and services of other owners are left out.
Replicas Classify(const TfJob& job, const Observed& observed, const PlanOptions& options);

// Ours: controlled by this job. A service without owner is adopted, as v1.9 does.
bool IsOurs(const PodView& pod, const TfJob& job);
bool IsOurs(const ServiceView& service, const TfJob& job);
// The one of all pods, as spec.network.subdomain names it.
bool IsSubdomainService(const ServiceView& service, const TfJob& job);

}  // namespace tfjob
