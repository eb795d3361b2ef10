// What a training run shows: lines or bar, /metrics, and TensorBoard summaries, fed once a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/data/input.h"
#include "trainer/report/monitor.h"
#include "trainer/report/progress.h"
#include "trainer/report/summary.h"
#include "trainer/train/options.h"
#include "trainer/train/role.h"
#include "trainer/train/settings.h"
#include "trainer/train/strategy.h"
#include "trainer/train/train_step.h"

namespace trainer {

// Not thread-safe: owned by the training loop.
class RunReporter {
 public:
  // `strategy` and `settings` must outlive the object. Opens the metrics port and, as the chief,
  // the event file where they are asked for.
  static absl::StatusOr<std::unique_ptr<RunReporter>> Create(
      const Options& options, const Role& role, const Settings& settings, TrainStrategy* strategy,
      int64_t first_step, int64_t batches_per_epoch);

  // After each step. `gradients`: of this step; empty where another process ran it.
  void OnStep(const StepOutcome& outcome, std::span<const float> gradients);
  // Chief: whether this step's batch accuracy is wanted in the summaries (costs a forward pass).
  bool WantsBatchAccuracy(int64_t global_step) const;
  void OnBatchAccuracy(int64_t global_step, double accuracy);
  void OnCheckpoint(absl::Duration took);  // thread-safe
  void OnEvaluation(int64_t global_step, double accuracy, std::string_view set);
  void OnFinish(FinalReport report);

  int64_t local_steps() const { return local_steps_; }
  int64_t dropped() const { return dropped_; }
  double last_loss() const { return last_loss_; }

 private:
  RunReporter(const Options& options, const Role& role, const Settings& settings,
              TrainStrategy* strategy, int64_t batches_per_epoch);
  void Summarize(int64_t global_step, float loss, std::span<const float> gradients);

  const Settings& settings_;
  TrainStrategy* const strategy_;
  const ProgressStyle style_;
  const int64_t summary_steps_;
  const int64_t batches_per_epoch_;
  std::unique_ptr<Monitor> monitor_;          // null = off
  std::unique_ptr<SummaryWriter> summaries_;  // null = off
  std::unique_ptr<ProgressReporter> progress_;
  LearningRateSchedule schedule_;
  absl::Time start_;
  int64_t local_steps_ = 0;
  int64_t dropped_ = 0;
  double last_loss_ = 0;
  int64_t last_summary_ = -1;    // global step
  int64_t last_histogram_ = -1;  // global step
  absl::Time summary_time_;
  int64_t summary_examples_ = 0;
  int64_t steps_until_look_ = 0;  // steps until the clock is read for /metrics
  absl::Time look_time_;
};

}  // namespace trainer
