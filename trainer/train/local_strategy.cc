#include "trainer/train/local_strategy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/ps/partition.h"
#include "trainer/ps/shard_parameters.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

// Everything that the processes of an all-reduce job must hold alike, as one flat run of floats.
std::vector<float> Flatten(const ShardState& state) {
  std::vector<float> flat;
  for (const StateSlice& slice : state.slices) {
    flat.insert(flat.end(), slice.elements().begin(), slice.elements().end());
  }
  // A step above 2^24 does not fit one float.
  flat.push_back(static_cast<float>(state.global_step >> 20));
  flat.push_back(static_cast<float>(state.global_step & ((1 << 20) - 1)));
  return flat;
}

void Unflatten(std::span<const float> flat, ShardState& state) {
  size_t at = 0;
  for (StateSlice& slice : state.slices) {
    slice.borrowed = flat.subspan(at, slice.borrowed.size());
    at += slice.borrowed.size();
  }
  state.global_step = (static_cast<int64_t>(flat[at]) << 20) + static_cast<int64_t>(flat[at + 1]);
}

class LocalStrategy : public TrainStrategy {
 public:
  explicit LocalStrategy(LocalStrategyOptions options)
      : options_(std::move(options)),
        gradients_(options_.model->parameter_count()),
        shard_(options_.job, PlaceVariables(options_.job.variables, 1, Placement::kRoundRobin)[0]) {
  }

  absl::StatusOr<StepResult> Start(std::stop_token) override {
    absl::MutexLock lock(&mutex_);
    std::vector<float> initial(options_.model->parameter_count());
    options_.model->Initialize(options_.seed, initial);
    shard_.Initialize(SpanSource(initial));
    if (options_.rank == 0) RETURN_IF_ERROR(Restore());
    if (options_.reducer != nullptr && !AlreadyDone()) RETURN_IF_ERROR(JoinGroup());
    values_ = shard_.values();
    return Result();
  }

  std::span<const float> parameters() const override { return values_->span(); }

  std::span<float> gradients() override { return gradients_; }

  absl::StatusOr<StepResult> Step(std::stop_token) override {
    if (options_.reducer != nullptr) {
      const absl::Status averaged = options_.reducer->Average(gradients_);
      if (absl::IsUnavailable(averaged)) return Regroup(averaged);
      RETURN_IF_ERROR(averaged);
    }
    absl::MutexLock lock(&mutex_);
    shard_.Apply(SpanSource(gradients_), 1.0f, global_step_, options_.team.get());
    ++global_step_;
    values_ = shard_.values();
    return Result();
  }

  absl::Status Averages(std::span<float> averages) override {
    absl::MutexLock lock(&mutex_);
    CopyTo(SpanSource(shard_.Averages()->span()), averages);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<SavedShard>> Save(const std::string& prefix) override {
    ShardCopy copy;
    {
      absl::MutexLock lock(&mutex_);
      copy = shard_.Copy(global_step_);
    }
    ASSIGN_OR_RETURN(std::string entries,
                     WriteShard(shard_.ToState(copy), prefix, 0, 1, options_.job.optimizer));
    return std::vector<SavedShard>{
        {.global_step = copy.global_step, .entries = std::move(entries)}};
  }

  absl::Status Finish() override {
    if (options_.reducer != nullptr) options_.reducer->Leave();
    return absl::OkStatus();
  }

 private:
  // A process was lost: waits until all are there again, then everyone goes on from rank 0's state.
  absl::StatusOr<StepResult> Regroup(const absl::Status& lost) {
    base::LogWarning("lost a worker; waiting for it to come back", {{"err", lost.message()}});
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(JoinGroup());
    values_ = shard_.values();
    StepResult result = Result();
    result.dropped = true;
    return result;
  }

  // Waits for the others until rank 0's state is everyone's. Somebody may be lost in between,
  // again.
  absl::Status JoinGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (true) {
      RETURN_IF_ERROR(options_.reducer->Join());
      const absl::Status shared = ShareState();
      if (!absl::IsUnavailable(shared)) return shared;
      base::LogWarning("lost a worker while joining", {{"err", shared.message()}});
    }
  }

  // The job's last checkpoint is there: the others have ended and nobody will come any more.
  bool AlreadyDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto ended = EndedAlready(options_.checkpoint_dir, options_.job.last_step);
    if (ended) global_step_ = std::max(global_step_, *ended);
    return ended.has_value();
  }

  StepResult Result() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {.global_step = global_step_,
            .finished = options_.job.last_step > 0 && global_step_ >= options_.job.last_step};
  }

  absl::Status Restore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.checkpoint_dir.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::optional<CheckpointInfo> newest,
                     FindNewestComplete(options_.checkpoint_dir));
    if (!newest) return absl::OkStatus();
    RETURN_IF_ERROR(CompareToModel(newest->prefix, options_.job.variables));
    ASSIGN_OR_RETURN(const ShardState state, ReadSlices(newest->prefix, shard_.Describe()));
    RETURN_IF_ERROR(shard_.Load(state));
    global_step_ = state.global_step;
    base::LogInfo("restored from a checkpoint",
                  {{"checkpoint", newest->prefix}, {"step", global_step_}});
    return absl::OkStatus();
  }

  // Rank 0's variables, slots, averages and step become everyone's.
  absl::Status ShareState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const ShardCopy copy = shard_.Copy(global_step_);
    ShardState state = shard_.ToState(copy);
    std::vector<float> flat = Flatten(state);
    RETURN_IF_ERROR(options_.reducer->Broadcast(flat));
    Unflatten(flat, state);
    RETURN_IF_ERROR(shard_.Load(state));
    global_step_ = state.global_step;
    return absl::OkStatus();
  }

  LocalStrategyOptions options_;
  std::vector<float> gradients_;
  SharedBuffer values_;  // of the training thread
  absl::Mutex mutex_;    // Save runs on another thread
  ShardParameters shard_ ABSL_GUARDED_BY(mutex_);
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<TrainStrategy> MakeLocalStrategy(LocalStrategyOptions options) {
  return std::make_unique<LocalStrategy>(std::move(options));
}

}  // namespace trainer
