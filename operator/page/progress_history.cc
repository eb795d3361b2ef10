#include "operator/page/progress_history.h"

#include <algorithm>
#include <limits>

namespace tfjob {
namespace {

ProgressPoint PointOf(const ProgressStatus& progress) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const Progress& read = progress.read;
  return {.seconds = absl::ToUnixSeconds(progress.last_update_time),
          .step = read.global_step,
          .loss = read.loss ? static_cast<float>(*read.loss) : kNone,
          .rate = read.examples_per_sec ? static_cast<float>(*read.examples_per_sec) : kNone};
}

}  // namespace

ProgressHistory::ProgressHistory(ProgressHistoryOptions options) : options_(std::move(options)) {}

void ProgressHistory::Note(const std::string& key, const std::string& uid,
                           const ProgressStatus& progress) {
  const ProgressPoint point = PointOf(progress);
  const int64_t oldest = absl::ToUnixSeconds(options_.clock->Now() - options_.length);
  if (point.seconds < oldest) return;
  absl::MutexLock lock(&mutex_);
  Job& job = jobs_[key];
  if (job.uid != uid) job = {.uid = uid};
  std::deque<ProgressPoint>& points = job.points;
  if (!points.empty() && point.seconds <= points.back().seconds) return;
  // The newest point stands for what comes until it has its distance from the one before it.
  const bool is_near =
      points.size() > 1 && points.back().seconds - points[points.size() - 2].seconds <
                               absl::ToInt64Seconds(options_.spacing);
  if (is_near) points.pop_back();
  points.push_back(point);
  while (points.front().seconds < oldest) points.pop_front();
  if (jobs_.size() <= options_.max_jobs) return;
  jobs_.erase(std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
    return a.second.points.back().seconds < b.second.points.back().seconds;
  }));
}

void ProgressHistory::Forget(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  jobs_.erase(key);
}

std::vector<ProgressPoint> ProgressHistory::Points(const std::string& key,
                                                   const std::string& uid) const {
  const int64_t oldest = absl::ToUnixSeconds(options_.clock->Now() - options_.length);
  absl::MutexLock lock(&mutex_);
  const auto it = jobs_.find(key);
  if (it == jobs_.end() || it->second.uid != uid) return {};
  std::vector<ProgressPoint> out;
  for (const ProgressPoint& point : it->second.points) {
    if (point.seconds >= oldest) out.push_back(point);
  }
  return out;
}

size_t ProgressHistory::jobs() const {
  absl::MutexLock lock(&mutex_);
  return jobs_.size();
}

}  // namespace tfjob
