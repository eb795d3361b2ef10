#include "operator/cli/pod_life.h"

#include <algorithm>

#include "base/json_read.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

using State = ContainerLife::State;

constexpr absl::Duration kFirstDelay = absl::Milliseconds(250);
constexpr absl::Duration kLongestDelay = absl::Seconds(5);

}  // namespace

absl::Duration RestartDelay(int restarts) {
  if (restarts <= 1) return absl::ZeroDuration();
  return std::min(kFirstDelay * (1 << std::min(restarts - 2, 10)), kLongestDelay);
}

PodLife::PodLife(const Json& pod) {
  const Json& spec = base::At(pod, "spec");
  restart_policy_ = base::StringAt(spec, "restartPolicy");
  if (restart_policy_.empty()) restart_policy_ = kRestartAlways;  // the default of pods
  for (const Json& container : base::ArrayAt(spec, "initContainers")) {
    containers_.push_back(
        {.name = base::StringAt(container, "name"),
         .init = true,
         .sidecar = base::StringAt(container, "restartPolicy") == kRestartAlways});
  }
  for (const Json& container : base::ArrayAt(spec, "containers")) {
    containers_.push_back({.name = base::StringAt(container, "name")});
  }
}

std::vector<size_t> PodLife::ToStart(absl::Time now) const {
  std::vector<size_t> start;
  if (stopping_) return start;
  for (size_t i = 0; i < containers_.size(); ++i) {
    const ContainerLife& container = containers_[i];
    const bool sidecar_in_vain = container.sidecar && MainsDone();
    const bool due =
        container.state == State::kWaiting && container.not_before <= now && !sidecar_in_vain;
    if (due) start.push_back(i);
    if (!container.init) continue;
    // The next one's turn comes when this one has ended well or, a sidecar, has once begun.
    const bool passed = container.sidecar
                            ? container.state == State::kRunning || container.ended_before
                            : container.state == State::kTerminated && container.exit_code == 0;
    if (!passed) break;
  }
  return start;
}

std::optional<absl::Time> PodLife::NextStart() const {
  std::optional<absl::Time> next;
  if (stopping_) return next;
  for (const ContainerLife& container : containers_) {
    const bool delayed =
        container.state == State::kWaiting && container.not_before > absl::InfinitePast();
    if (delayed && (!next || container.not_before < *next)) next = container.not_before;
  }
  return next;
}

void PodLife::DelayUntil(absl::Time time) {
  for (ContainerLife& container : containers_) container.not_before = time;
}

void PodLife::OnStarted(size_t index) { containers_[index].state = State::kRunning; }

bool PodLife::Restarts(const ContainerLife& container, int exit_code) const {
  if (stopping_) return false;
  if (container.sidecar) return !MainsDone();
  if (restart_policy_ == kRestartNever) return false;
  if (container.init) return exit_code != 0;
  return restart_policy_ == kRestartAlways || exit_code != 0;
}

void PodLife::OnExited(size_t index, int exit_code, absl::Time now) {
  ContainerLife& container = containers_[index];
  container.exit_code = exit_code;
  container.ended_before = true;
  if (!Restarts(container, exit_code)) {
    container.state = State::kTerminated;
    return;
  }
  container.state = State::kWaiting;
  container.restarts += 1;
  container.not_before = now + RestartDelay(container.restarts);
}

bool PodLife::MainsDone() const {
  return std::all_of(containers_.begin(), containers_.end(), [](const ContainerLife& container) {
    return container.init || container.state == State::kTerminated;
  });
}

bool PodLife::InitFailed() const {
  return std::any_of(containers_.begin(), containers_.end(), [](const ContainerLife& container) {
    return container.init && !container.sidecar && container.state == State::kTerminated &&
           container.exit_code != 0;
  });
}

bool PodLife::OnlySidecarsLeft() const { return (MainsDone() || InitFailed()) && AnyRunning(); }

bool PodLife::AnyRunning() const {
  return std::any_of(containers_.begin(), containers_.end(), [](const ContainerLife& container) {
    return container.state == State::kRunning;
  });
}

PodPhase PodLife::phase() const {
  if ((InitFailed() || MainsDone()) && !AnyRunning()) {
    const bool failed =
        std::any_of(containers_.begin(), containers_.end(), [](const ContainerLife& container) {
          return !container.sidecar && container.exit_code != 0;
        });
    return failed ? PodPhase::kFailed : PodPhase::kSucceeded;
  }
  const bool begun =
      std::any_of(containers_.begin(), containers_.end(), [](const ContainerLife& container) {
        return !container.init && (container.state != State::kWaiting || container.ended_before);
      });
  return begun ? PodPhase::kRunning : PodPhase::kPending;
}

std::optional<int> PodLife::ExitCode() const {
  for (const ContainerLife& container : containers_) {
    const bool ended = container.name == kContainerName && !container.init &&
                       container.state == State::kTerminated;
    if (ended) return container.exit_code;
  }
  return std::nullopt;
}

int PodLife::RestartCount() const {
  int count = 0;
  for (const ContainerLife& container : containers_) count += container.restarts;
  return count;
}

}  // namespace tfjob
