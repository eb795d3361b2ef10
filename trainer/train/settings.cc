#include "trainer/train/settings.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "trainer/model/model_config.h"

namespace trainer {
namespace {

constexpr int64_t kMnistTrainExamples = 55000;

template <typename T, typename U>
void Override(const std::optional<T>& flag, U& value) {
  if (flag) value = static_cast<U>(*flag);
}

absl::Status OverrideHiddenUnits(const Options& options, ModelSpec& model) {
  if (!options.hidden_units) return absl::OkStatus();
  std::vector<LayerSpec*> dense;
  for (LayerSpec& layer : model.layers) {
    if (layer.kind == LayerKind::kDense) dense.push_back(&layer);
  }
  if (dense.size() < 2) {
    return base::UsageError(
        absl::StrCat("--hidden_units: model ", model.name, " has no hidden dense layer"));
  }
  dense[dense.size() - 2]->units = *options.hidden_units;
  return absl::OkStatus();
}

absl::Status OverrideFromFlags(const Options& options, TrainingSpec& spec) {
  Override(options.train_steps, spec.train_steps);
  if (options.train_steps) spec.epochs = 0;
  Override(options.batch_size, spec.batch_size);
  Override(options.learning_rate, spec.schedule.rate);
  Override(options.learning_rate_decay, spec.schedule.decay);
  Override(options.decay_steps, spec.schedule.decay_steps);
  if (options.decay_steps) spec.decay_examples = 0;
  Override(options.staircase, spec.schedule.staircase);
  if (options.optimizer) {
    ASSIGN_OR_RETURN(spec.optimizer.kind, ParseOptimizerKind(*options.optimizer));
  }
  Override(options.momentum, spec.optimizer.momentum);
  Override(options.l2, spec.model.l2);
  Override(options.ema_decay, spec.ema_decay);
  Override(options.clip_norm, spec.clip_norm);
  return OverrideHiddenUnits(options, spec.model);
}

// The CPU quota of this process's control group in cores (version 2, then 1); 0 = none.
double CpuQuota() {
  double quota = 0, period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period && period > 0) {
    return quota / period;
  }
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

}  // namespace

int UsableCores() {
  cpu_set_t set;
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  if (const double quota = CpuQuota(); quota > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(quota + 0.5)));
  }
  return cores;
}

absl::StatusOr<Settings> ResolveSettings(const Options& options) {
  Settings settings;
  if (options.config.empty()) {
    ASSIGN_OR_RETURN(settings.spec, MakePreset(options.preset));
  } else {
    ASSIGN_OR_RETURN(settings.spec, LoadTrainingSpec(options.config));
  }
  RETURN_IF_ERROR(OverrideFromFlags(options, settings.spec));
  ASSIGN_OR_RETURN(Model model, Model::Create(settings.spec.model));
  settings.model = std::make_shared<const Model>(std::move(model));
  settings.train_steps = settings.spec.epochs > 0 ? 0 : settings.spec.train_steps;
  settings.towers = std::max({options.num_towers, options.num_gpus, 1});
  settings.threads =
      options.num_threads > 0 ? options.num_threads : std::max(1, UsableCores() / settings.towers);
  return settings;
}

void ResolveSteps(const Options& options, int64_t examples, Settings& settings) {
  // Streams of records do not know their length beforehand: an epoch is MNIST's then.
  settings.train_steps = TrainSteps(settings.spec, examples > 0 ? examples : kMnistTrainExamples);
}

absl::StatusOr<JobConfig> MakeJobConfig(const Options& options, const Settings& settings,
                                        const Role& role) {
  JobConfig job;
  job.variables = settings.model->variables();
  ASSIGN_OR_RETURN(job.placement, ParsePlacement(options.placement));
  job.optimizer = settings.spec.optimizer;
  job.schedule = ResolvedSchedule(settings.spec);
  job.ema_decay = settings.spec.ema_decay;
  job.last_step = settings.train_steps;
  job.sync = role.strategy == Strategy::kSync;
  const int trainers = std::max<int>(1, static_cast<int>(role.trainers.size()));
  job.replicas_to_aggregate =
      options.replicas_to_aggregate > 0 ? options.replicas_to_aggregate : trainers;
  job.total_num_replicas = options.total_num_replicas > 0 ? options.total_num_replicas : trainers;
  return job;
}

ProgramOptions TrainingProgram(const Options& options, const Settings& settings) {
  ProgramOptions program;
  program.batch_size = settings.spec.batch_size;
  program.training = true;
  program.compute_dtype =
      options.compute_dtype == "bf16" ? ComputeDtype::kBf16 : ComputeDtype::kF32;
  program.threads = settings.threads;
  program.team = settings.team;
  return program;
}

ProgramOptions EvaluationProgram(const Settings& settings) {
  ProgramOptions program;
  program.batch_size = 500;
  program.training = false;
  program.threads = settings.threads;
  program.team = settings.team;
  return program;
}

}  // namespace trainer
