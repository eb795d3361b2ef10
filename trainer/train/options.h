// Everything that a user can set on the trainer's command line, checked before any resource is
// taken. PURE: the arguments and TF_CONFIG come in by parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cluster_spec.h"

namespace trainer {

struct Options {
  std::vector<std::string> args;  // as given: an in-graph client hands them to its workers

  // The cluster, from flags; TF_CONFIG fills what they leave out (see role.h).
  std::string job_name;
  int task_index = -1;  // -1 = not given
  std::string ps_hosts;
  std::string worker_hosts;
  std::string chief_hosts;
  std::string tls_dir;            // files of mutual TLS between tasks; "" = plain text
  bool existing_servers = false;  // in-graph: drive standing servers from this process

  // The model and its settings; unset = the preset's.
  std::string preset = "mnist-mlp";
  std::string config;                   // YAML file; flags win over it
  std::optional<int64_t> train_steps;   // global steps
  std::optional<int64_t> batch_size;    // examples per tower
  std::optional<double> learning_rate;  // base of the schedule
  std::optional<double> learning_rate_decay;
  std::optional<int64_t> decay_steps;
  std::optional<bool> staircase;
  std::optional<std::string> optimizer;
  std::optional<double> momentum;
  std::optional<double> l2;
  std::optional<double> ema_decay;      // 0 = no moving averages
  std::optional<double> clip_norm;      // global norm of the gradients; 0 = off
  std::optional<int64_t> hidden_units;  // of the preset's hidden layer
  uint64_t seed = 1;

  // Updates.
  std::string strategy = "auto";  // auto | local | ps | allreduce
  bool sync_replicas = false;
  int replicas_to_aggregate = 0;  // 0 = number of workers
  int total_num_replicas = 0;     // 0 = number of workers
  std::string placement = "round_robin";
  int num_towers = 1;
  int num_gpus = 0;
  std::string wire_dtype = "f32";
  std::string compute_dtype = "f32";
  bool same_node = true;  // shared memory with a ps on this machine
  int num_threads = 0;    // 0 = the cores that this process may use

  // Data.
  std::string data_dir;  // "" = digits synthesised in memory
  bool shard_data = false;

  // Checkpoints and what people see.
  std::string checkpoint_dir;            // "" = none
  std::string summary_dir;               // "" = checkpoint_dir
  double save_checkpoint_secs = 60;      // 0 = off
  int64_t save_checkpoint_steps = 1000;  // 0 = off
  int max_to_keep = 5;
  int64_t summary_steps = -1;  // 0 = no event files; -1 = the preset's (100, sigmoid-mnist 1)
  int64_t log_every = 0;       // local steps; 0 = the preset's
  int64_t steps_to_validate = 1000;
  std::string log_format = "text";  // text | json
  std::string log_level = "info";
  std::string progress = "auto";  // auto | bar | lines | none
  int metrics_port = 0;           // 0 = off
  int64_t eval_every_steps = 0;   // chief evaluates the test set; 0 = only at the end
  double eval_every_secs = 10;    // evaluator task
  double target_accuracy = 0;     // stop when reached; 0 = off

  // Devices.
  bool log_device_placement = false;
  bool allow_soft_placement = true;
  bool require_gpu = false;
  double per_process_gpu_memory_fraction = 1.0;
  bool allow_growth = false;
  bool allow_tf32 = false;               // GPUs: matrix products round their inputs to TF32
  std::string compute_device = "CPU:0";  // no flag: where main has put the model

  // Waiting.
  double wait_timeout_secs = 600;      // for other tasks, then exit 138
  double termination_grace_secs = 25;  // chief: for the final checkpoint after SIGTERM

  // Sub-commands that share these flags.
  bool exit_when_done = false;  // serve: end after the first session
  std::string checkpoint;       // eval, export: one checkpoint prefix; "" = the newest
  std::string export_format = "safetensors";
  std::string output;
};

// Parses `args` (without the program's name). kInvalidArgument lists every problem, one a line:
// unknown flags with the nearest known one, wrong values, values that still carry shell quotes.
absl::StatusOr<Options> ParseOptions(std::vector<std::string> args);

// All problems of the values themselves, one a line; OK if there are none.
absl::Status ValidateOptions(const Options& options);

// The text of --help.
std::string OptionsHelp();

}  // namespace trainer
