#include "trainer/train/train.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "base/task_tls.h"
#include "trainer/train/checkpoint_saver.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/local_strategy.h"
#include "trainer/train/ps_strategy.h"
#include "trainer/train/remote_step.h"
#include "trainer/train/run_reporter.h"
#include "trainer/train/task_server.h"
#include "trainer/train/train_step.h"

namespace trainer {
namespace {

// How often a parameter server may be lost between the last step and the final checkpoint.
constexpr int kMaxLossesAtEnd = 10;
// Updates of fewer elements are over before a second thread has begun.
constexpr int64_t kSharedUpdate = 64 * 1024;

bool LostServer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status);
}

// One run of the loop, and what the chief does beside it.
class Training {
 public:
  Training(const Options& options, const Role& role, Backend& backend, std::stop_token stop)
      : options_(options), role_(role), backend_(backend), stop_(std::move(stop)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Prepare());
    ASSIGN_OR_RETURN(StepResult at, strategy_->Start(stop_));
    RETURN_IF_ERROR(StartReporting(at.global_step));
    if (role_.chief && !at.finished) saver_->RequestSave(at.global_step);
    next_evaluation_ = at.global_step + options_.eval_every_steps;
    for (int losses = 0;; ++losses) {
      ASSIGN_OR_RETURN(at, StepUntilEnd(at));
      if (stop_.stop_requested() && !at.finished) return Interrupted(at.global_step);
      const absl::Status ended = Finish(at.global_step);
      if (!LostServer(ended) || losses == kMaxLossesAtEnd || stop_.stop_requested()) return ended;
      base::LogWarning("lost a parameter server before the end was saved; waiting for it",
                       {{"step", at.global_step}, {"err", ended.message()}});
      ASSIGN_OR_RETURN(at, strategy_->Start(stop_));
    }
  }

 private:
  // Steps until the last one, the wanted accuracy or a stop. Returns where training is then.
  absl::StatusOr<StepResult> StepUntilEnd(StepResult at) {
    while (!at.finished && !reached_target_ && !stop_.stop_requested()) {
      absl::StatusOr<StepOutcome> outcome = step_->Run(stop_);
      if (!outcome.ok()) {
        if (absl::IsCancelled(outcome.status())) break;
        return outcome.status();
      }
      at = outcome->result;
      RETURN_IF_ERROR(AfterStep(*outcome));
    }
    return at;
  }

  absl::Status Prepare() {
    ASSIGN_OR_RETURN(settings_, ResolveSettings(options_));
    if (role_.strategy == Strategy::kLocal && settings_.threads > 1 && settings_.towers == 1 &&
        settings_.model->parameter_count() >= kSharedUpdate) {
      settings_.team = std::make_shared<Team>(settings_.threads);
    }
    if (!role_.address.empty()) {
      ASSIGN_OR_RETURN(server_, TaskServer::Start({.listen_address = ListenAddress(role_.address),
                                                   .task = role_.task,
                                                   .tls = role_.tls}));
    }
    ASSIGN_OR_RETURN(data_, OpenTrainingData(options_, settings_));
    ASSIGN_OR_RETURN(input_, OpenInput(options_, settings_, *data_, role_.rank,
                                       std::max<int>(1, static_cast<int>(role_.trainers.size()))));
    ResolveSteps(options_, input_->examples_per_epoch(), settings_);
    ASSIGN_OR_RETURN(strategy_, MakeStrategy(options_, settings_, role_, server_.get(), stop_));
    if (options_.existing_servers) {
      step_ = MakeRemoteStep(options_, role_, strategy_.get());
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(
        step_, TrainStep::Create(options_, settings_, backend_, input_.get(), strategy_.get()));
    return absl::OkStatus();
  }

  absl::Status StartReporting(int64_t first_step) {
    const int64_t examples = settings_.spec.batch_size * settings_.towers;
    ASSIGN_OR_RETURN(reporter_, RunReporter::Create(
                                    options_, role_, settings_, strategy_.get(), first_step,
                                    input_->examples_per_epoch() / std::max<int64_t>(1, examples)));
    saver_ = std::make_unique<CheckpointSaver>(
        CheckpointSaverOptions{
            .dir = role_.chief ? options_.checkpoint_dir : "",
            .every = absl::Seconds(options_.save_checkpoint_secs),
            .every_steps = options_.save_checkpoint_steps,
            .max_to_keep = options_.max_to_keep,
            .on_saved = [this](absl::Duration took) { reporter_->OnCheckpoint(took); }},
        strategy_.get());
    return absl::OkStatus();
  }

  absl::Status AfterStep(const StepOutcome& outcome) {
    const int64_t global_step = outcome.result.global_step;
    if (step_->batch().size > 0 && reporter_->WantsBatchAccuracy(global_step))
      RETURN_IF_ERROR(ReportBatchAccuracy(global_step));
    reporter_->OnStep(outcome, step_->gradients());
    if (!role_.chief) return absl::OkStatus();
    saver_->OnStep(global_step);
    if (options_.eval_every_steps > 0 && global_step >= next_evaluation_) {
      next_evaluation_ = global_step + options_.eval_every_steps;
      const auto evaluated = EvaluateAverages(TestSet());
      if (LostServer(evaluated.status())) {  // the next step waits for who was lost
        base::LogWarning("not evaluated",
                         {{"step", global_step}, {"err", evaluated.status().message()}});
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(const std::optional<Evaluation> test, evaluated);
      if (test) {
        reporter_->OnEvaluation(global_step, test->accuracy, "test");
        base::LogInfo("evaluated", {{"step", global_step}, {"test_accuracy", test->accuracy}});
        reached_target_ =
            options_.target_accuracy > 0 && test->accuracy >= options_.target_accuracy;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReportBatchAccuracy(int64_t global_step) {
    RETURN_IF_ERROR(CompileEvaluation());
    const Batch& batch = step_->batch();
    const int64_t classes = settings_.model->output_size();
    outputs_.resize(batch.size * classes);
    int64_t right = 0;
    const int64_t chunk = EvaluationProgram(settings_).batch_size;
    for (int64_t begin = 0; begin < batch.size; begin += chunk) {
      const int64_t count = std::min(chunk, batch.size - begin);
      const int64_t inputs = settings_.model->input_size();
      RETURN_IF_ERROR(evaluation_->Forward(
          {.size = count, .inputs = batch.inputs.subspan(begin * inputs, count * inputs)},
          strategy_->parameters(), std::span(outputs_).first(count * classes)));
      for (int64_t i = 0; i < count; ++i) {
        const auto row = outputs_.begin() + i * classes;
        right += std::max_element(row, row + classes) - row == batch.labels[begin + i];
      }
    }
    reporter_->OnBatchAccuracy(global_step, static_cast<double>(right) / batch.size);
    return absl::OkStatus();
  }

  absl::Status CompileEvaluation() {
    if (evaluation_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(evaluation_, backend_.Compile(settings_.model, EvaluationProgram(settings_)));
    return absl::OkStatus();
  }

  using Set = absl::StatusOr<std::shared_ptr<const Dataset>>;
  Set TestSet() { return data_->Test(); }

  // Evaluates the moving averages on `set`; nullopt where this kind of data has no such set.
  absl::StatusOr<std::optional<Evaluation>> EvaluateAverages(const Set& set) {
    std::vector<float> averages(settings_.model->parameter_count());
    RETURN_IF_ERROR(strategy_->Averages(averages));
    return EvaluateParameters(set, averages);
  }

  absl::StatusOr<std::optional<Evaluation>> EvaluateParameters(const Set& set,
                                                               std::span<const float> parameters) {
    if (absl::IsNotFound(set.status())) return std::nullopt;
    RETURN_IF_ERROR(set.status());
    if (settings_.model->spec().loss == LossKind::kMeanSquaredError) return std::nullopt;
    RETURN_IF_ERROR(CompileEvaluation());
    ASSIGN_OR_RETURN(const Evaluation result,
                     Evaluate(*evaluation_, *settings_.model, **set, parameters,
                              EvaluationProgram(settings_).batch_size));
    return result;
  }

  // Stopped by a signal: the chief leaves a checkpoint behind, the others leave.
  absl::Status Interrupted(int64_t global_step) {
    if (role_.chief) {
      const absl::Status saved =
          saver_->SaveNow(global_step, absl::Seconds(options_.termination_grace_secs));
      if (!saved.ok()) {
        base::LogError("no final checkpoint", {{"step", global_step}, {"err", saved.message()}});
      }
    } else {
      (void)strategy_->Finish();
    }
    return absl::CancelledError(absl::StrCat("stopped at global step ", global_step));
  }

  // The end of training: final checkpoint, then the servers are told to end, then the accuracy.
  // Cluster trouble: the last variables are lost, or not saved; nobody was told to end.
  absl::Status Finish(int64_t global_step) {
    FinalReport report{.global_step = global_step};
    if (!role_.chief) {
      RETURN_IF_ERROR(strategy_->Finish());
      reporter_->OnFinish(report);
      return absl::OkStatus();
    }
    std::vector<float> averages(settings_.model->parameter_count());
    const absl::Status pulled = strategy_->Averages(averages);
    if (LostServer(pulled)) return pulled;
    const absl::Status saved = saver_->SaveNow(global_step, absl::Minutes(2));
    if (LostServer(saved)) return saved;
    report.seconds = absl::ToDoubleSeconds(absl::Now() - start_);
    if (absl::Status finished = strategy_->Finish(); !finished.ok()) {
      base::LogWarning("could not tell every parameter server to end",
                       {{"err", finished.message()}});
    }
    if (pulled.ok()) {
      ASSIGN_OR_RETURN(const auto test, EvaluateParameters(TestSet(), averages));
      if (test) report.test_accuracy = test->accuracy;
      if (settings_.spec.lines == LineStyle::kDistMnist) {
        ASSIGN_OR_RETURN(const auto validation, EvaluateParameters(data_->Validation(), averages));
        if (validation) report.validation_cross_entropy = validation->cross_entropy_sum;
      }
      if (test) reporter_->OnEvaluation(global_step, test->accuracy, "test");
    }
    if (settings_.spec.lines == LineStyle::kSigmoidMnist)
      report.final_cost = reporter_->last_loss();
    reporter_->OnFinish(report);
    return saved;
  }

  const Options& options_;
  const Role& role_;
  Backend& backend_;
  const std::stop_token stop_;
  const absl::Time start_ = absl::Now();
  Settings settings_;
  std::unique_ptr<TaskServer> server_;
  std::shared_ptr<DataSource> data_;
  std::unique_ptr<Input> input_;
  std::unique_ptr<TrainStrategy> strategy_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<RunReporter> reporter_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<Program> evaluation_;
  std::vector<float> outputs_;
  int64_t next_evaluation_ = 0;
  bool reached_target_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DataSource>> OpenTrainingData(const Options& options,
                                                             const Settings& settings) {
  DataOptions data;
  data.data_dir = options.data_dir;
  if (settings.spec.data == TrainingData::kLinear) data.kind = DataKind::kLinear;
  return OpenData(data);
}

absl::StatusOr<std::unique_ptr<Input>> OpenInput(const Options& options, const Settings& settings,
                                                 DataSource& data, int rank, int ranks) {
  BatcherOptions batcher;
  batcher.batch_size = settings.spec.batch_size * settings.towers;
  batcher.seed = options.seed + static_cast<uint64_t>(rank);
  if (options.shard_data) {
    batcher.seed = options.seed;
    batcher.shard = rank;
    batcher.shard_count = ranks;
  }
  return data.NewInput(batcher);
}

namespace {

// Better no training than one that looks protected and is not.
absl::Status NoTlsForAllReduce() {
  return base::UsageError(absl::StrCat(
      "all-reduce cannot speak TLS: its library, Gloo, is built without it. Train with parameter "
      "servers, or leave --tls_dir and $",
      base::kTaskTlsDirEnv, " away (in a TFJob: annotation trainyard.dev/task-tls: \"false\")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainStrategy>> MakeStrategy(const Options& options,
                                                            const Settings& settings,
                                                            const Role& role, TaskServer* server,
                                                            std::stop_token stop) {
  ASSIGN_OR_RETURN(JobConfig job, MakeJobConfig(options, settings, role));
  if (role.strategy == Strategy::kLocal || role.strategy == Strategy::kAllreduce) {
    LocalStrategyOptions local;
    local.job = std::move(job);
    local.model = settings.model;
    local.checkpoint_dir = options.checkpoint_dir;
    local.seed = options.seed;
    local.rank = role.rank;
    local.team = settings.team;
    if (role.strategy == Strategy::kAllreduce) {
      if (role.tls != nullptr) return NoTlsForAllReduce();
      ASSIGN_OR_RETURN(
          local.reducer,
          AllReducer::Create({.role = role,
                              .server = server,
                              .rendezvous_timeout = absl::Seconds(options.wait_timeout_secs),
                              .stop = stop}));
    }
    return MakeLocalStrategy(std::move(local));
  }
  PsStrategyOptions ps;
  ps.client.addresses = role.ps_addresses;
  ps.client.task = role.task;
  ps.client.incarnation = base::RandomId();
  ps.client.wire_dtype = options.wire_dtype == "bf16" ? WireDtype::kBf16 : WireDtype::kF32;
  ps.client.same_node = options.same_node;
  ps.client.tls = role.tls;
  ps.client.trainers = role.trainers;
  ps.job = std::move(job);
  ps.model = settings.model;
  ps.chief = role.chief;
  ps.chief_name = role.trainers.empty() ? "the chief" : base::TaskName(role.trainers.front());
  ps.checkpoint_dir = options.checkpoint_dir;
  ps.seed = options.seed;
  ps.wait_timeout = absl::Seconds(options.wait_timeout_secs);
  return MakePsStrategy(std::move(ps));
}

absl::Status RunTraining(const Options& options, const Role& role, Backend& backend,
                         std::stop_token stop) {
  return Training(options, role, backend, std::move(stop)).Run();
}

}  // namespace trainer
