#include "trainer/train/run_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/model/schedule.h"
#include "trainer/ps/partition.h"

namespace trainer {
namespace {

constexpr int64_t kHistogramEvery = 10;  // summaries

ProgressStyle StyleOf(const Settings& settings) {
  switch (settings.spec.lines) {
    case LineStyle::kDistMnist:
      return ProgressStyle::kDistMnist;
    case LineStyle::kSigmoidMnist:
      return ProgressStyle::kSigmoid;
    case LineStyle::kLinearRegression:
      return ProgressStyle::kLinearRegression;
    case LineStyle::kMnistMlp:
      break;
  }
  return settings.towers > 1 ? ProgressStyle::kTowers : ProgressStyle::kCluster;
}

int64_t SummarySteps(const Options& options, ProgressStyle style) {
  if (options.summary_steps >= 0) return options.summary_steps;
  return style == ProgressStyle::kSigmoid ? 1 : 100;
}

ProgressOptions ProgressFrom(const Options& options, const Role& role, const Settings& settings,
                             ProgressStyle style, int64_t first_step) {
  ProgressOptions progress;
  progress.style = style;
  progress.worker = role.task.index;
  progress.log_every = options.progress == "none" ? -1 : options.log_every;
  if (style == ProgressStyle::kLinearRegression && options.log_every == 0) {
    progress.log_every = options.steps_to_validate;
  }
  progress.json = options.log_format == "json";
  progress.bar = options.progress == "bar" || (options.progress == "auto" && isatty(1) == 1);
  progress.first_step = first_step;
  progress.last_step = settings.train_steps;
  return progress;
}

GraphDevices DevicesOf(const Options& options, const Role& role, const Settings& settings) {
  GraphDevices devices;
  devices.default_device =
      absl::StrCat(base::TaskName(role.task), "/device:", options.compute_device);
  const auto placement = ParsePlacement(options.placement);
  if (role.ps_addresses.empty() || !placement.ok()) return devices;
  const std::vector<Variable>& variables = settings.model->variables();
  const std::vector<Shard> shards =
      PlaceVariables(variables, static_cast<int>(role.ps_addresses.size()), *placement);
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const Segment& segment : shards[i].segments) {
      devices.variables.emplace(
          variables[segment.variable].name,
          absl::StrCat(base::TaskName({"ps", static_cast<int>(i)}), "/device:CPU:0"));
    }
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunReporter>> RunReporter::Create(
    const Options& options, const Role& role, const Settings& settings, TrainStrategy* strategy,
    int64_t first_step, int64_t batches_per_epoch) {
  std::unique_ptr<RunReporter> reporter(
      new RunReporter(options, role, settings, strategy, batches_per_epoch));
  if (options.metrics_port > 0) {
    ASSIGN_OR_RETURN(reporter->monitor_, Monitor::Start({.port = options.metrics_port,
                                                         .task = role.task,
                                                         .last_step = settings.train_steps}));
  }
  const std::string dir =
      options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
  if (role.chief && reporter->summary_steps_ > 0 && !dir.empty()) {
    ASSIGN_OR_RETURN(reporter->summaries_, SummaryWriter::Create({.dir = dir}));
    reporter->summaries_->AddGraph(*settings.model, DevicesOf(options, role, settings));
  }
  reporter->progress_ = std::make_unique<ProgressReporter>(
      ProgressFrom(options, role, settings, reporter->style_, first_step));
  reporter->last_summary_ = first_step;
  reporter->last_histogram_ = first_step;
  return reporter;
}

RunReporter::RunReporter(const Options& options, const Role& role, const Settings& settings,
                         TrainStrategy* strategy, int64_t batches_per_epoch)
    : settings_(settings),
      strategy_(strategy),
      style_(StyleOf(settings)),
      summary_steps_(SummarySteps(options, style_)),
      batches_per_epoch_(std::max<int64_t>(1, batches_per_epoch)),
      schedule_(ResolvedSchedule(settings.spec)),
      start_(absl::Now()),
      summary_time_(start_),
      look_time_(start_) {}

void RunReporter::OnStep(const StepOutcome& outcome, std::span<const float> gradients) {
  ++local_steps_;
  if (outcome.result.dropped) ++dropped_;
  last_loss_ = outcome.loss;
  StepReport report{.local_step = local_steps_,
                    .global_step = outcome.result.global_step,
                    .loss = outcome.loss,
                    .examples = outcome.examples};
  if (style_ == ProgressStyle::kSigmoid) {
    report.epoch = (local_steps_ - 1) / batches_per_epoch_ + 1;
    report.batch = (local_steps_ - 1) % batches_per_epoch_ + 1;
    report.batches_per_epoch = batches_per_epoch_;
  } else if (style_ == ProgressStyle::kLinearRegression) {
    const std::span<const float> parameters = strategy_->parameters();
    report.weight = parameters[0];
    report.bias = parameters[1];
  }
  progress_->OnStep(report);
  if (monitor_ != nullptr) {
    const absl::Time now = absl::Now();
    monitor_->OnStep({.global_step = outcome.result.global_step,
                      .loss = outcome.loss,
                      .examples = outcome.examples,
                      .seconds = absl::ToDoubleSeconds(now - look_time_),
                      .staleness = outcome.result.staleness,
                      .dropped = outcome.result.dropped});
    look_time_ = now;
    if (steps_until_look_-- <= 0) {
      monitor_->SetTotals({.wire_bytes_sent = strategy_->bytes_sent(),
                           .wire_bytes_received = strategy_->bytes_received()});
      steps_until_look_ = 100;
    }
  }
  summary_examples_ += outcome.examples;
  if (summaries_ != nullptr && outcome.result.global_step - last_summary_ >= summary_steps_) {
    Summarize(outcome.result.global_step, outcome.loss, gradients);
  }
}

bool RunReporter::WantsBatchAccuracy(int64_t global_step) const {
  return summaries_ != nullptr && style_ == ProgressStyle::kSigmoid &&
         global_step - last_summary_ >= summary_steps_;
}

void RunReporter::OnBatchAccuracy(int64_t global_step, double accuracy) {
  if (summaries_ != nullptr) {
    summaries_->AddScalar(global_step, "accuracy", static_cast<float>(accuracy));
  }
}

void RunReporter::Summarize(int64_t global_step, float loss, std::span<const float> gradients) {
  const absl::Time now = absl::Now();
  const double seconds = absl::ToDoubleSeconds(now - summary_time_);
  summaries_->AddScalar(global_step, style_ == ProgressStyle::kSigmoid ? "cost" : "loss", loss);
  summaries_->AddScalar(global_step, "learning_rate", LearningRate(schedule_, global_step));
  if (seconds > 0) {
    summaries_->AddScalar(global_step, "examples_per_second",
                          static_cast<float>(summary_examples_ / seconds));
  }
  if (global_step - last_histogram_ >= kHistogramEvery * std::max<int64_t>(summary_steps_, 10)) {
    const std::span<const float> parameters = strategy_->parameters();
    for (const Variable& variable : settings_.model->variables()) {
      summaries_->AddHistogram(global_step, variable.name,
                               parameters.subspan(variable.offset, variable.size));
      if (gradients.empty()) continue;
      summaries_->AddHistogram(global_step, absl::StrCat(variable.name, "/gradients"),
                               gradients.subspan(variable.offset, variable.size));
    }
    last_histogram_ = global_step;
  }
  last_summary_ = global_step;
  summary_time_ = now;
  summary_examples_ = 0;
}

void RunReporter::OnCheckpoint(absl::Duration took) {
  if (monitor_ != nullptr) monitor_->OnCheckpoint(took);
}

void RunReporter::OnEvaluation(int64_t global_step, double accuracy, std::string_view set) {
  if (monitor_ != nullptr) monitor_->OnEvaluation(accuracy);
  if (summaries_ != nullptr) {
    summaries_->AddScalar(global_step, absl::StrCat("accuracy/", std::string(set)),
                          static_cast<float>(accuracy));
  }
}

void RunReporter::OnFinish(FinalReport report) {
  report.local_steps = local_steps_;
  if (report.seconds == 0) report.seconds = absl::ToDoubleSeconds(absl::Now() - start_);
  if (summaries_ != nullptr) {
    if (absl::Status closed = summaries_->Close(); !closed.ok()) {
      base::LogError("summaries are incomplete", {{"err", closed.message()}});
    }
  }
  if (strategy_->bytes_sent() + strategy_->bytes_received() > 0) {
    base::LogInfo("wire", {{"bytes_sent", strategy_->bytes_sent()},
                           {"bytes_received", strategy_->bytes_received()},
                           {"dropped", dropped_}});
  }
  progress_->Finish(report);
}

}  // namespace trainer
