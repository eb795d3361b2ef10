// The chief's checkpoints: when to write one, in the background, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/train/strategy.h"

namespace trainer {

struct CheckpointSaverOptions {
  std::string dir;             // "" = the saver does nothing
  absl::Duration every;        // zero = off
  int64_t every_steps = 1000;  // global steps; 0 = off
  int max_to_keep = 5;
  std::function<void(absl::Duration)> on_saved;  // told how long a save took; may be empty
};

// Owned by the training loop; writes on a thread of its own. A save that fails is logged and tried
// again at the next occasion: the previous checkpoint stays.
class CheckpointSaver {
 public:
  // `strategy` must outlive the saver.
  CheckpointSaver(const CheckpointSaverOptions& options, TrainStrategy* strategy);
  ~CheckpointSaver();  // waits for a save under way

  // Call after each step: starts a save when one is due and none is under way. Costs nothing else.
  void OnStep(int64_t global_step);

  // Starts a save of this step in the background unless one is under way.
  void RequestSave(int64_t global_step);

  // Waits for a save under way, then saves this step and returns how that went. At most `timeout`.
  absl::Status SaveNow(int64_t global_step, absl::Duration timeout);

 private:
  void Run(std::stop_token stop);
  absl::Status Save(int64_t global_step);

  const CheckpointSaverOptions options_;
  TrainStrategy* const strategy_;
  absl::Time last_time_;    // of the training thread
  int64_t last_step_ = -1;  // of the training thread
  int64_t steps_seen_ = 0;  // of the training thread

  absl::Mutex mutex_;
  int64_t requested_ ABSL_GUARDED_BY(mutex_) = -1;  // step to save; -1 = nothing to do
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status last_result_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace trainer
