#include "trainer/train/options.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/exit_codes.h"
#include "base/nearest.h"

namespace trainer {
namespace {

void AddClusterFlags(CLI::App& app, Options& o) {
  app.add_option("--job_name", o.job_name, "This task's job: ps, worker, chief or evaluator");
  app.add_option("--task_index,--task_id", o.task_index, "This task's index in its job");
  app.add_option("--ps_hosts", o.ps_hosts, "host:port,… of the parameter servers");
  app.add_option("--worker_hosts", o.worker_hosts, "host:port,… of the workers");
  app.add_option("--chief_hosts", o.chief_hosts, "host:port of the chief, where there is one");
  app.add_flag("--existing_servers", o.existing_servers,
               "In-graph: drive the workers, which run as `trainer serve`, from this process");
  app.add_option(
      "--tls_dir", o.tls_dir,
      "Folder of ca.crt, tls.crt and tls.key: tasks speak mutual TLS ($TRAINYARD_TLS_DIR)");
  app.add_option("--wait_timeout", o.wait_timeout_secs,
                 "Seconds to wait for other tasks before giving up with exit code 138");
  app.add_option("--termination_grace", o.termination_grace_secs,
                 "Seconds that the chief may take for a final checkpoint after SIGTERM");
}

void AddModelFlags(CLI::App& app, Options& o) {
  app.add_option("--preset", o.preset,
                 "mnist-mlp, dist-mnist, sigmoid-mnist, linear-regression or lenet5");
  app.add_option("--config", o.config, "YAML file with a free model and settings; flags win");
  app.add_option("--train_steps,--training_steps", o.train_steps, "Last global step");
  app.add_option("--batch_size", o.batch_size, "Examples per step and tower");
  app.add_option("--learning_rate", o.learning_rate, "Base of the learning rate schedule");
  app.add_option("--learning_rate_decay", o.learning_rate_decay, "Factor per decay_steps");
  app.add_option("--decay_steps", o.decay_steps, "Global steps per decay");
  app.add_flag("--staircase,!--nostaircase", o.staircase, "Decay in steps instead of smoothly");
  app.add_option("--optimizer", o.optimizer, "sgd, momentum, adam or adagrad");
  app.add_option("--momentum", o.momentum, "Of the momentum optimiser");
  app.add_option("--l2", o.l2, "Weight of the L2 term");
  app.add_option("--ema_decay", o.ema_decay, "Decay of the variables' moving averages; 0 = none");
  app.add_option("--clip_norm", o.clip_norm, "Largest global norm of the gradients; 0 = off");
  app.add_option("--hidden_units", o.hidden_units, "Units of the preset's hidden layer");
  app.add_option("--seed", o.seed, "Of initial values, shuffles and dropout");
}

void AddUpdateFlags(CLI::App& app, Options& o) {
  app.add_option("--strategy", o.strategy, "auto, local, ps or allreduce");
  app.add_flag("--sync_replicas,!--nosync_replicas", o.sync_replicas,
               "Average the gradients of the workers before each update");
  app.add_option("--replicas_to_aggregate", o.replicas_to_aggregate,
                 "Gradients per update; fewer than workers = backup workers (0 = all workers)");
  app.add_option("--total_num_replicas", o.total_num_replicas,
                 "Workers that may run ahead per update (0 = all workers)");
  app.add_option("--placement", o.placement, "round_robin, balanced or partitioned");
  app.add_option("--num_towers", o.num_towers, "Model copies in this process, a batch each");
  app.add_option("--num_gpus", o.num_gpus, "GPUs of this task, a tower each");
  app.add_option("--wire_dtype", o.wire_dtype, "f32 or bf16 between worker and ps");
  app.add_option("--compute_dtype", o.compute_dtype, "f32 or bf16 inside matrix products");
  app.add_flag("--same_node,!--nosame_node", o.same_node,
               "Use shared memory with a ps on the same machine");
  app.add_option("--num_threads", o.num_threads, "Threads per step (0 = the cores allowed)");
}

void AddInputOutputFlags(CLI::App& app, Options& o) {
  app.add_option("--data_dir", o.data_dir,
                 "Folder with MNIST-format idx files or *.tfrecord (default: synthesised digits)");
  app.add_flag("--shard_data,!--noshard_data", o.shard_data,
               "Give each worker a disjoint part of the examples");
  app.add_option("--checkpoint_dir,--save_dir", o.checkpoint_dir, "Folder shared by all tasks");
  app.add_option("--summary_dir,--logdir", o.summary_dir, "TensorBoard files (checkpoint_dir)");
  app.add_option("--save_checkpoint_secs", o.save_checkpoint_secs, "0 = off");
  app.add_option("--save_checkpoint_steps", o.save_checkpoint_steps, "0 = off");
  app.add_option("--max_to_keep", o.max_to_keep, "Checkpoints kept");
  app.add_option("--summary_steps", o.summary_steps,
                 "Steps between summaries; 0 = none, -1 = the preset's");
  app.add_option("--log_every", o.log_every, "Local steps between lines; 0 = the preset's");
  app.add_option("--steps_to_validate", o.steps_to_validate, "linear-regression: steps per line");
  app.add_option("--log_format", o.log_format, "text or json");
  app.add_option("--log_level", o.log_level, "debug, info, warning or error");
  app.add_option("--progress", o.progress, "auto, bar, lines or none");
  app.add_option("--metrics_port", o.metrics_port, "Port of /metrics and /progress; 0 = off");
  app.add_option("--eval_every_steps", o.eval_every_steps, "Chief: global steps per evaluation");
  app.add_option("--eval_every_secs", o.eval_every_secs, "Evaluator: seconds between looks");
  app.add_option("--target_accuracy", o.target_accuracy, "Stop at this test accuracy; 0 = off");
  app.add_option("--checkpoint", o.checkpoint, "eval, export: a checkpoint prefix (the newest)");
  app.add_option("--format", o.export_format, "export: safetensors or onnx");
  app.add_option("--output", o.output, "export: the file to write");
  app.add_flag("--exit_when_done", o.exit_when_done, "serve: end after the first session");
}

void AddDeviceFlags(CLI::App& app, Options& o) {
  app.add_flag("--log_device_placement", o.log_device_placement, "Say where each op runs");
  app.add_flag("--allow_soft_placement,!--noallow_soft_placement", o.allow_soft_placement,
               "Fall back to the CPU for an op that cannot run on its device");
  app.add_flag("--require_gpu", o.require_gpu, "Exit with 2 when no GPU is usable");
  app.add_option("--per_process_gpu_memory_fraction", o.per_process_gpu_memory_fraction, "(0, 1]");
  app.add_flag("--allow_growth", o.allow_growth, "Let the GPU memory pool start small");
  app.add_flag("--allow_tf32", o.allow_tf32, "Matrix products on GPUs in TF32: faster, less exact");
}

void AddFlags(CLI::App& app, Options& o) {
  AddClusterFlags(app, o);
  AddModelFlags(app, o);
  AddUpdateFlags(app, o);
  AddInputOutputFlags(app, o);
  AddDeviceFlags(app, o);
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

bool CarriesQuotes(std::string_view value) {
  return value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
         value.back() == value.front();
}

// A value in shell quotes means that a script or manifest quoted twice: every parser after this one
// would blame something else, so it is said first.
void CheckQuotes(const std::vector<std::string>& args, std::vector<std::string>& problems) {
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    if (absl::StartsWith(args[i], "--") && equals != std::string::npos &&
        CarriesQuotes(std::string_view(args[i]).substr(equals + 1))) {
      problems.push_back(absl::StrCat(args[i].substr(0, equals), ": the value ",
                                      args[i].substr(equals + 1),
                                      " still carries shell quotes; remove them"));
    } else if (CarriesQuotes(args[i])) {
      problems.push_back(absl::StrCat(i > 0 ? args[i - 1] : "argument", ": the value ", args[i],
                                      " still carries shell quotes; remove them"));
    }
  }
}

void CheckChoice(std::string_view flag, const std::string& value,
                 const std::vector<std::string>& choices, std::vector<std::string>& problems) {
  for (const std::string& choice : choices) {
    if (value == choice) return;
  }
  const std::string nearest = base::Nearest(value, choices);
  problems.push_back(
      absl::StrCat(std::string(flag), ": `", value, "` is none of ", absl::StrJoin(choices, ", "),
                   nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

template <typename T>
void CheckRange(std::string_view flag, T value, double low, double high,
                std::vector<std::string>& problems) {
  if (static_cast<double>(value) >= low && static_cast<double>(value) <= high) return;
  problems.push_back(absl::StrCat(std::string(flag), ": ", value, " is outside ", low, " … ",
                                  std::isinf(high) ? std::string("∞") : absl::StrCat(high)));
}

}  // namespace

absl::StatusOr<Options> ParseOptions(std::vector<std::string> args) {
  Options options;
  options.args = args;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.option_defaults()->take_last();  // a flag given twice: scripts append their own
  AddFlags(app, options);
  std::vector<std::string> problems;
  CheckQuotes(args, problems);
  if (!problems.empty()) return base::UsageError(absl::StrJoin(problems, "\n"));
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes a stack
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    problems.push_back(error.what());
  }
  const std::vector<std::string> names = FlagNames(app);
  for (const std::string& extra : app.remaining()) {
    if (!absl::StartsWith(extra, "-")) {
      problems.push_back(absl::StrCat("unexpected argument `", extra, "`"));
      continue;
    }
    std::string name(absl::StripPrefix(absl::StripPrefix(extra, "-"), "-"));
    name = name.substr(0, name.find('='));
    const std::string nearest = base::Nearest(name, names);
    problems.push_back(absl::StrCat("unknown flag --", name,
                                    nearest.empty()
                                        ? "; see trainer --help"
                                        : absl::StrCat("; did you mean --", nearest, "?")));
  }
  if (!problems.empty()) return base::UsageError(absl::StrJoin(problems, "\n"));
  if (absl::Status valid = ValidateOptions(options); !valid.ok()) return valid;
  return options;
}

absl::Status ValidateOptions(const Options& o) {
  constexpr double kInf = INFINITY;
  std::vector<std::string> problems;
  CheckChoice("--strategy", o.strategy, {"auto", "local", "ps", "allreduce"}, problems);
  CheckChoice("--placement", o.placement, {"round_robin", "balanced", "partitioned"}, problems);
  CheckChoice("--wire_dtype", o.wire_dtype, {"f32", "bf16"}, problems);
  CheckChoice("--compute_dtype", o.compute_dtype, {"f32", "bf16"}, problems);
  CheckChoice("--log_format", o.log_format, {"text", "json"}, problems);
  CheckChoice("--log_level", o.log_level, {"debug", "info", "warning", "error"}, problems);
  CheckChoice("--progress", o.progress, {"auto", "bar", "lines", "none"}, problems);
  CheckChoice("--format", o.export_format, {"safetensors", "onnx"}, problems);
  if (!o.job_name.empty()) {
    CheckChoice("--job_name", o.job_name, {"ps", "worker", "chief", "master", "evaluator"},
                problems);
  }
  CheckRange("--task_index", o.task_index, -1, 1e6, problems);
  CheckRange("--train_steps", o.train_steps.value_or(1), 1, kInf, problems);
  CheckRange("--batch_size", o.batch_size.value_or(1), 1, 1e7, problems);
  CheckRange("--learning_rate", o.learning_rate.value_or(1), 0, kInf, problems);
  CheckRange("--learning_rate_decay", o.learning_rate_decay.value_or(1), 0, kInf, problems);
  CheckRange("--decay_steps", o.decay_steps.value_or(1), 0, kInf, problems);
  CheckRange("--l2", o.l2.value_or(0), 0, kInf, problems);
  CheckRange("--ema_decay", o.ema_decay.value_or(0), 0, 1, problems);
  CheckRange("--clip_norm", o.clip_norm.value_or(0), 0, kInf, problems);
  CheckRange("--hidden_units", o.hidden_units.value_or(1), 1, 1e6, problems);
  CheckRange("--replicas_to_aggregate", o.replicas_to_aggregate, 0, 1e6, problems);
  CheckRange("--total_num_replicas", o.total_num_replicas, 0, 1e6, problems);
  CheckRange("--num_towers", o.num_towers, 1, 1024, problems);
  CheckRange("--num_gpus", o.num_gpus, 0, 1024, problems);
  CheckRange("--num_threads", o.num_threads, 0, 4096, problems);
  CheckRange("--save_checkpoint_secs", o.save_checkpoint_secs, 0, kInf, problems);
  CheckRange("--save_checkpoint_steps", o.save_checkpoint_steps, 0, kInf, problems);
  CheckRange("--max_to_keep", o.max_to_keep, 1, 1e6, problems);
  CheckRange("--summary_steps", o.summary_steps, -1, kInf, problems);
  CheckRange("--log_every", o.log_every, 0, kInf, problems);
  CheckRange("--steps_to_validate", o.steps_to_validate, 1, kInf, problems);
  CheckRange("--metrics_port", o.metrics_port, 0, 65535, problems);
  CheckRange("--eval_every_steps", o.eval_every_steps, 0, kInf, problems);
  CheckRange("--eval_every_secs", o.eval_every_secs, 0.1, kInf, problems);
  CheckRange("--target_accuracy", o.target_accuracy, 0, 1, problems);
  CheckRange("--wait_timeout", o.wait_timeout_secs, 0, kInf, problems);
  CheckRange("--termination_grace", o.termination_grace_secs, 0, kInf, problems);
  if (o.per_process_gpu_memory_fraction <= 0 || o.per_process_gpu_memory_fraction > 1) {
    problems.push_back(absl::StrCat("--per_process_gpu_memory_fraction: ",
                                    o.per_process_gpu_memory_fraction, " is outside (0, 1]"));
  }
  if (problems.empty()) return absl::OkStatus();
  return base::UsageError(absl::StrJoin(problems, "\n"));
}

std::string OptionsHelp() {
  Options options;
  CLI::App app;
  app.set_help_flag();
  AddFlags(app, options);
  return app.help();
}

}  // namespace trainer
