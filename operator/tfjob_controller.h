// One pass over one job: observe, plan, execute, write the status, then events and metrics. The
// only place that knows both the planner and the cluster.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/event_recorder.h"
#include "operator/executor.h"
#include "operator/job_cache.h"
#include "operator/job_metrics.h"
#include "operator/job_news.h"
#include "operator/kube/client.h"
#include "operator/progress_watch.h"
#include "operator/runtime/controller.h"

namespace tfjob {

struct TfJobControllerOptions {
  PlanOptions plan;
  base::Clock* clock = base::Clock::Real();
  // A status that differs only in counters waits so long for further changes, so that the start of
  // many pods is one write. Zero: every change is written at once.
  absl::Duration counter_delay = absl::Seconds(1);
  // Whether more jobs wait than can be looked at. Then the first status of a job, which says only
  // Created, waits until its pods run, at most for `longest_delay`. Empty: never.
  std::function<bool()> is_busy;
  absl::Duration longest_delay = absl::Seconds(10);
  // After a refusal that needs somebody's help: tried again after this, doubled each time.
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration max_retry = absl::Minutes(2);
};

// Thread-safe; one key is given to one pass at a time (the work queue sees to it).
class TfJobController {
 public:
  // All outlive it; `metrics` and `progress` may be null.
  struct Parts {
    kube::Client* client = nullptr;
    JobCache* cache = nullptr;
    Executor* executor = nullptr;
    EventRecorder* events = nullptr;
    JobMetrics* metrics = nullptr;
    ProgressWatch* progress = nullptr;
  };
  TfJobController(Parts parts, TfJobControllerOptions options);

  runtime::Outcome Reconcile(const std::string& key, std::stop_token stop);

  // What it thinks of each job and why it waits; `key` "" = all.
  Json Debug(const std::string& key = "") const;

 private:
  // What it remembers of a job between passes; all of it may be lost without harm.
  struct Memory {
    size_t spec_hash = 0;
    std::optional<absl::Time> counters_since;  // a status of new counters waits to be written
    std::optional<absl::Time> created_since;   // a first status waits to be written
    std::optional<absl::Time> start_time;      // that it will have
    std::vector<Trouble> troubles;
    int refusals = 0;          // in a row
    absl::Time creates_again;  // no creation is tried before
    bool is_fresh = false;     // seen before its first pods: its latencies count
    bool all_pods_told = false;
    std::set<std::string> waits_told;  // reasons for which pods wait, of which an event has told
    std::string waits_for;             // for Debug
    absl::Time looked;
    std::optional<absl::Time> looks_again;
  };
  struct Pass;

  Memory Recall(const std::string& key) const;
  void Remember(const std::string& key, Memory memory);
  void Forget(const std::string& key);

  runtime::Outcome Look(Pass& pass);
  void Act(Pass& pass);
  bool MayWait(const Pass& pass) const;
  bool CreatedMayWait(const Pass& pass) const;
  absl::Status WriteStatus(Pass& pass);
  void TellAllPods(Pass& pass);
  runtime::Outcome Conclude(Pass& pass, const absl::Status& written);

  const Parts parts_;
  const TfJobControllerOptions options_;
  JobNews news_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Memory> memories_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tfjob
