#include "operator/parallel.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace tfjob {
namespace {

// One ForEach. Shared, because helpers may come to it after it has ended.
class Batch {
 public:
  Batch(int n, const std::function<bool(int)>& work) : size_(n), work_(work) {}

  void Work() {
    for (int i = Take(); i >= 0; i = Take()) {
      const bool go_on = work_(i);
      absl::MutexLock lock(&mutex_);
      --running_;
      if (!go_on) next_ = size_;
    }
  }

  void AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Batch* batch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return batch->running_ == 0 && batch->next_ == batch->size_;
        },
        this));
  }

 private:
  int Take() {
    absl::MutexLock lock(&mutex_);
    if (next_ == size_) return -1;
    ++running_;
    return next_++;
  }

  const int size_;
  const std::function<bool(int)>& work_;  // valid while an index is out
  absl::Mutex mutex_;
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Helpers::Helpers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Help(); });
}

Helpers::~Helpers() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  threads_.clear();
}

void Helpers::Help() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return closing_ || !tasks_.empty(); };
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void Helpers::ForEach(int n, int width, const std::function<bool(int)>& work) {
  if (n <= 0) return;
  const auto batch = std::make_shared<Batch>(n, work);
  const int helpers = std::min({n - 1, width - 1, static_cast<int>(threads_.size())});
  if (helpers > 0) {
    absl::MutexLock lock(&mutex_);
    for (int i = 0; i < helpers; ++i) tasks_.push_back([batch] { batch->Work(); });
  }
  batch->Work();
  batch->AwaitEnd();
}

}  // namespace tfjob
