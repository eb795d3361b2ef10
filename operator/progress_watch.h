// Asks the chiefs of running jobs for their progress, on one thread of its own: asking never holds
// up a pass over a job. Knows no API server.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

// Whom to ask about a job.
struct ProgressTarget {
  std::string job_uid;
  std::string pod_uid;
  std::string ip;
  int port = 0;
  absl::Duration interval;
  bool operator==(const ProgressTarget&) const = default;
};

// The chief's pod (worker 0's where there is no chief), as long as it runs and the job asks for it;
// nullopt: nobody. PURE.
std::optional<ProgressTarget> ProgressTargetOf(const Observed& observed);

struct ProgressWatchOptions {
  absl::Duration timeout = absl::Seconds(2);  // of one ask, from its connection to its last byte
  int max_open = 128;                         // asks at once
  // Bounds what all jobs together cost the network and, as each answer may be a status write, the
  // API server: where there are more jobs than that allows, each is asked less often.
  double max_per_second = 50;
  // After an ask that failed; doubled each time, up to `max_retry` or the job's own interval.
  absl::Duration first_retry = absl::Seconds(2);
  absl::Duration max_retry = absl::Minutes(1);
  // Called with a job's key when its answer is another than before, on the thread that asks.
  std::function<void(const std::string& key)> on_news;
};

struct ProgressCounters {
  int64_t answered = 0;
  int64_t failed = 0;
};

// Thread-safe.
class ProgressWatch {
 public:
  virtual ~ProgressWatch() = default;  // stops
  static std::unique_ptr<ProgressWatch> Create(ProgressWatchOptions options);

  // From Start to Stop it asks; Stop forgets all targets.
  virtual void Start() = 0;
  virtual void Stop() = 0;
  // Whom to ask from now on; nullopt: nobody, and what was read is forgotten. Nothing changes for
  // an equal target. A new one is asked at once, but not before its interval has passed since
  // `last_read`, the last time that this job's status was written for it.
  virtual void Follow(const std::string& key, const std::optional<ProgressTarget>& target,
                      absl::Time last_read) = 0;
  // The newest answer of the target.
  virtual std::optional<Progress> Latest(const std::string& key) const = 0;
  virtual std::map<std::string, Progress> All() const = 0;  // of all jobs that have answered
  virtual ProgressCounters counters() const = 0;
};

// Before a pass over a job: sets what its chief has said (`observed.progress`) and whom to ask from
// now on. `watch` may be null.
void ObserveProgress(ProgressWatch* watch, const std::string& key, Observed& observed);

}  // namespace tfjob
