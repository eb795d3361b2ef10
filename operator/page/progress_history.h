// The progress of jobs over the last hour, for curves. In memory only; bounded in jobs and in
// points.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/api/progress.h"

namespace tfjob {

struct ProgressHistoryOptions {
  base::Clock* clock = base::Clock::Real();
  absl::Duration length = absl::Hours(1);
  absl::Duration spacing = absl::Seconds(10);  // of a job's points, but for its newest one
  size_t max_jobs = 1000;  // 8 MiB where each has all points; the one that was longest silent goes
};

struct ProgressPoint {
  int64_t seconds = 0;  // Unix time
  int64_t step = 0;
  float loss = 0;  // NaN: not told
  float rate = 0;  // examples per second; NaN: not told
};

// Thread-safe.
class ProgressHistory {
 public:
  explicit ProgressHistory(ProgressHistoryOptions options = {});

  // What the job's status says; nothing new is no new point. Another uid: another job, whose curve
  // begins.
  void Note(const std::string& key, const std::string& uid, const ProgressStatus& progress);
  void Forget(const std::string& key);
  // Of the last hour, by time.
  std::vector<ProgressPoint> Points(const std::string& key, const std::string& uid) const;
  size_t jobs() const;

 private:
  struct Job {
    std::string uid;
    std::deque<ProgressPoint> points;
  };
  const ProgressHistoryOptions options_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tfjob
