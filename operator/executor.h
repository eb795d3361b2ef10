// Carries a plan's actions out through the API: deletes, then the PodGroup, then the Secret, then
// services, then pods, each kind side by side, each call with a deadline. Says what was done and
// what stood in the way; writes no status.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

struct Execution {
  // Events about what was done and about deletions that failed; failed creations are troubles.
  std::vector<Event> events;
  // What somebody has to put right; tried again with a back-off.
  std::vector<Trouble> troubles;
  // The first failure that may pass by itself: no connection, overload, conflict.
  absl::Status error;
  int created_pods = 0;
  int deleted_pods = 0;
  int created_services = 0;
  int deleted_services = 0;
  bool deleted_job = false;
  bool look_again = false;  // something was there that the plan did not know of
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

// What a user or an administrator has to do about a refused write; "" if that is not known.
std::string AdviceFor(const absl::Status& error);

}  // namespace tfjob
