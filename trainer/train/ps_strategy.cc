#include "trainer/train/ps_strategy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/task_client.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

constexpr absl::Duration kStatusTimeout = absl::Seconds(2);

bool IsClusterTrouble(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

class PsStrategy : public TrainStrategy {
 public:
  explicit PsStrategy(PsStrategyOptions options)
      : options_(std::move(options)),
        client_(PsClient::Create(options_.client)),
        parameter_count_(options_.model->parameter_count()) {}

  absl::StatusOr<StepResult> Start(std::stop_token stop) override { return Connect(stop); }

  std::span<const float> parameters() const override { return current_; }

  std::span<float> gradients() override {
    gradients_ = client_->gradients();
    return gradients_;
  }

  absl::StatusOr<StepResult> Step(std::stop_token stop) override {
    const std::span<float> next = NextVariables();
    absl::StatusOr<StepResult> result = client_->Exchange(gradients_, global_step_, next, stop);
    if (result.ok()) {
      current_ = next;
      global_step_ = result->global_step;
      return result;
    }
    if (!IsClusterTrouble(result.status()) || stop.stop_requested()) return result.status();
    base::LogWarning("lost a parameter server; waiting for it to come back",
                     {{"step", global_step_}, {"err", result.status().message()}});
    result = Connect(stop);
    if (result.ok()) result->dropped = true;
    return result;
  }

  absl::Status Averages(std::span<float> averages) override {
    // In memory shared with a ps they would lie where the variables are.
    if (const std::span<float> own = Own(own_variables_); current_.data() != own.data()) {
      std::ranges::copy(current_, own.begin());
      current_ = own;
    }
    return client_->PullAverages(averages);
  }

  absl::StatusOr<std::vector<SavedShard>> Save(const std::string& prefix) override {
    return client_->SaveShards(prefix);
  }

  absl::Status Finish() override {
    if (options_.chief) return client_->Finish();
    client_->Goodbye();
    return absl::OkStatus();
  }

  int64_t bytes_sent() const override { return client_->bytes_sent(); }
  int64_t bytes_received() const override { return client_->bytes_received(); }

 private:
  using Statuses = std::vector<absl::StatusOr<PsStatus>>;

  // Waits until every ps is ready (making it so as the chief), then pulls the variables.
  absl::StatusOr<StepResult> Connect(std::stop_token stop) {
    Waiter waiter(options_.wait_timeout, stop);
    const absl::Time start = absl::Now();
    while (true) {
      const Statuses statuses = client_->GetStatus(kStatusTimeout);
      std::vector<std::string> missing = Unreachable(statuses);
      if (AnyFinished(statuses)) return StepResult{.global_step = global_step_, .finished = true};
      if (missing.empty()) {
        const absl::StatusOr<StepResult> joined = TryJoin(statuses);
        if (joined.ok() || !IsClusterTrouble(joined.status())) return joined;
        missing = {std::string(joined.status().message())};
      } else if (missing.size() == statuses.size() && AlreadyDone(absl::Now() - start)) {
        return StepResult{.global_step = options_.job.last_step, .finished = true};
      }
      RETURN_IF_ERROR(waiter.StillWaitingFor(missing));
    }
  }

  // All ps answer. kUnavailable: say what is missing and look again.
  absl::StatusOr<StepResult> TryJoin(const Statuses& statuses) {
    std::vector<int> empty;
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (statuses[i]->state == PsState::kEmpty) empty.push_back(static_cast<int>(i));
    }
    if (!empty.empty()) {
      if (!options_.chief) {
        return base::ClusterError(
            absl::StrCat(options_.chief_name, " to initialise the variables"));
      }
      RETURN_IF_ERROR(Repair(statuses, empty));
    }
    current_ = Own(own_variables_);  // the memory of an earlier attachment goes
    RETURN_IF_ERROR(client_->Attach(options_.job));
    const std::span<float> next = NextVariables();
    absl::StatusOr<StepResult> pulled = client_->Pull(next);
    if (pulled.ok()) {
      current_ = next;
      global_step_ = pulled->global_step;
    }
    return pulled;
  }

  // Chief: gives every empty shard its values: from the newest complete checkpoint, else fresh
  // ones.
  absl::Status Repair(const Statuses& statuses, const std::vector<int>& empty) {
    const bool all_empty = empty.size() == statuses.size();
    int64_t others_step = 0;
    for (const auto& status : statuses) {
      if (status->state == PsState::kReady)
        others_step = std::max(others_step, status->global_step);
    }
    std::optional<CheckpointInfo> newest;
    if (!options_.checkpoint_dir.empty()) {
      ASSIGN_OR_RETURN(newest, FindNewestComplete(options_.checkpoint_dir));
    }
    if (newest) RETURN_IF_ERROR(CompareToModel(newest->prefix, options_.job.variables));
    std::vector<float> initial;
    for (const int server : empty) {
      RETURN_IF_ERROR(client_->Configure(server, options_.job));
      if (newest) {
        ASSIGN_OR_RETURN(const int64_t step, client_->RestoreShard(server, newest->prefix,
                                                                   all_empty ? -1 : others_step));
        base::LogInfo("restored a shard from a checkpoint",
                      {{"task", base::TaskName({"ps", server})},
                       {"checkpoint", newest->prefix},
                       {"step", step},
                       {"steps_lost",
                        std::max<int64_t>(0, std::max(others_step, global_step_) - newest->step)}});
        continue;
      }
      if (initial.empty()) {
        initial.resize(options_.model->parameter_count());
        options_.model->Initialize(options_.seed, initial);
      }
      if (!all_empty || global_step_ > 0) {
        base::LogWarning(
            "a parameter server came back empty and there is no checkpoint: its "
            "variables start anew; set --checkpoint_dir to keep them",
            {{"task", base::TaskName({"ps", server})}});
      }
      RETURN_IF_ERROR(client_->InitializeShard(server, initial, others_step));
    }
    return absl::OkStatus();
  }

  std::span<float> Own(std::vector<float>& buffer) const {
    buffer.resize(parameter_count_);  // not before it is needed
    return buffer;
  }

  std::span<float> NextVariables() {
    const std::span<float> in_place = client_->variables();
    return in_place.empty() ? Own(own_variables_) : in_place;
  }

  std::vector<std::string> Unreachable(const Statuses& statuses) const {
    std::vector<std::string> missing;
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (statuses[i].ok()) continue;
      const std::string why = WhyUnreachable(statuses[i].status(), options_.client.tls.get());
      missing.push_back(absl::StrCat(base::TaskName({"ps", static_cast<int>(i)}), " (",
                                     options_.client.addresses[i], why.empty() ? "" : ": ", why,
                                     ")"));
    }
    return missing;
  }

  static bool AnyFinished(const Statuses& statuses) {
    return std::any_of(statuses.begin(), statuses.end(), [](const auto& status) {
      return status.ok() && status->state == PsState::kFinished;
    });
  }

  // No ps is there any more: perhaps because training ended before this task came. The chief gives
  // servers that are only starting more time, since they wait for it.
  bool AlreadyDone(absl::Duration waited) const {
    if (waited < (options_.chief ? absl::Seconds(30) : absl::Seconds(2))) return false;
    return EndedAlready(options_.checkpoint_dir, options_.job.last_step).has_value();
  }

  const PsStrategyOptions options_;
  const std::unique_ptr<PsClient> client_;
  const size_t parameter_count_;
  std::vector<float> own_variables_;
  std::span<float> gradients_;      // of the step under way
  std::span<const float> current_;  // the variables
  int64_t global_step_ = 0;
};

}  // namespace

std::unique_ptr<TrainStrategy> MakePsStrategy(PsStrategyOptions options) {
  return std::make_unique<PsStrategy>(std::move(options));
}

}  // namespace trainer
