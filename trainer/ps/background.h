// One thread that runs jobs in their order: work that blocks, off the threads that must not.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace trainer {

// Thread-safe. The destructor finishes the jobs that were added.
class Background {
 public:
  Background() : thread_([this] { Run(); }) {}
  ~Background() {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  void Add(std::function<void()> job) {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> job;
      {
        absl::MutexLock lock(&mutex_, absl::Condition(this, &Background::Ready));
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: stops before the rest goes
};

}  // namespace trainer
