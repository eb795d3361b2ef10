// What the world is told of a job: events, lines of the log, metrics. Each thing once.
#pragma once

#include <set>
#include <string>

#include "base/clock.h"
#include "operator/event_recorder.h"
#include "operator/job_metrics.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Thread-safe, as its parts are.
class JobNews {
 public:
  // All outlive it; `metrics` may be null.
  JobNews(EventRecorder* events, JobMetrics* metrics, base::Clock* clock)
      : events_(*events), metrics_(metrics), clock_(*clock) {}

  // What a status write has put on record, in place of job.status: to be told after it and only
  // then. `is_fresh`: seen before its first pods, so that its latencies count.
  void TellTransitions(const TfJob& job, const Plan& plan, bool is_fresh);

  // Once for each reason that is not among `told`, and then is: which pods do not get on, and what
  // the cluster says about it.
  void TellWaitingPods(const Observed& observed, std::set<std::string>& told);

  // The pods of a fresh job have been made.
  void TellAllPods(const TfJob& job);

 private:
  EventRecorder& events_;
  JobMetrics* const metrics_;
  base::Clock& clock_;
};

}  // namespace tfjob
