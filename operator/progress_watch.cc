#include "operator/progress_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"
#include "operator/progress_ask.h"
#include "operator/runtime/log_throttle.h"

namespace tfjob {
namespace {

// A task that has just started does not answer yet: not worth a line.
constexpr int kFailuresToTell = 3;

class ProgressWatchImpl : public ProgressWatch {
 public:
  explicit ProgressWatchImpl(ProgressWatchOptions options)
      : options_(std::move(options)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  ~ProgressWatchImpl() override {
    Stop();
    if (wake_ >= 0) (void)::close(wake_);
  }

  void Start() override {
    absl::MutexLock lock(&mutex_);
    if (wake_ < 0 || thread_.joinable())
      return;  // without it there is no progress, and that is all
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  void Stop() override {
    std::jthread thread;
    {
      absl::MutexLock lock(&mutex_);
      thread = std::move(thread_);
      jobs_.clear();
      due_.clear();
    }
    thread.request_stop();
    Wake();
  }  // joins

  void Follow(const std::string& key, const std::optional<ProgressTarget>& target,
              absl::Time last_read) override {
    {
      absl::MutexLock lock(&mutex_);
      const auto known = jobs_.find(key);
      if (known == jobs_.end() && (!target || !thread_.joinable())) return;
      if (known != jobs_.end() && target && known->second.target == *target) return;
      if (known != jobs_.end()) {
        due_.erase({known->second.due, key});
        jobs_.erase(known);
      }
      if (!target) return;
      const absl::Time now = clock_->Now();
      const absl::Time due = std::clamp(last_read + target->interval, now, now + target->interval);
      jobs_[key] = {.target = *target, .due = due, .number = ++last_number_};
      due_.insert({due, key});
    }
    Wake();
  }

  std::optional<Progress> Latest(const std::string& key) const override {
    absl::MutexLock lock(&mutex_);
    const auto known = jobs_.find(key);
    return known == jobs_.end() ? std::nullopt : known->second.latest;
  }

  std::map<std::string, Progress> All() const override {
    absl::MutexLock lock(&mutex_);
    std::map<std::string, Progress> out;
    for (const auto& [key, job] : jobs_) {
      if (job.latest) out.emplace(key, *job.latest);
    }
    return out;
  }

  ProgressCounters counters() const override {
    absl::MutexLock lock(&mutex_);
    return counters_;
  }

 private:
  struct Job {
    ProgressTarget target;
    absl::Time due;      // of the next ask; InfiniteFuture while one is under way
    int64_t number = 0;  // tells it from an earlier target of that key
    int failures = 0;    // in a row
    std::optional<Progress> latest;
  };
  struct Open {
    std::string key;
    int64_t number = 0;
    absl::Time deadline;
    std::unique_ptr<ProgressAsk> ask;
  };

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t size = ::write(wake_, &one, sizeof one);
  }

  void Run(const std::stop_token& stop) {
    std::vector<Open> open;
    while (!stop.stop_requested()) {
      for (const auto& [key, job] : TakeDue(open.size())) {
        open.push_back({.key = key,
                        .number = job.number,
                        .deadline = clock_->Now() + options_.timeout,
                        .ask = std::make_unique<ProgressAsk>(job.target.ip, job.target.port)});
      }
      CloseEnded(open);
      Poll(open);
    }
  }

  // Those to be asked now.
  std::vector<std::pair<std::string, Job>> TakeDue(size_t open) {
    std::vector<std::pair<std::string, Job>> out;
    const absl::Time now = clock_->Now();
    absl::MutexLock lock(&mutex_);
    while (!due_.empty() && due_.begin()->first <= now && next_start_ <= now &&
           open + out.size() < static_cast<size_t>(options_.max_open)) {
      const std::string key = due_.begin()->second;
      due_.erase(due_.begin());
      Job& job = jobs_[key];
      job.due = absl::InfiniteFuture();
      out.emplace_back(key, job);
      // A thread that was late may catch up with a tenth of a second's asks at once.
      next_start_ = std::max(next_start_, now - absl::Milliseconds(100)) +
                    absl::Seconds(1 / options_.max_per_second);
    }
    return out;
  }

  // Waits for an answer, a deadline, the next ask or Wake.
  void Poll(const std::vector<Open>& open) {
    absl::Time until = absl::InfiniteFuture();
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    for (const Open& each : open) {
      fds.push_back({each.ask->fd(), each.ask->events(), 0});
      until = std::min(until, each.deadline);
    }
    if (open.size() < static_cast<size_t>(options_.max_open)) {
      absl::MutexLock lock(&mutex_);
      if (!due_.empty()) until = std::min(until, std::max(due_.begin()->first, next_start_));
    }
    const absl::Duration wait =
        std::clamp(until - clock_->Now(), absl::ZeroDuration(), absl::Hours(1));
    // Rounded up, so that what was waited for is due.
    if (::poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1) <= 0)
      return;
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t size = ::read(wake_, &wakes, sizeof wakes);
    for (size_t i = 0; i < open.size(); ++i) {
      if (fds[i + 1].revents != 0) open[i].ask->Advance();
    }
  }

  void CloseEnded(std::vector<Open>& open) {
    const absl::Time now = clock_->Now();
    std::erase_if(open, [&](const Open& each) {
      if (each.ask->result()) {
        Settle(each, *each.ask->result());
      } else if (each.deadline <= now) {
        Settle(each, absl::DeadlineExceededError("does not answer in time"));
      } else {
        return false;
      }
      return true;
    });
  }

  void Settle(const Open& ended, const absl::StatusOr<Progress>& answer) {
    bool is_news = false;
    int failures = 0;
    {
      absl::MutexLock lock(&mutex_);
      ++(answer.ok() ? counters_.answered : counters_.failed);
      const auto known = jobs_.find(ended.key);
      if (known == jobs_.end() || known->second.number != ended.number) return;
      Job& job = known->second;
      const absl::Time now = clock_->Now();
      if (answer.ok()) {
        is_news = job.latest != *answer;
        job.latest = *answer;
        job.failures = 0;
        job.due = now + job.target.interval;
      } else {
        job.due = now + Backoff(job.failures++, job.target.interval);
      }
      failures = job.failures;
      due_.insert({job.due, ended.key});
    }
    if (is_news && options_.on_news) options_.on_news(ended.key);
    if (failures < kFailuresToTell || !throttle_.Allows(std::string(answer.status().message())))
      return;
    base::LogInfo("a job does not tell its progress",
                  {{"job", ended.key}, {"err", answer.status().message()}});
  }

  absl::Duration Backoff(int failures, absl::Duration interval) const {
    return std::min(options_.first_retry * (1LL << std::min(failures, 20)),
                    std::max(options_.max_retry, interval));
  }

  const ProgressWatchOptions options_;
  base::Clock* const clock_ = base::Clock::Steady();
  const int wake_;
  runtime::LogThrottle throttle_{clock_};  // of the thread
  mutable absl::Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, std::string>> due_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_start_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  ProgressCounters counters_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ProgressWatch> ProgressWatch::Create(ProgressWatchOptions options) {
  return std::make_unique<ProgressWatchImpl>(std::move(options));
}

}  // namespace tfjob
