#include "operator/cli/local_cluster.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "base/task_certificates.h"
#include "operator/api/task_tls.h"

namespace tfjob {
namespace {

// After SIGKILL to all a supervisor answers within milliseconds; this long after it is ended
// itself.
constexpr absl::Duration kSupervisorPatience = absl::Milliseconds(300);

void Earliest(std::optional<absl::Time>& earliest, std::optional<absl::Time> time) {
  if (time && (!earliest || *time < *earliest)) earliest = time;
}

}  // namespace

LocalCluster::LocalCluster(ClusterOptions options, PodPreparer& preparer, PortReserver& ports,
                           LogMux& log)
    : options_(std::move(options)),
      preparer_(preparer),
      ports_(ports),
      log_(log),
      gpu_pool_(options_.gpus) {}

absl::Status LocalCluster::CheckGpus(const PodSetup& setup) const {
  if (setup.gpus <= gpu_pool_.total()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::StrCat("pod ", setup.name, " can never run here: it asks for ", setup.gpus,
                   " nvidia.com/gpu and this machine has ", gpu_pool_.total(),
                   "; lower resources.limits, or say with --gpus which GPUs there are"));
}

absl::Status LocalCluster::CreatePods(const std::vector<const CreatePod*>& actions,
                                      absl::Time now) {
  std::vector<PodSetup> setups;
  for (const CreatePod* action : actions) {
    if (pods_.contains(action->name)) continue;  // a stale plan; ours already
    ASSIGN_OR_RETURN(PodSetup setup, preparer_.Prepare(*action));
    RETURN_IF_ERROR(CheckGpus(setup));
    setups.push_back(std::move(setup));
  }
  for (PodSetup& setup : setups) {
    const std::string name = setup.name;
    PodRecord& record = records_[name];
    record.label = setup.label;
    if (!setup.containers.empty()) record.log_path = setup.containers.back().log_path;
    for (const ContainerSetup& container : setup.containers) {
      if (container.label == setup.label) record.log_path = container.log_path;
    }
    record.created += 1;
    if (checkpoint_folder_.empty()) checkpoint_folder_ = CheckpointFolder(setup);
    // Replaced: that failure was not for good.
    if (first_failure_ && first_failure_->first == name) first_failure_.reset();
    PodLife life(setup.object);
    if (record.created > 1) life.DelayUntil(now + RestartDelay(record.created - 1));
    pods_.emplace(name, Pod{.setup = std::move(setup),
                            .life = std::move(life),
                            .uid = base::StrCat("local-", next_uid_++),
                            .creation_time = now});
    ++generation_;
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::MakeSecret(const CreateSecret& action, absl::Time now) {
  ASSIGN_OR_RETURN(const base::TaskCertificates made,
                   base::MakeTaskCertificates(options_.owner_uid, now));
  preparer_.AddSecret(action.name, made.Files());
  return absl::OkStatus();
}

absl::Status LocalCluster::Execute(const std::vector<Action>& actions, absl::Time now,
                                   absl::Duration patience) {
  std::vector<const CreatePod*> creates;
  for (const Action& action : actions) {
    if (const auto* create = std::get_if<CreatePod>(&action)) creates.push_back(create);
    if (const auto* secret = std::get_if<CreateSecret>(&action)) {
      RETURN_IF_ERROR(MakeSecret(*secret, now));
    }
  }
  RETURN_IF_ERROR(CreatePods(creates, now));
  for (const Action& action : actions) {
    if (const auto* pod = std::get_if<DeletePod>(&action))
      DeletePodNamed(pod->name, pod->uid, now, patience);
    if (const auto* service = std::get_if<CreateService>(&action)) {
      services_.push_back({.name = service->name,
                           .uid = base::StrCat("local-", next_uid_++),
                           .owner_uid = options_.owner_uid,
                           .type = service->type,
                           .index = service->index});
      ++generation_;
    }
    if (const auto* service = std::get_if<DeleteService>(&action)) {
      std::erase_if(services_, [&](const ServiceView& view) { return view.uid == service->uid; });
      ++generation_;
    }
  }
  return absl::OkStatus();
}

void LocalCluster::DeletePodNamed(const std::string& name, const std::string& uid, absl::Time now,
                                  absl::Duration patience) {
  const auto found = pods_.find(name);
  if (found == pods_.end() || found->second.uid != uid || found->second.deletion_time) return;
  Pod& pod = found->second;
  pod.deletion_time = now;
  pod.terminate_at = now + patience;
  pod.life.Stop();
  ++generation_;
  RemoveGonePods();
}

std::vector<PodView> LocalCluster::Pods() const {
  std::vector<PodView> views;
  for (const auto& [name, pod] : pods_) {
    views.push_back({.name = name,
                     .uid = pod.uid,
                     .owner_uid = options_.owner_uid,
                     .type = pod.setup.type,
                     .index = pod.setup.index,
                     .phase = pod.life.phase(),
                     .creation_time = pod.creation_time,
                     .deletion_time = pod.deletion_time,
                     .exit_code = pod.life.ExitCode(),
                     .restart_count = pod.life.RestartCount(),
                     .ready = pod.life.phase() == PodPhase::kRunning,
                     .task_tls = HasTaskTls(pod.setup.object)});
  }
  return views;
}

bool LocalCluster::AssignGpus(Pod& pod) {
  if (pod.gpus) return true;
  pod.gpus = gpu_pool_.Take(pod.setup.gpus);
  if (pod.gpus) return true;
  if (!pod.told_pending) {
    log_.Say(base::StrCat(pod.setup.label, " is pending: it asks for ", pod.setup.gpus,
                          " nvidia.com/gpu, ", gpu_pool_.free(), " of ", gpu_pool_.total(),
                          " are free; it starts when others end"));
    pod.told_pending = true;
  }
  return false;
}

absl::Status LocalCluster::StartContainer(Pod& pod, size_t index, absl::Time now) {
  ContainerSetup& container = pod.setup.containers[index];
  // Its share of the pod's GPUs: containers that run together have disjoint ones.
  size_t first = 0;
  for (size_t i = 0; i < index; ++i) {
    if (pod.life.containers()[i].init == pod.life.containers()[index].init)
      first += pod.setup.containers[i].gpus;
  }
  if (pod.life.containers()[index].init) first = 0;
  const std::vector<std::string> gpus(pod.gpus->begin() + first,
                                      pod.gpus->begin() + first + container.gpus);
  container.process.environment.clear();
  for (const auto& [name, value] : container.environment) {
    container.process.environment.push_back(base::StrCat(name, "=", value));
  }
  container.process.environment.push_back(
      base::StrCat("CUDA_VISIBLE_DEVICES=", VisibleDevices(gpus, container.wanted_devices)));
  if (!pod.life.containers()[index].init) {
    for (const std::string& key : pod.setup.port_keys) ports_.Release(key);
  }
  ASSIGN_OR_RETURN(Process process, StartProcess(container.process, life_.get()));
  PodRecord& record = records_[pod.setup.name];
  if (!record.started) record.started = now;
  record.ended.reset();
  pod.running[index] = {.pid = process.supervisor, .start = std::move(process.start)};
  pod.life.OnStarted(index);
  ++generation_;
  return log_.Add(std::move(process.output), container.label, container.log_path);
}

absl::Status LocalCluster::StartDue(Pod& pod, absl::Time now) {
  const std::vector<size_t> due = pod.life.ToStart(now);
  if (due.empty() || !AssignGpus(pod)) return absl::OkStatus();
  for (const size_t index : due) RETURN_IF_ERROR(StartContainer(pod, index, now));
  return absl::OkStatus();
}

void LocalCluster::EndDue(Pod& pod, absl::Time now) {
  const bool terminate =
      (pod.terminate_at && *pod.terminate_at <= now) || pod.life.OnlySidecarsLeft();
  for (auto& [index, running] : pod.running) {
    if (terminate && !running.kill_at) {
      TerminateProcess(running.pid);
      running.kill_at = now + options_.grace;
    } else if (running.kill_at && *running.kill_at <= now) {
      if (running.killed) {
        kill(running.pid, SIGKILL);
      } else {
        KillProcess(running.pid);
      }
      running.killed = true;
      running.kill_at = now + kSupervisorPatience;
    }
  }
}

absl::Status LocalCluster::Tick(absl::Time now) {
  RETURN_IF_ERROR(start_error_);
  for (auto& [name, pod] : pods_) {
    RETURN_IF_ERROR(StartDue(pod, now));
    EndDue(pod, now);
  }
  return absl::OkStatus();
}

std::optional<absl::Time> LocalCluster::NextTick() const {
  std::optional<absl::Time> next;
  for (const auto& [name, pod] : pods_) {
    if (pod.gpus || pod.setup.gpus == 0) Earliest(next, pod.life.NextStart());
    bool all_told = true;
    for (const auto& [index, running] : pod.running) {
      Earliest(next, running.kill_at);
      all_told = all_told && running.kill_at.has_value();
    }
    if (!all_told) Earliest(next, pod.terminate_at);
  }
  return next;
}

std::vector<int> LocalCluster::StartFds() const {
  std::vector<int> fds;
  for (const auto& [name, pod] : pods_) {
    for (const auto& [index, running] : pod.running) {
      if (running.start.valid()) fds.push_back(running.start.get());
    }
  }
  return fds;
}

void LocalCluster::CheckStart(Pod& pod, size_t index) {
  Running& running = pod.running[index];
  const ContainerSetup& container = pod.setup.containers[index];
  const absl::Status status = ReadStart(running.start.get(), container.process);
  running.start = Fd();
  if (status.ok() || !start_error_.ok()) return;
  start_error_ =
      absl::Status(status.code(), base::StrCat("pod ", pod.setup.name, ": container \"",
                                               container.name, "\": ", status.message()));
}

void LocalCluster::OnStartReadable(int fd) {
  for (auto& [name, pod] : pods_) {
    for (auto& [index, running] : pod.running) {
      if (running.start.get() == fd) return CheckStart(pod, index);
    }
  }
}

void LocalCluster::OnChildExit(pid_t pid, int exit_code, absl::Time now) {
  for (auto& [name, pod] : pods_) {
    for (auto& [index, running] : pod.running) {
      if (running.pid != pid) continue;
      const size_t container = index;
      if (running.start.valid()) CheckStart(pod, container);
      pod.running.erase(container);
      OnContainerExit(pod, container, exit_code, now);
      RemoveGonePods();
      return;
    }
  }
}

void LocalCluster::OnContainerExit(Pod& pod, size_t index, int exit_code, absl::Time now) {
  const ContainerSetup& setup = pod.setup.containers[index];
  pod.life.OnExited(index, exit_code, now);
  ++generation_;
  const ContainerLife& container = pod.life.containers()[index];
  PodRecord& record = records_[pod.setup.name];
  if (setup.label == pod.setup.label) record.exit_code = exit_code;
  record.ended = now;
  record.stopped = pod.deletion_time.has_value();
  if (exit_code != 0 && !record.stopped) latest_failure_ = exit_code;
  std::string line = exit_code == 0
                         ? base::StrCat(setup.label, " has finished")
                         : base::StrCat(setup.label, " has exited with code ", exit_code);
  if (exit_code > 128 && exit_code < 128 + NSIG) {
    absl::StrAppend(&line, " (SIG",
                    sigabbrev_np(exit_code - 128) ? sigabbrev_np(exit_code - 128) : "?", ")");
  }
  if (record.stopped) absl::StrAppend(&line, ", as it was told to");
  if (container.state == ContainerLife::State::kWaiting) {
    record.restarts += 1;
    absl::StrAppend(&line, "; restart ", container.restarts, " in ",
                    absl::FormatDuration(container.not_before - now));
  }
  log_.Say(line);
  const PodPhase phase = pod.life.phase();
  if (phase != PodPhase::kSucceeded && phase != PodPhase::kFailed) return;
  if (phase == PodPhase::kFailed && !record.stopped && !first_failure_) {
    first_failure_ = {pod.setup.name, pod.life.ExitCode().value_or(exit_code)};
  }
  FinishPod(pod);
}

void LocalCluster::FinishPod(Pod& pod) {
  if (pod.gpus) gpu_pool_.GiveBack(*pod.gpus);
  pod.gpus.reset();
}

void LocalCluster::RemoveGonePods() {
  for (auto pod = pods_.begin(); pod != pods_.end();) {
    if (!pod->second.deletion_time || !pod->second.running.empty()) {
      ++pod;
      continue;
    }
    FinishPod(pod->second);
    pod = pods_.erase(pod);
    ++generation_;
  }
}

void LocalCluster::StopAll(absl::Time now, absl::Duration patience) {
  for (auto& [name, pod] : pods_) {
    pod.life.Stop();
    if (!pod.deletion_time) pod.deletion_time = now;
    pod.terminate_at = std::min(pod.terminate_at.value_or(absl::InfiniteFuture()), now + patience);
  }
  ++generation_;
  RemoveGonePods();
}

void LocalCluster::KillAll(absl::Time now) {
  for (auto& [name, pod] : pods_) {
    pod.life.Stop();
    if (!pod.deletion_time) pod.deletion_time = now;
    for (auto& [index, running] : pod.running) {
      KillProcess(running.pid);
      running.killed = true;
      running.kill_at = now + kSupervisorPatience;
    }
  }
  RemoveGonePods();
}

bool LocalCluster::AnyRunning() const {
  return std::any_of(pods_.begin(), pods_.end(),
                     [](const auto& entry) { return !entry.second.running.empty(); });
}

int LocalCluster::FailureCode() const {
  return first_failure_ ? first_failure_->second : latest_failure_;
}

std::optional<int> LocalCluster::MetricsPort(const std::string& name) const {
  const auto pod = pods_.find(name);
  if (pod == pods_.end() || pod->second.running.empty()) return std::nullopt;
  return pod->second.setup.metrics_port;
}

}  // namespace tfjob
