// The toy cluster of `trainyard run`: pods as processes. Executes the operator's plans, plays the
// kubelet for each pod, and shows the pods as the operator would observe them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/cli/gpus.h"
#include "operator/cli/local_pod.h"
#include "operator/cli/log_mux.h"
#include "operator/cli/pod_life.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct ClusterOptions {
  std::string owner_uid;  // the job's
  std::vector<std::string> gpus;
  absl::Duration grace = absl::Seconds(4);  // between SIGTERM and SIGKILL
};

// What the summary says of a pod, kept after it has gone.
struct PodRecord {
  std::string label;
  std::string log_path;  // of its main container
  int created = 0;       // how often; more than 1 after restarts by the plan
  int restarts = 0;      // in place, over all its lives
  bool stopped = false;  // ended because it was told to
  std::optional<int> exit_code;
  std::optional<absl::Time> started;
  std::optional<absl::Time> ended;
};

// Not thread-safe. REQUIRES: the process is single-threaded when pods start, or its other threads
// hold no locks that matter to system calls.
class LocalCluster {
 public:
  // REQUIRES: preparer, ports and log outlive it.
  LocalCluster(ClusterOptions options, PodPreparer& preparer, PortReserver& ports, LogMux& log);

  // Applies a plan's actions. kInvalidArgument: a pod is wrong, and none of these was made.
  // Deletions are delayed by `patience`, in which pods may end by themselves.
  absl::Status Execute(const std::vector<Action>& actions, absl::Time now, absl::Duration patience);
  std::vector<PodView> Pods() const;
  const std::vector<ServiceView>& Services() const { return services_; }

  // Starts, terminates and kills what is due. Errors: this machine cannot start processes, or a
  // command can never run (kInvalidArgument).
  absl::Status Tick(absl::Time now);
  // When Tick has something to do although nothing happens.
  std::optional<absl::Time> NextTick() const;

  // Descriptors to poll: readable once a command has started or failed to.
  std::vector<int> StartFds() const;
  void OnStartReadable(int fd);
  // A child of this process has ended; others' children are ignored.
  void OnChildExit(pid_t pid, int exit_code, absl::Time now);

  // Deletes every pod: SIGTERM at `now + patience`, SIGKILL after the grace.
  void StopAll(absl::Time now, absl::Duration patience);
  // SIGKILL at once.
  void KillAll(absl::Time now);
  bool AnyRunning() const;

  const std::map<std::string, PodRecord>& records() const { return records_; }
  // The code behind a failed job: of the first pod that failed for good, else of the latest
  // container that did; 0 if none.
  int FailureCode() const;
  // Where the trainers of the job write checkpoints; "" if they do not.
  const std::string& checkpoint_folder() const { return checkpoint_folder_; }
  // The metrics port of a pod that runs; nullopt otherwise.
  std::optional<int> MetricsPort(const std::string& pod) const;
  // Changes whenever Pods() may.
  int64_t generation() const { return generation_; }

 private:
  struct Running {
    pid_t pid = -1;
    Fd start;
    std::optional<absl::Time> kill_at;  // SIGTERM has been sent
    bool killed = false;
  };
  struct Pod {
    PodSetup setup;
    PodLife life;
    std::string uid;
    absl::Time creation_time;
    std::optional<absl::Time> deletion_time;
    std::optional<absl::Time> terminate_at;
    std::optional<std::vector<std::string>> gpus;  // nullopt: not yet given
    bool told_pending = false;
    std::map<size_t, Running> running;  // by container
  };

  absl::Status MakeSecret(const CreateSecret& action, absl::Time now);
  absl::Status CreatePods(const std::vector<const CreatePod*>& actions, absl::Time now);
  absl::Status CheckGpus(const PodSetup& setup) const;
  void DeletePodNamed(const std::string& name, const std::string& uid, absl::Time now,
                      absl::Duration patience);
  absl::Status StartDue(Pod& pod, absl::Time now);
  absl::Status StartContainer(Pod& pod, size_t index, absl::Time now);
  bool AssignGpus(Pod& pod);
  void EndDue(Pod& pod, absl::Time now);
  void OnContainerExit(Pod& pod, size_t index, int exit_code, absl::Time now);
  void CheckStart(Pod& pod, size_t index);
  void FinishPod(Pod& pod);
  void RemoveGonePods();

  const ClusterOptions options_;
  PodPreparer& preparer_;
  PortReserver& ports_;
  LogMux& log_;
  GpuPool gpu_pool_;
  const Fd life_ = OwnLife();
  std::map<std::string, Pod> pods_;
  std::vector<ServiceView> services_;
  std::map<std::string, PodRecord> records_;
  std::optional<std::pair<std::string, int>> first_failure_;  // pod and code
  int latest_failure_ = 0;
  int64_t next_uid_ = 1;
  int64_t generation_ = 0;
  std::string checkpoint_folder_;
  absl::Status start_error_;  // a command that can never run; Tick reports it
};

}  // namespace tfjob
