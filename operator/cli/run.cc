#include "operator/cli/run.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/api/names.h"
#include "operator/cli/local_cluster.h"
#include "operator/cli/machine.h"
#include "operator/cli/progress_poller.h"
#include "operator/cli/run_input.h"
#include "operator/cli/run_summary.h"

namespace tfjob {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxGraceSeconds = 4;
// How long pods of a job that has succeeded may take to end by themselves: a trainer's parameter
// servers do, as soon as training is over.
constexpr absl::Duration kSettle = absl::Seconds(1);
// A plan that never comes to rest is a bug; better an error than a busy loop.
constexpr int kMaxPasses = 1000;

// Pods that compute: all but parameter servers.
int ComputePods(const TfJob& job) {
  int pods = 0;
  for (const auto& [type, replica] : *job.spec.replicas) {
    if (type != kPs) pods += replica.replicas.value_or(1);
  }
  return pods;
}

// One job from its start to its end. Not thread-safe.
class Runner {
 public:
  Runner(const RunOptions& options, RunInput input)
      : options_(options), input_(std::move(input)), job_(input_.job) {}

  absl::StatusOr<int> Run();

 private:
  absl::Status Prepare();
  absl::Status ReserveAddresses();
  absl::Status Loop();
  absl::Status Reconcile(absl::Time now);
  void Report(const Plan& plan);
  bool Stuck() const;
  void Wait(absl::Time now);
  void OnSignals(absl::Time now);
  void ReapChildren(absl::Time now);
  void ShowProgress();
  // A training without steps has consequences, so that its progress is a fact of the plan.
  bool MayStall() const { return job_.spec.progress && job_.spec.progress->stall_seconds; }
  void WatchProgress();
  void StopEverything();
  RunResult Result() const;
  void SayStart();

  const RunOptions& options_;
  const RunInput input_;
  TfJob job_;
  Signals signals_;
  PlanOptions plan_options_{.task_tls_file_mode = 0600};  // tasks run as this user
  std::map<std::string, std::string> addresses_;          // by TaskPortKey
  LocalHosts hosts_;
  PortReserver ports_;
  std::unique_ptr<LogMux> log_;
  std::unique_ptr<PodPreparer> preparer_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<ProgressPoller> poller_;
  absl::Time begun_ = absl::Now();
  int64_t seen_generation_ = -1;
  std::optional<absl::Time> wake_at_;  // the plan's own
  std::optional<Progress> progress_;   // as the chief last told it
  std::optional<int> signal_;          // the first one that ends the run
  bool settling_ = false;              // finished; the rest is ending
  std::set<std::string> told_;         // warnings said once
};

absl::Status Runner::ReserveAddresses() {
  for (const auto& [type, replica] : *job_.spec.replicas) {
    const std::string lower = LowerReplicaType(type);
    for (int i = 0; i < replica.replicas.value_or(1); ++i) {
      ASSIGN_OR_RETURN(const int port, ports_.Reserve(TaskPortKey(lower, i)));
      const std::string address = base::StrCat("127.0.0.1:", port);
      addresses_[TaskPortKey(lower, i)] = address;
      hosts_[ReplicaName(job_.metadata.name, type, i)] = {PortOf(replica), address,
                                                          job_.spec.network.subdomain};
    }
  }
  plan_options_.address = [this](const base::Task& task, int port) {
    const auto known = addresses_.find(TaskPortKey(task.job, task.index));
    return known == addresses_.end() ? base::StrCat("127.0.0.1:", port) : known->second;
  };
  return absl::OkStatus();
}

absl::Status Runner::Prepare() {
  ASSIGN_OR_RETURN(
      const std::string work_dir,
      AbsolutePath(options_.work_dir.empty() ? base::StrCat("trainyard-run/", job_.metadata.name)
                                             : options_.work_dir));
  ASSIGN_OR_RETURN(auto mapped, ParseVolumeFlags(options_.volumes));
  Environment inherited = ToMap(options_.environment);
  std::optional<std::string> visible;
  if (const auto found = inherited.find("CUDA_VISIBLE_DEVICES"); found != inherited.end())
    visible = found->second;
  ASSIGN_OR_RETURN(std::vector<std::string> gpus, FindGpus(options_.gpus, visible));
  RETURN_IF_ERROR(MakeWorkFolder(work_dir));
  RETURN_IF_ERROR(ReserveAddresses());
  size_t label_width = 0;
  for (const auto& [key, address] : addresses_) label_width = std::max(label_width, key.size());
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  log_ = std::make_unique<LogMux>(
      LogMux::Options{.output = STDOUT_FILENO,
                      .color = options_.color == "always" || (options_.color == "auto" && terminal),
                      .terminal = terminal,
                      .label_width = label_width});
  LocalPodOptions pod_options{.job = job_.metadata.name,
                              .namespace_name = job_.metadata.namespace_name,
                              .work_dir = work_dir,
                              .program_dir = fs::path(options_.program).parent_path().string(),
                              .inherited = std::move(inherited),
                              .config = input_.config,
                              .hosts = hosts_,
                              .sandbox = options_.no_sandbox ? SandboxSupport{} : ProbeSandbox(),
                              .no_sandbox = options_.no_sandbox,
                              .node_name = NodeName(),
                              .cores = Cores(),
                              .memory_bytes = MemoryBytes(),
                              .compute_pods = ComputePods(job_)};
  preparer_ = std::make_unique<PodPreparer>(std::move(pod_options), std::move(mapped), ports_);
  cluster_ =
      std::make_unique<LocalCluster>(ClusterOptions{.owner_uid = job_.metadata.uid,
                                                    .gpus = std::move(gpus),
                                                    .grace = absl::Seconds(options_.grace_seconds)},
                                     *preparer_, ports_, *log_);
  return absl::OkStatus();
}

void Runner::Report(const Plan& plan) {
  for (const Condition& condition : plan.status.conditions) {
    const auto same = [&](const Condition& before) {
      return before.type == condition.type && before.status == condition.status &&
             before.reason == condition.reason;
    };
    const std::vector<Condition>& before = job_.status.conditions;
    if (condition.status != kTrue || std::any_of(before.begin(), before.end(), same)) continue;
    log_->Say(condition.message);
    told_.insert(condition.message);
  }
  for (const Event& event : plan.events) {
    // What a container's end means is told when it ends.
    if (event.type != "Warning" || event.reason == kReasonExitedWithCode) continue;
    if (told_.insert(event.message).second) log_->Say(base::StrCat("warning: ", event.message));
  }
}

absl::Status Runner::Reconcile(absl::Time now) {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    const int64_t generation = cluster_->generation();
    const Plan plan = MakePlan({.job = job_,
                                .pods = cluster_->Pods(),
                                .services = cluster_->Services(),
                                .now = now,
                                .progress = progress_},
                               plan_options_);
    Report(plan);
    const bool again = plan.status != job_.status;
    job_.status = plan.status;
    const bool won = HasCondition(job_.status, kSucceeded);
    RETURN_IF_ERROR(cluster_->Execute(plan.actions, now, won ? kSettle : absl::ZeroDuration()));
    seen_generation_ = cluster_->generation();
    wake_at_.reset();
    if (plan.requeue_after) wake_at_ = now + *plan.requeue_after;
    const bool at_once = plan.requeue_after && *plan.requeue_after <= absl::ZeroDuration();
    if (!again && !at_once && seen_generation_ == generation) return absl::OkStatus();
    // The time to live only begins where jobs stay: a local one is over when it has finished.
    if (IsFinished(job_.status) && plan.actions.empty() && !again) return absl::OkStatus();
  }
  return absl::InternalError(
      "the plan does not come to rest; please report this with the manifest");
}

bool Runner::Stuck() const {
  return !settling_ && !signal_ && !cluster_->AnyRunning() && !cluster_->NextTick() && !wake_at_;
}

void Runner::SayStart() {
  for (const std::string& note : input_.notes) log_->Say(note);
  if (options_.no_sandbox)
    log_->Say("no sandbox: mount paths in command, args and env are rewritten to folders");
  for (const auto& [name, volume] : preparer_->volumes().shared()) {
    log_->Say(base::StrCat(
        "volume ", name, ": ", volume.folder,
        volume.empty ? base::StrCat(" (empty; --volume ", name, "=FOLDER takes another)") : ""));
  }
  for (const std::string& name : preparer_->volumes().UnusedFlags()) {
    log_->Say(
        base::StrCat("warning: --volume ", name, ": no pod mounts a volume or claim of that name"));
  }
}

absl::Status Runner::Loop() {
  bool said = false;
  for (;;) {
    const absl::Time now = absl::Now();
    const bool due = wake_at_ && *wake_at_ <= now;
    if (!settling_ && !signal_ && (due || cluster_->generation() != seen_generation_)) {
      RETURN_IF_ERROR(Reconcile(now));
    }
    if (!said) SayStart();
    said = true;
    if (!settling_ && !signal_ && IsFinished(job_.status)) {
      settling_ = true;
      cluster_->StopAll(now,
                        HasCondition(job_.status, kSucceeded) ? kSettle : absl::ZeroDuration());
    }
    RETURN_IF_ERROR(cluster_->Tick(now));
    if ((settling_ || signal_) && !cluster_->AnyRunning()) return absl::OkStatus();
    if (cluster_->generation() != seen_generation_ && !settling_ && !signal_) continue;
    if (Stuck()) {
      log_->Say(
          "nothing is left to run, and what has ended does not decide the job (a chief or a worker "
          "does)");
      return absl::OkStatus();
    }
    Wait(now);
  }
}

void Runner::Wait(absl::Time now) {
  WatchProgress();
  log_->Flush();
  std::optional<absl::Time> wake = cluster_->NextTick();
  if (!settling_ && !signal_ && wake_at_ && (!wake || *wake_at_ < *wake)) wake = wake_at_;
  std::vector<pollfd> fds;
  const auto add = [&](int fd, short events) { fds.push_back({fd, events, 0}); };
  add(signals_.fd(), POLLIN);
  if (log_->pending()) add(STDOUT_FILENO, POLLOUT);
  if (poller_ != nullptr) add(poller_->fd(), POLLIN);
  const size_t first_start = fds.size();
  for (const int fd : cluster_->StartFds()) add(fd, POLLIN);
  const size_t first_source = fds.size();
  for (const int fd : log_->Sources()) add(fd, POLLIN);
  // Rounded up, so that what was waited for is due.
  const int64_t timeout =
      wake ? std::clamp<int64_t>(absl::ToInt64Milliseconds(*wake - now) + 1, 0, 3'600'000) : -1;
  if (poll(fds.data(), fds.size(), static_cast<int>(timeout)) <= 0) return;
  for (size_t i = first_source; i < fds.size(); ++i) {
    if (fds[i].revents != 0) log_->ReadFrom(fds[i].fd);
  }
  for (size_t i = first_start; i < first_source; ++i) {
    if (fds[i].revents != 0) cluster_->OnStartReadable(fds[i].fd);
  }
  if (poller_ != nullptr && fds[first_start - 1].revents != 0) ShowProgress();
  if (fds[0].revents != 0) OnSignals(absl::Now());
}

void Runner::ReapChildren(absl::Time now) {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    cluster_->OnChildExit(pid, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                          now);
  }
}

void Runner::OnSignals(absl::Time now) {
  for (const int number : signals_.Take()) {
    if (number == SIGCHLD) ReapChildren(now);
    if (number == SIGCHLD || number == SIGWINCH) continue;
    if (signal_) {
      log_->Say("ending everything at once");
      cluster_->KillAll(now);
      continue;
    }
    signal_ = number;
    log_->Say(base::StrCat("SIG", sigabbrev_np(number), ": ending all pods, within ",
                           absl::FormatDuration(absl::Seconds(options_.grace_seconds)),
                           "; once more to end them at once"));
    cluster_->StopAll(now, absl::ZeroDuration());
  }
}

// Whose progress is the job's: the chief's, else worker 0's.
void Runner::WatchProgress() {
  if (isatty(STDOUT_FILENO) != 1 && !MayStall()) return;
  std::optional<int> port;
  for (const char* type : {kChief, kMaster, kWorker}) {
    if (!port) port = cluster_->MetricsPort(ReplicaName(job_.metadata.name, type, 0));
  }
  if (poller_ == nullptr) poller_ = std::make_unique<ProgressPoller>();
  poller_->SetPort(settling_ || signal_ ? std::nullopt : port);
  if (!port || settling_ || signal_) log_->SetProgress("");
}

void Runner::ShowProgress() {
  progress_ = poller_->Take();
  if (MayStall()) wake_at_ = absl::Now();
  if (isatty(STDOUT_FILENO) != 1) return;
  log_->SetProgress(progress_ ? FormatProgress(*progress_, TerminalWidth() - 1) : "");
}

void Runner::StopEverything() {
  if (cluster_ != nullptr) cluster_->KillAll(absl::Now());
  KillStrays();
  if (log_ == nullptr) return;
  log_->SetProgress("");
  log_->Drain();
}

RunResult Runner::Result() const {
  return {.job = job_.metadata.name,
          .status = job_.status,
          .pods = cluster_->records(),
          .volumes = preparer_->volumes().shared(),
          .checkpoint_folder = cluster_->checkpoint_folder(),
          .signal = signal_,
          .failure_code = cluster_->FailureCode(),
          .duration = absl::Now() - begun_};
}

absl::StatusOr<int> Runner::Run() {
  AdoptOrphans();
  absl::Status status = Prepare();
  if (status.ok()) status = Loop();
  poller_.reset();
  StopEverything();
  if (!status.ok()) {
    if (log_ != nullptr) log_->FlushAll();
    return status;
  }
  const RunResult result = Result();
  for (const std::string& line : Summarize(result)) log_->Say(line);
  log_->FlushAll();
  return ExitCodeOf(result);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "trainyard run: %s\n", std::string(status.message()).c_str());
  return base::ExitCodeFor(status);
}

}  // namespace

absl::Status RunOptions::Validate() const {
  std::vector<std::string> problems;
  if (manifest.empty()) problems.push_back("a manifest is needed: trainyard run job.yaml");
  if (!(grace_seconds >= 0 && grace_seconds <= kMaxGraceSeconds)) {
    problems.push_back(base::StrCat("--grace ", grace_seconds, ": must be from 0 to ",
                                    kMaxGraceSeconds, " seconds"));
  }
  if (color != "auto" && color != "always" && color != "never") {
    problems.push_back(base::StrCat("--color ", color, ": must be auto, always or never"));
  }
  if (const auto parsed = ParseVolumeFlags(volumes); !parsed.ok())
    problems.emplace_back(parsed.status().message());
  if (const auto parsed = FindGpus(gpus, std::nullopt); !parsed.ok())
    problems.emplace_back(parsed.status().message());
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

int RunJob(const RunOptions& options) {
  if (absl::Status status = options.Validate(); !status.ok()) return Fail(status);
  absl::StatusOr<RunInput> input = LoadRunInput(options);
  if (!input.ok()) return Fail(input.status());
  Runner runner(options, *std::move(input));
  const absl::StatusOr<int> code = runner.Run();
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace tfjob
