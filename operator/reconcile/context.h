// What the policies share while one plan is made. PURE.
#pragma once

#include <string>

#include "operator/reconcile/plan.h"
#include "operator/reconcile/replicas.h"

namespace tfjob {

// One pass over one job. Policies read job, observed and replicas, and add to plan.
struct Context {
  const Observed& observed;
  const PlanOptions& options;
  TfJob job;          // with defaults; its status is the observed one
  Replicas replicas;  // classified once
  Plan plan;          // plan.status begins as the observed status
  // A decision that must be on record before it is acted on: the pass writes only status.
  bool write_status_first = false;

  const std::string& policy_of(const std::string& type) const {
    return job.spec.replicas->at(type).restart_policy;
  }
  void RequeueAfter(absl::Duration delay) {
    if (!plan.requeue_after || delay < *plan.requeue_after) plan.requeue_after = delay;
  }
};

}  // namespace tfjob
