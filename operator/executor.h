// Carries a plan's actions out through the API: deletes, then the PodGroup, then the Secret, then
// claims, then services, then pods, each kind side by side, each call with a deadline. Says what
// was done and what stood in the way; writes no status.
#pragma once

#include <stop_token>

#include "operator/execution.h"
#include "operator/job_cache.h"
#include "operator/kube/client.h"
#include "operator/parallel.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct ExecutorOptions {
  int width = 8;  // calls at a time for one job
  // One event for each action, as v1.9 sends them, instead of one for each kind.
  bool single_events = false;
  kube::Resource pod_groups;  // of the gang scheduler; empty where there is none
};

// Thread-safe, also for one job twice, though nobody should.
class Executor {
 public:
  // All outlive it.
  Executor(kube::Client* client, JobCache* cache, Helpers* helpers, ExecutorOptions options);

  // Stops at the first kind of action that fails: a pod is made only when all services stand.
  Execution Execute(const TfJob& job, const Plan& plan, std::stop_token stop);

 private:
  class Run;

  kube::Client& client_;
  JobCache& cache_;
  Helpers& helpers_;
  const ExecutorOptions options_;
};

}  // namespace tfjob
