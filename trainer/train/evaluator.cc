#include "trainer/train/evaluator.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/export.h"
#include "trainer/data/input.h"
#include "trainer/report/monitor.h"
#include "trainer/report/summary.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/settings.h"
#include "trainer/train/task_server.h"
#include "trainer/train/train.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

// A compiled model and the test set.
class CheckpointEvaluator {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointEvaluator>> Create(const Options& options,
                                                                     Backend& backend) {
    auto evaluator = std::make_unique<CheckpointEvaluator>();
    ASSIGN_OR_RETURN(evaluator->settings, ResolveSettings(options));
    ASSIGN_OR_RETURN(const std::shared_ptr<DataSource> data,
                     OpenTrainingData(options, evaluator->settings));
    ASSIGN_OR_RETURN(evaluator->test, data->Test());
    ResolveSteps(options, 0, evaluator->settings);
    ASSIGN_OR_RETURN(evaluator->program, backend.Compile(evaluator->settings.model,
                                                         EvaluationProgram(evaluator->settings)));
    return evaluator;
  }

  absl::StatusOr<Evaluation> Evaluate(const std::string& prefix, int64_t* global_step) {
    ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadTensors(prefix));
    *global_step = checkpoint.global_step;
    std::vector<float> parameters(settings.model->parameter_count());
    RETURN_IF_ERROR(
        FillParameters(checkpoint, settings.model->variables(), /*averages=*/true, parameters));
    return trainer::Evaluate(*program, *settings.model, *test, parameters,
                             EvaluationProgram(settings).batch_size);
  }

  Settings settings;
  std::shared_ptr<const Dataset> test;
  std::unique_ptr<Program> program;
};

void PrintEvaluation(int64_t global_step, const Evaluation& evaluation) {
  absl::PrintF("eval global_step=%d test_accuracy=%.4f test_cross_entropy=%.6f\n", global_step,
               evaluation.accuracy, evaluation.cross_entropy_sum / evaluation.examples);
  std::fflush(stdout);
}

absl::StatusOr<std::string> ChosenCheckpoint(const Options& options) {
  if (!options.checkpoint.empty()) return options.checkpoint;
  if (options.checkpoint_dir.empty()) {
    return base::UsageError("give --checkpoint_dir=FOLDER or --checkpoint=PREFIX");
  }
  ASSIGN_OR_RETURN(const auto newest, FindNewestComplete(options.checkpoint_dir));
  if (!newest) {
    return base::DataError(absl::StrCat(options.checkpoint_dir,
                                        " holds no complete checkpoint (model.ckpt-STEP.index)"));
  }
  return newest->prefix;
}

}  // namespace

absl::Status RunEvaluator(const Options& options, const Role& role, Backend& backend,
                          std::stop_token stop) {
  if (options.checkpoint_dir.empty()) {
    return base::UsageError(
        "an evaluator needs --checkpoint_dir, the folder that the chief saves to");
  }
  std::unique_ptr<TaskServer> server;
  if (!role.address.empty()) {
    ASSIGN_OR_RETURN(server, TaskServer::Start({.listen_address = ListenAddress(role.address),
                                                .task = role.task,
                                                .tls = role.tls}));
  }
  ASSIGN_OR_RETURN(const auto evaluator, CheckpointEvaluator::Create(options, backend));
  const int64_t last_step = evaluator->settings.train_steps;
  std::unique_ptr<Monitor> monitor;
  if (options.metrics_port > 0) {
    ASSIGN_OR_RETURN(
        monitor,
        Monitor::Start({.port = options.metrics_port, .task = role.task, .last_step = last_step}));
  }
  const std::string logdir =
      options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
  ASSIGN_OR_RETURN(const auto summaries,
                   SummaryWriter::Create({.dir = absl::StrCat(logdir, "/eval")}));
  const absl::Duration timeout = absl::Seconds(options.wait_timeout_secs);
  absl::Time last_news = absl::Now();
  absl::Time next_log = last_news + absl::Seconds(10);
  int64_t seen = -1;
  while (!stop.stop_requested()) {
    ASSIGN_OR_RETURN(const auto newest, FindNewestComplete(options.checkpoint_dir));
    if (newest && newest->step != seen) {
      seen = newest->step;
      last_news = absl::Now();
      next_log = last_news + absl::Seconds(10);
      int64_t global_step = 0;
      const absl::StatusOr<Evaluation> evaluation =
          evaluator->Evaluate(newest->prefix, &global_step);
      // A checkpoint may be swept away between being found and being read; look again.
      if (!evaluation.ok() && VerifyCheckpoint(newest->prefix).ok()) return evaluation.status();
      if (evaluation.ok()) {
        PrintEvaluation(global_step, *evaluation);
        summaries->AddScalar(global_step, "accuracy/test",
                             static_cast<float>(evaluation->accuracy));
        if (monitor != nullptr) {
          monitor->OnEvaluation(evaluation->accuracy);
          monitor->SetTotals({.global_step = global_step});
        }
      }
      if (last_step > 0 && seen >= last_step) return summaries->Close();
      continue;
    }
    const absl::Time now = absl::Now();
    if (now - last_news >= timeout) {
      return base::ClusterError(absl::StrCat("no new checkpoint in ", options.checkpoint_dir,
                                             " for ", absl::FormatDuration(timeout),
                                             " (--wait_timeout sets how long)"));
    }
    if (now >= next_log) {
      base::LogInfo(absl::StrCat("still waiting for a new checkpoint in ", options.checkpoint_dir,
                                 ", ", absl::ToInt64Seconds(now - last_news), " s"));
      next_log += absl::Seconds(10);
    }
    base::PauseFor(absl::Seconds(options.eval_every_secs), stop);
  }
  return absl::CancelledError("stopped");
}

absl::Status RunEval(const Options& options, Backend& backend) {
  ASSIGN_OR_RETURN(const std::string prefix, ChosenCheckpoint(options));
  ASSIGN_OR_RETURN(const auto evaluator, CheckpointEvaluator::Create(options, backend));
  int64_t global_step = 0;
  ASSIGN_OR_RETURN(const Evaluation evaluation, evaluator->Evaluate(prefix, &global_step));
  PrintEvaluation(global_step, evaluation);
  return absl::OkStatus();
}

absl::Status RunExport(const Options& options) {
  if (options.output.empty()) return base::UsageError("export: give --output=FILE");
  ASSIGN_OR_RETURN(const std::string prefix, ChosenCheckpoint(options));
  ASSIGN_OR_RETURN(const Settings settings, ResolveSettings(options));
  ASSIGN_OR_RETURN(const ExportFormat format, ParseExportFormat(options.export_format));
  RETURN_IF_ERROR(ExportCheckpoint(
      *settings.model, {.checkpoint = prefix, .output = options.output, .format = format}));
  absl::PrintF("wrote %s from %s\n", options.output, prefix);
  return absl::OkStatus();
}

}  // namespace trainer
