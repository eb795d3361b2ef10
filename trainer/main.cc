// The trainer: one binary for every task of a training cluster. Arguments and environment are read
// here and nowhere else.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/task_tls.h"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/data/data_main.h"
#include "trainer/devices/choose_backend.h"
#include "trainer/devices/inventory.h"
#include "trainer/devices/placement.h"
#include "trainer/ps/partition.h"
#include "trainer/ps/tune_malloc.h"
#include "trainer/train/check.h"
#include "trainer/train/evaluator.h"
#include "trainer/train/in_graph.h"
#include "trainer/train/options.h"
#include "trainer/train/ps_task.h"
#include "trainer/train/role.h"
#include "trainer/train/settings.h"
#include "trainer/train/train.h"

namespace trainer {
namespace {

const std::vector<std::string> kCommands = {"train", "eval",  "devices", "data", "export",
                                            "check", "serve", "version", "help"};

// Turns SIGTERM and SIGINT into a stop request; a second signal ends the process at once. Signals
// are blocked in every thread and taken by one of its own, so no handler runs in between.
class SignalWatcher {
 public:
  SignalWatcher() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR2}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this, signals] { Watch(signals); });
  }
  ~SignalWatcher() {
    done_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }

  std::stop_token token() const { return stop_.get_token(); }
  // 143 or 130 after a signal, 0 before.
  int exit_code() const { return exit_code_; }
  // How long the process may take to end after the first signal.
  void set_grace(absl::Duration grace) { grace_seconds_ = absl::ToInt64Seconds(grace); }

 private:
  void Watch(sigset_t signals) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || done_) return;
    exit_code_ = signal == SIGINT ? base::kExitInterrupted : base::kExitTerminated;
    base::LogInfo("stopping; a second signal ends this task at once",
                  {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
    stop_.request_stop();
    const timespec grace{.tv_sec = grace_seconds_, .tv_nsec = 0};
    const int again = sigtimedwait(&signals, nullptr, &grace);
    if (done_) return;
    base::LogWarning(again > 0 ? "second signal: ending at once" : "grace is over: ending at once");
    _exit(exit_code_);
  }

  std::stop_source stop_;
  std::atomic<int> exit_code_{0};
  std::atomic<bool> done_{false};
  std::atomic<int64_t> grace_seconds_{4};
  std::thread thread_;
};

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void ApplyEnvironment(Options& options) {
  if (options.tls_dir.empty()) options.tls_dir = Environment(base::kTaskTlsDirEnv);
  int number = 0;
  // Wins over the flag: `trainyard run` says so where the tasks of a job share one machine's ports.
  if (absl::SimpleAtoi(Environment("TRAINYARD_METRICS_PORT"), &number)) {
    options.metrics_port = number;
  }
  if (options.num_threads == 0 && absl::SimpleAtoi(Environment("OMP_NUM_THREADS"), &number) &&
      number > 0) {
    options.num_threads = number;
  }
}

void ConfigureLogging(const Options& options) {
  const std::map<std::string, base::LogLevel> levels = {{"debug", base::LogLevel::kDebug},
                                                        {"info", base::LogLevel::kInfo},
                                                        {"warning", base::LogLevel::kWarning},
                                                        {"error", base::LogLevel::kError}};
  base::ConfigureLog(options.log_format == "json" ? base::LogFormat::kJson : base::LogFormat::kText,
                     levels.at(options.log_level));
}

absl::Status RunTask(const Options& options, const Role& role, Backend& backend,
                     std::stop_token stop) {
  if (role.task.job == "ps") return RunPs(options, role, stop);
  if (role.task.job == "evaluator") return RunEvaluator(options, role, backend, stop);
  if (options.existing_servers) return RunInGraphClient(options, role, backend, stop);
  return RunTraining(options, role, backend, stop);
}

DeviceEnvironment VisibleDevices() {
  DeviceEnvironment environment;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    environment.cuda_visible_devices = visible;
  }
  environment.plugin = Environment("TRAINYARD_CUDA_PLUGIN");
  return environment;
}

// Full device name of each variable: its parameter server's, or none at all without such.
std::vector<std::string> VariableDevices(const Options& options, const Role& role,
                                         const Model& model) {
  const absl::StatusOr<Placement> placement = ParsePlacement(options.placement);
  if (role.ps_addresses.empty() || !placement.ok()) return {};
  std::vector<std::string> devices(model.variables().size());
  const std::vector<Shard> shards =
      PlaceVariables(model.variables(), static_cast<int>(role.ps_addresses.size()), *placement);
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const Segment& segment : shards[i].segments) {
      devices[segment.variable] = absl::StrCat("/job:ps/replica:0/task:", i, "/device:CPU:0");
    }
  }
  return devices;
}

// The devices that a task may compute on.
DeviceInventory DevicesFor(const std::string& command, const Options& options) {
  if (command != "serve" && !options.existing_servers) return FindDevices(VisibleDevices());
  DeviceEnvironment cpus = VisibleDevices();
  cpus.cuda_visible_devices = "";
  DeviceInventory inventory = FindDevices(cpus);
  inventory.no_gpu_reason = "`trainer serve` and --existing_servers compute on CPUs only";
  return inventory;
}

void LogChoice(const DeviceInventory& inventory, const Chosen& chosen) {
  for (const std::string& warning : chosen.placements.warnings) base::LogWarning(warning);
  for (const DeviceInfo& info : inventory.devices) {
    const auto& gpus = chosen.gpus;
    if (info.device.type == DeviceType::kCpu) continue;
    if (std::find(gpus.begin(), gpus.end(), info.device.index) == gpus.end()) continue;
    base::LogInfo("computing on a GPU", {{"device", ToString(info.device)}, {"name", info.name}});
  }
}

// The backend of a task that computes, as its flags for devices ask; writes what
// --log_device_placement asks for. Tells the options where the model runs.
absl::StatusOr<std::unique_ptr<Backend>> FindBackend(const std::string& command, const Role& role,
                                                     Options& options) {
  // Parameter servers never touch a GPU.
  if (role.task.job == "ps") return MakeCpuBackend();
  const DeviceInventory inventory = DevicesFor(command, options);
  ASSIGN_OR_RETURN(const Settings settings, ResolveSettings(options));
  const DeviceChoice choice = {.task_index = role.task.index,
                               .num_gpus = options.num_gpus,
                               .require_gpu = options.require_gpu,
                               .allow_soft_placement = options.allow_soft_placement,
                               .memory_fraction = options.per_process_gpu_memory_fraction,
                               .allow_growth = options.allow_growth,
                               .allow_tf32 = options.allow_tf32};
  ASSIGN_OR_RETURN(Chosen chosen, ChooseBackend(*settings.model, inventory, choice));
  LogChoice(inventory, chosen);
  options.compute_device = ToString(chosen.placements.device);
  if (options.log_device_placement) {
    const std::string task =
        absl::StrCat("/job:", role.task.job, "/replica:0/task:", role.task.index);
    for (const std::string& line :
         DevicePlacementLines(*settings.model, inventory, chosen.placements.device, task,
                              VariableDevices(options, role, *settings.model))) {
      std::cerr << line << "\n";
    }
  }
  return std::move(chosen.backend);
}

absl::Status RunCommand(const std::string& command, Options options, SignalWatcher& signals) {
  ApplyEnvironment(options);
  ConfigureLogging(options);
  ASSIGN_OR_RETURN(Role role, ResolveRole(options, Environment("TF_CONFIG"), command == "check"));
  for (const std::string& warning : role.warnings) base::LogWarning(warning);
  if (!options.tls_dir.empty() && !role.cluster.empty()) {
    ASSIGN_OR_RETURN(role.tls, TaskTls::Load(options.tls_dir));
  }
  if (command == "export") return RunExport(options);
  if (command == "check") return RunCheck(options, role, signals.token());
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, FindBackend(command, role, options));
  if (command == "eval") return RunEval(options, *backend);
  if (command == "serve" && role.task.job != "ps") {
    return RunStandingServer(options, role, *backend, signals.token());
  }
  if (role.chief) signals.set_grace(absl::Seconds(options.termination_grace_secs + 1));
  return RunTask(options, role, *backend, signals.token());
}

int Report(const absl::Status& status, const SignalWatcher& signals) {
  if (status.ok()) return base::kExitOk;
  if (absl::IsCancelled(status) && signals.exit_code() != 0) {
    base::LogInfo(std::string(status.message()));
    return signals.exit_code();
  }
  base::LogError("the task failed",
                 {{"exit_code", base::ExitCodeFor(status)}, {"err", status.message()}});
  return base::ExitCodeFor(status);
}

void PrintHelp() {
  std::cout << "trainer [train]            train: as one task of a cluster, or alone\n"
               "trainer eval               accuracy of a checkpoint on the test set\n"
               "trainer export             a checkpoint as safetensors or ONNX\n"
               "trainer devices            the CPUs and GPUs of this machine, each tried out\n"
               "trainer data synthesize|download|to-tfrecord\n"
               "trainer check              is every task of this cluster reachable?\n"
               "trainer serve              a standing server for an --existing_servers client\n"
               "trainer version\n\nThe cluster comes from TF_CONFIG or from flags:\n"
            << OptionsHelp();
}

int UsageFailure(std::string_view message) {
  std::cerr << "trainer: " << message << "\n";
  return base::kExitUsage;
}

int Main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  std::string command = "train";
  if (!args.empty() && args[0].substr(0, 1) != "-") {
    command = args[0];
    args.erase(args.begin());
  }
  const bool help = std::find(args.begin(), args.end(), "--help") != args.end();
  if (command == "data") return DataMain(argc - 1, argv + 1);
  if (command == "help" || help) {
    PrintHelp();
    return base::kExitOk;
  }
  if (command == "version") {
    std::cout << "trainer " << TRAINYARD_VERSION << "\n";
    return base::kExitOk;
  }
  if (std::find(kCommands.begin(), kCommands.end(), command) == kCommands.end()) {
    const std::string nearest = base::Nearest(command, kCommands);
    return UsageFailure(
        absl::StrCat("unknown command `", command, "`",
                     nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (",
                     absl::StrJoin(kCommands, ", "), ")"));
  }
  absl::StatusOr<Options> options = ParseOptions(std::move(args));
  if (!options.ok()) return UsageFailure(std::string(options.status().message()));
  if (command == "devices") return DevicesMain(options->require_gpu, VisibleDevices());
  TuneMalloc();
  SignalWatcher signals;
  return Report(RunCommand(command, *std::move(options), signals), signals);
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  // Before gRPC looks, and no thread is there. gRPC's own resolver goes on asking for the IPv6
  // address of a task that has none, up to the name servers outside of the cluster; the system's is
  // content with the other one. Set already: the user wants it so.
  setenv("GRPC_DNS_RESOLVER", "native", /*replace=*/0);
  return trainer::Main(argc, argv);
}
