// Runs the calls of one job side by side: helper threads that all jobs share, and the caller
// itself.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tfjob {

// Thread-safe. Outlives every ForEach.
class Helpers {
 public:
  explicit Helpers(int threads);
  ~Helpers();  // joins

  // Calls work(0) … work(n-1), each once, at most `width` at a time, and returns when all have
  // ended. Never waits for a free helper: the caller works too. A call that returns false lets
  // those that run end, and no further one begins.
  void ForEach(int n, int width, const std::function<bool(int)>& work);

 private:
  void Help();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tfjob
