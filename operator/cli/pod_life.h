// The life of one pod as the kubelet leads it: init containers in order, then all containers,
// restarts in place by the pod's policy with a growing delay, and the phase that follows. PURE:
// starts and ends are reported to it, time comes in by parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct ContainerLife {
  enum class State { kWaiting, kRunning, kTerminated };
  std::string name;
  bool init = false;
  bool sidecar = false;  // an init container with restartPolicy Always: runs beside the others
  State state = State::kWaiting;
  int exit_code = 0;  // of the latest end
  bool ended_before = false;
  int restarts = 0;
  absl::Time not_before = absl::InfinitePast();  // a waiting one may start then
};

// The delay before restart number `restarts` (1, 2, …): none at first, then doubling up to a cap
// that is short, because somebody is watching.
absl::Duration RestartDelay(int restarts);

// Not thread-safe.
class PodLife {
 public:
  // `pod` is a whole Pod object.
  explicit PodLife(const Json& pod);

  // Indexes into containers() of those to start now.
  std::vector<size_t> ToStart(absl::Time now) const;
  // When ToStart may have more; nullopt if only events can change that.
  std::optional<absl::Time> NextStart() const;
  // Nothing is started before `time`: the pod replaces one that has just ended.
  void DelayUntil(absl::Time time);
  void OnStarted(size_t index);
  void OnExited(size_t index, int exit_code, absl::Time now);
  // No container is started any more; the pod is being deleted.
  void Stop() { stopping_ = true; }

  PodPhase phase() const;
  // All containers but sidecars have ended for good: the sidecars should go too.
  bool OnlySidecarsLeft() const;
  bool AnyRunning() const;
  // Of the container `tensorflow` once it has ended for good.
  std::optional<int> ExitCode() const;
  int RestartCount() const;
  const std::vector<ContainerLife>& containers() const { return containers_; }
  const std::string& restart_policy() const { return restart_policy_; }

 private:
  bool Restarts(const ContainerLife& container, int exit_code) const;
  bool MainsDone() const;
  bool InitFailed() const;

  std::vector<ContainerLife> containers_;  // init containers first
  std::string restart_policy_;
  bool stopping_ = false;
};

}  // namespace tfjob
