#include "trainer/train/checkpoint_saver.h"

#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"

namespace trainer {

CheckpointSaver::CheckpointSaver(const CheckpointSaverOptions& options, TrainStrategy* strategy)
    : options_(options), strategy_(strategy), last_time_(absl::Now()) {
  if (!options_.dir.empty()) {
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }
}

CheckpointSaver::~CheckpointSaver() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void CheckpointSaver::OnStep(int64_t global_step) {
  if (options_.dir.empty()) return;
  if (last_step_ < 0) last_step_ = global_step;
  const bool steps_due =
      options_.every_steps > 0 && global_step - last_step_ >= options_.every_steps;
  // Reading the clock costs more than the rest; a look every few steps is often enough.
  const bool look = (++steps_seen_ & 15) == 0;
  const bool time_due =
      look && options_.every > absl::ZeroDuration() && absl::Now() - last_time_ >= options_.every;
  if (steps_due || time_due) RequestSave(global_step);
}

void CheckpointSaver::RequestSave(int64_t global_step) {
  if (options_.dir.empty()) return;
  absl::MutexLock lock(&mutex_);
  if (busy_ || requested_ >= 0) return;
  requested_ = global_step;
  last_step_ = global_step;
  last_time_ = absl::Now();
}

absl::Status CheckpointSaver::SaveNow(int64_t global_step, absl::Duration timeout) {
  if (options_.dir.empty()) return absl::OkStatus();
  last_step_ = global_step;
  last_time_ = absl::Now();
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !busy_ && requested_ < 0; };
  if (!mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline)) {
    return absl::DeadlineExceededError("the checkpoint under way did not end in time");
  }
  requested_ = global_step;
  if (!mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline)) {
    return absl::DeadlineExceededError("the checkpoint was not written in time");
  }
  return last_result_;
}

void CheckpointSaver::Run(std::stop_token) {
  while (true) {
    int64_t step;
    {
      absl::MutexLock lock(&mutex_);
      const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || requested_ >= 0;
      };
      mutex_.Await(absl::Condition(&wanted));
      if (requested_ < 0) return;
      step = requested_;
      requested_ = -1;
      busy_ = true;
    }
    absl::Status result = Save(step);
    if (!result.ok()) {
      base::LogError("could not save a checkpoint; the previous one stays",
                     {{"step", step}, {"err", result.message()}});
    }
    absl::MutexLock lock(&mutex_);
    last_result_ = std::move(result);
    busy_ = false;
  }
}

absl::Status CheckpointSaver::Save(int64_t global_step) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const std::optional<std::string> prefix,
                   PrepareCheckpoint(options_.dir, global_step));
  if (!prefix) return absl::OkStatus();  // this step is saved already
  ASSIGN_OR_RETURN(const std::vector<SavedShard> shards, strategy_->Save(*prefix));
  std::vector<std::string> entries;
  for (const SavedShard& shard : shards) entries.push_back(shard.entries);
  RETURN_IF_ERROR(FinishCheckpoint(*prefix, entries));
  const absl::Duration took = absl::Now() - start;
  base::LogInfo("saved a checkpoint",
                {{"checkpoint", *prefix}, {"seconds", absl::ToDoubleSeconds(took)}});
  if (options_.on_saved) options_.on_saved(took);
  return Sweep(options_.dir, options_.max_to_keep).status();
}

}  // namespace trainer
