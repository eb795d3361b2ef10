#include "operator/cli/local_pod.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "base/task_tls.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/cli/consume.h"
#include "operator/cli/gpus.h"

namespace tfjob {
namespace {

namespace fs = std::filesystem;

constexpr char kDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kMetricsPort[] = "TRAINYARD_METRICS_PORT";
constexpr char kTrainer[] = "trainer";
constexpr char kFallbackPath[] = "/usr/local/bin:/usr/bin:/bin";

// What our own environment must not tell a container: who it is comes from its pod alone.
constexpr const char* kNotInherited[] = {"TF_CONFIG", "PS_HOSTS",   "WORKER_HOSTS",
                                         "JOB_NAME",  "TASK_INDEX", kMetricsPort,
                                         kDevices,    "HOSTNAME",   base::kTaskTlsDirEnv};

std::string LabelOf(const std::string& pod, const std::string& job) {
  const std::string prefix = job + "-";
  return absl::StartsWith(pod, prefix) ? pod.substr(prefix.size()) : pod;
}

std::string PathOf(const Environment& environment) {
  const auto path = environment.find("PATH");
  return path == environment.end() ? kFallbackPath : path->second;
}

std::string JoinPaths(const std::vector<Mount>& mounts) {
  std::string list;
  for (const Mount& mount : mounts) absl::StrAppend(&list, list.empty() ? "" : ", ", mount.path);
  return list;
}

absl::Status InContainer(const std::string& name, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), "container \"")) return status;
  return absl::Status(status.code(), base::StrCat("container \"", name, "\": ", status.message()));
}

}  // namespace

std::string TaskPortKey(const std::string& type, int index) {
  return base::StrCat(type, "-", index);
}

bool IsTrainerImage(std::string_view image) { return IsImageOf(image, TrainerImages()); }

std::string CheckpointFolder(const PodSetup& pod) {
  constexpr std::string_view kFlag = "--checkpoint_dir";
  for (const ContainerSetup& container : pod.containers) {
    const std::vector<std::string>& argv = container.process.argv;
    for (size_t i = 0; i < argv.size(); ++i) {
      std::string_view value = argv[i];
      if (!ConsumePrefix(value, kFlag)) continue;
      if (value.empty() && i + 1 < argv.size()) return RewritePaths(argv[i + 1], container.mounts);
      if (ConsumePrefix(value, "=")) return RewritePaths(value, container.mounts);
    }
  }
  return "";
}

void PodPreparer::AddSecret(const std::string& name, ConfigData data) {
  options_.config.secrets[name] = std::move(data);
}

PodPreparer::PodPreparer(LocalPodOptions options, std::map<std::string, std::string> mapped_volumes,
                         PortReserver& ports)
    : options_([&] {
        for (const char* name : kNotInherited) options.inherited.erase(name);
        return std::move(options);
      }()),
      volumes_(options_.work_dir, std::move(mapped_volumes)),
      ports_(ports) {}

Environment PodPreparer::LocalVariables(const PodSetup& pod, const std::string& container) const {
  Environment environment = options_.inherited;
  environment["HOSTNAME"] = pod.name;
  // Logs that people watch: by line, not by block.
  environment.emplace("PYTHONUNBUFFERED", "1");
  // Pods that each took every core would be in each other's way.
  const int threads = std::max(1, options_.cores / std::max(1, options_.compute_pods));
  environment.emplace("OMP_NUM_THREADS", base::StrCat(threads));
  // Scripts that call `trainer` find the one of this installation.
  environment["PATH"] = base::StrCat(PathOf(environment), ":", options_.program_dir);
  if (container == kContainerName) environment[kMetricsPort] = base::StrCat(pod.metrics_port);
  return environment;
}

absl::Status PodPreparer::SetCommand(const Json& container, const CommandLine& line,
                                     ContainerSetup& setup) const {
  std::vector<std::string>& argv = setup.process.argv;
  argv = line.command;
  const std::string image = base::StringAt(container, "image");
  if (argv.empty() && IsTrainerImage(image)) argv.push_back(kTrainer);
  if (argv.empty()) {
    return absl::InvalidArgumentError(
        base::StrCat("no command: images are not run here, so what \"", image,
                     "\" would start is unknown; set command, for example [python3, train.py]"));
  }
  argv.insert(argv.end(), line.args.begin(), line.args.end());
  setup.process.executables = Executables(argv.front(), PathOf(setup.environment));
  if (argv.front() != kTrainer) return absl::OkStatus();
  const std::string beside = (fs::path(options_.program_dir) / kTrainer).string();
  setup.process.executables.insert(setup.process.executables.begin(), beside);
  for (const std::string& path : setup.process.executables) {
    if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(base::StrCat("the trainer is neither beside this program (",
                                                 beside, ") nor on PATH: build or install it"));
}

absl::Status PodPreparer::SetRoot(const std::vector<Mount>& mounts, ContainerSetup& setup) const {
  if (options_.no_sandbox) return absl::OkStatus();  // the paths have been rewritten
  setup.process.isolation = options_.sandbox.isolation;
  if (mounts.empty()) return absl::OkStatus();
  if (options_.sandbox.isolation == Isolation::kNone) {
    if (AlreadyInPlace(mounts)) return absl::OkStatus();
    return absl::InvalidArgumentError(base::StrCat(
        "cannot show its volumes at ", JoinPaths(mounts), ": ", options_.sandbox.why_not,
        ". Run as root, permit user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt "
        "seccomp=unconfined), or use "
        "--no_sandbox, which rewrites the paths in command, args and env instead"));
  }
  setup.process.new_root = (fs::path(options_.work_dir) / "root").string();
  ASSIGN_OR_RETURN(setup.process.root, PlanRoot(mounts, setup.process.new_root));
  std::error_code error;  // without a current folder the command starts in the root
  const fs::path here = fs::current_path(error);
  if (setup.process.working_dir.empty() && !error) setup.process.working_dir = here.string();
  return absl::OkStatus();
}

absl::StatusOr<ContainerSetup> PodPreparer::PrepareContainer(const Json& container,
                                                             const PodContext& context,
                                                             const PodSetup& pod) {
  ContainerSetup setup;
  setup.name = base::StringAt(container, "name");
  const bool main = setup.name == kContainerName;
  setup.label = main ? pod.label : base::StrCat(pod.label, "/", setup.name);
  setup.log_path = (fs::path(options_.work_dir) / "logs" /
                    base::StrCat(pod.name, main ? "" : base::StrCat(".", setup.name), ".log"))
                       .string();
  ASSIGN_OR_RETURN(Environment declared, ContainerEnvironment(container, context));
  for (auto& [name, value] : declared)
    value = RewriteHosts(value, options_.hosts, options_.namespace_name);
  CommandLine line = ContainerCommandLine(container, declared);
  for (std::vector<std::string>* parts : {&line.command, &line.args}) {
    for (std::string& part : *parts)
      part = RewriteHosts(part, options_.hosts, options_.namespace_name);
  }
  ASSIGN_OR_RETURN(const std::vector<Mount> mounts,
                   volumes_.MountsOf(container, context, declared));
  setup.process.working_dir = base::StringAt(container, "workingDir");
  if (options_.no_sandbox) {
    for (auto& [name, value] : declared) value = RewritePaths(value, mounts);
    for (std::string& part : line.command) part = RewritePaths(part, mounts);
    for (std::string& part : line.args) part = RewritePaths(part, mounts);
    setup.process.working_dir = RewritePaths(setup.process.working_dir, mounts);
  }
  if (const auto devices = declared.extract(kDevices); !devices.empty())
    setup.wanted_devices = devices.mapped();
  ASSIGN_OR_RETURN(setup.gpus, GpusOfContainer(container));
  setup.environment = declared;
  setup.environment.merge(LocalVariables(pod, setup.name));  // what the manifest says stays
  // Processes can only share GPU memory with each other inside one PID namespace.
  setup.process.share_pids = setup.gpus > 0;
  RETURN_IF_ERROR(SetCommand(container, line, setup));
  RETURN_IF_ERROR(SetRoot(mounts, setup));
  setup.mounts = mounts;
  return setup;
}

absl::StatusOr<PodSetup> PodPreparer::Prepare(const CreatePod& action) {
  PodSetup pod;
  pod.name = action.name;
  pod.label = LabelOf(action.name, options_.job);
  pod.type = action.type;
  pod.index = action.index;
  pod.object = action.object;
  const std::string metrics_key = base::StrCat(action.name, "/metrics");
  ASSIGN_OR_RETURN(pod.metrics_port, ports_.Reserve(metrics_key));
  pod.port_keys = {TaskPortKey(action.type, action.index), metrics_key};
  std::error_code ignored;  // emptyDir volumes begin empty with each pod
  fs::remove_all(fs::path(options_.work_dir) / "pods" / action.name, ignored);
  const PodContext context{.pod = &pod.object,
                           .config = &options_.config,
                           .node_name = options_.node_name,
                           .cores = options_.cores,
                           .memory_bytes = options_.memory_bytes};
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : base::ArrayAt(base::At(pod.object, "spec"), list)) {
      absl::StatusOr<ContainerSetup> setup = PrepareContainer(container, context, pod);
      if (!setup.ok()) {
        const absl::Status status = InContainer(base::StringAt(container, "name"), setup.status());
        return absl::Status(status.code(), base::StrCat("pod ", pod.name, ": ", status.message()));
      }
      // Init containers run before the others, so the pod needs the larger of both.
      const bool init = std::string_view(list) == "initContainers";
      pod.gpus = init ? std::max(pod.gpus, setup->gpus) : pod.gpus;
      pod.containers.push_back(*std::move(setup));
    }
  }
  const size_t first_main = base::ArrayAt(base::At(pod.object, "spec"), "initContainers").size();
  int main_gpus = 0;
  for (size_t i = first_main; i < pod.containers.size(); ++i) main_gpus += pod.containers[i].gpus;
  pod.gpus = std::max(pod.gpus, main_gpus);
  return pod;
}

}  // namespace tfjob
