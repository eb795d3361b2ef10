// What one pod tells: its phase and conditions, the states of its containers, the events about it.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

constexpr int kExitKilled = 137;
constexpr absl::Duration kTimeToGo = absl::Minutes(1);  // beyond the grace of a deletion
constexpr absl::Duration kTimeToBePlaced = absl::Seconds(20);

constexpr std::array<std::string_view, 6> kImageReasons = {
    "ErrImagePull",      "ImagePullBackOff",    "InvalidImageName",
    "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError"};
constexpr std::array<std::string_view, 7> kEvictionReasons = {
    "Evicted", "Preempting", "Preempted", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity"};

template <size_t n>
bool Contains(const std::array<std::string_view, n>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

class PodReader {
 public:
  PodReader(const Json& pod, const JobPicture& picture)
      : pod_(pod),
        picture_(picture),
        status_(base::At(pod, "status")),
        name_(ObjectName(pod)),
        phase_(base::StringAt(status_, "phase")) {}

  std::vector<Finding> Read() {
    if (Leaves() || Evicted()) return std::move(out_);
    for (const char* key : {"initContainerStatuses", "containerStatuses"}) {
      for (const Json& container : base::ArrayAt(status_, key)) ReadContainer(container);
    }
    if (out_.empty() && phase_ == "Pending") ReadPending();
    if (out_.empty() && phase_ == "Failed") {
      Add(Cause::kTaskFailed,
          absl::StrCat(base::StringAt(status_, "reason"), ": ", MessageOf(status_)));
    }
    ReadLog();
    return std::move(out_);
  }

 private:
  Finding& Add(Cause cause, const std::string& says) {
    out_.push_back(MakeFinding(cause, absl::StrCat("pod ", name_), says));
    return out_.back();
  }
  const Json& Event(const std::vector<std::string_view>& reasons) const {
    return NewestEvent(picture_, "Pod", name_, reasons);
  }

  // A pod that is being deleted is no news, unless it never goes.
  bool Leaves() {
    const Json& metadata = base::At(pod_, "metadata");
    const auto deletion = base::TimeAt(metadata, "deletionTimestamp");
    const bool lost = base::StringAt(status_, "reason") == "NodeLost" ||
                      base::StringAt(ConditionOf(pod_, "Ready"), "reason") == "NodeNotReady";
    if (lost) {
      Add(Cause::kNodeLost,
          absl::StrCat("node ", base::StringAt(base::At(pod_, "spec"), "nodeName"),
                       " is not ready"));
      return true;
    }
    if (!deletion) return false;
    if (picture_.now - *deletion > kTimeToGo) {
      Add(Cause::kNodeLost, "it is being deleted and does not go");
    }
    return true;
  }

  bool Evicted() {
    if (phase_ == "Succeeded") return false;
    const std::string reason = base::StringAt(status_, "reason");
    const Json& target = ConditionOf(pod_, "DisruptionTarget");
    const bool disrupted = base::StringAt(target, "status") == "True";
    if (!disrupted && !(phase_ == "Failed" && Contains(kEvictionReasons, reason))) return false;
    std::string says = MessageOf(status_).empty() ? MessageOf(target) : MessageOf(status_);
    if (says.empty()) says = reason.empty() ? base::StringAt(target, "reason") : reason;
    Add(Cause::kEvicted, says);
    return true;
  }

  void ReadContainer(const Json& container) {
    const Json& state = base::At(container, "state");
    const Json& before = base::At(container, "lastState", "terminated");
    const Json& waiting = base::At(state, "waiting");
    if (const Json& ended = base::At(state, "terminated"); ended.is_object()) {
      ReadEnd(container, ended, /*again=*/false);
    } else if (waiting.is_object()) {
      ReadWaiting(container, waiting, before);
    } else if (before.is_object() && IntAt(container, "restartCount") > 0) {
      ReadEnd(container, before, /*again=*/true);
      if (!out_.empty()) out_.back().past = true;
    }
  }

  void ReadWaiting(const Json& container, const Json& waiting, const Json& before) {
    const std::string reason = base::StringAt(waiting, "reason");
    const std::string message = MessageOf(waiting);
    if (Contains(kImageReasons, reason)) return ReadImage(reason, message);
    if (reason == "CrashLoopBackOff") return ReadEnd(container, before, /*again=*/true);
    if (reason == "CreateContainerConfigError") {
      Add(Cause::kConfigMissing, message);
    } else if (reason == "CreateContainerError" || reason == "RunContainerError" ||
               reason == "StartError" || reason == "PostStartHookError") {
      Add(Cause::kCannotStart, message);
    } else if (reason == "ContainerCreating" || reason == "PodInitializing" || reason.empty()) {
      ReadCreating();
    } else {
      Add(Cause::kNoReason, absl::StrCat(reason, ": ", message));
    }
  }

  // The event has the registry's words; the state soon has "Back-off pulling image" alone.
  void ReadImage(const std::string& reason, const std::string& message) {
    std::string says = message.empty() ? reason : absl::StrCat(reason, ": ", message);
    for (const Json& event : picture_.events) {
      const bool of_pod = base::StringAt(base::At(event, "involvedObject"), "name") == name_;
      if (of_pod && Says(MessageOf(event), "Failed to pull image")) says = MessageOf(event);
    }
    Finding& finding = Add(Cause::kImageMissing, says);
    if (Says(says, "no such host") || Says(says, "lookup ")) {
      finding.todo =
          "the node does not find the registry's name: correct it, or the node's DNS; or "
          "load the image onto the nodes";
    } else if (Says(says, "unauthorized") || Says(says, "authorization failed")) {
      finding.todo =
          "the registry wants a login, or has no such image: name a pull secret "
          "(imagePullSecrets), correct the image's name";
    }
  }

  void ReadCreating() {
    const Json& mount = Event({"FailedMount", "FailedAttachVolume"});
    const Json& sandbox = Event({"FailedCreatePodSandBox", "NetworkNotReady"});
    if (!mount.is_null()) {
      Add(Cause::kVolumeMount, MessageOf(mount));
    } else if (!sandbox.is_null()) {
      Add(Cause::kSandbox, MessageOf(sandbox));
    }
  }

  // A container that has ended with an error; `again`: the kubelet starts it anew.
  void ReadEnd(const Json& container, const Json& ended, bool again) {
    const int code = IntAt(ended, "exitCode");
    const std::string reason = base::StringAt(ended, "reason");
    if (code == 0 && !again) return ReadWhatGoesOn(container);
    const Cause kind = CauseOfExit(code, reason);
    std::string message = MessageOf(ended);
    const Cause cause = TellsOfDns(message)                   ? Cause::kDns
                        : again && kind == Cause::kTaskFailed ? Cause::kCrashLoop
                                                              : kind;
    std::string says =
        absl::StrCat("container ", base::StringAt(container, "name"), " ended with exit code ",
                     code, reason.empty() ? "" : absl::StrCat(" (", reason, ")"));
    const int restarts = IntAt(container, "restartCount");
    if (restarts > 0) absl::StrAppend(&says, " and was started again ", restarts, " times");
    if (!message.empty()) absl::StrAppend(&says, ": ", message);
    Add(cause, says);
  }

  // Where the program has ended well and the pod has not.
  void ReadWhatGoesOn(const Json& ended) {
    if (phase_ != "Running" || base::StringAt(ended, "name") != kContainerName) return;
    for (const Json& other : base::ArrayAt(status_, "containerStatuses")) {
      const std::string name = base::StringAt(other, "name");
      const bool runs = base::At(other, "state", "running").is_object();
      if (runs && !Contains(kKnownSidecars, name))
        Add(Cause::kSidecarRuns, absl::StrCat("container ", name, " runs"));
    }
  }

  void ReadPending() {
    const Json& scheduled = ConditionOf(pod_, "PodScheduled");
    std::string words = MessageOf(scheduled);
    if (base::StringAt(scheduled, "status") == "True") return ReadCreating();
    if (words.empty()) words = MessageOf(Event({"FailedScheduling"}));
    if (base::StringAt(scheduled, "reason") == "SchedulingGated") {
      Add(Cause::kGangNotAdmitted, words).what = "is held back by a scheduling gate";
      return;
    }
    if (!words.empty()) {
      out_.push_back(FindingOfScheduling(pod_, words, picture_));
      return;
    }
    const auto created = base::TimeAt(base::At(pod_, "metadata"), "creationTimestamp");
    if (!base::StringAt(base::At(pod_, "spec"), "nodeName").empty()) return;
    if (!created || picture_.now - *created > kTimeToBePlaced) Add(Cause::kNoReason, "");
  }

  // The log belongs to whatever ended, and may tell more than the exit code.
  void ReadLog() {
    const auto log = picture_.logs.find(name_);
    if (log == picture_.logs.end()) return;
    for (Finding& finding : out_) {
      finding.log = log->second;
      const bool vague = finding.cause == Cause::kClusterTrouble ||
                         finding.cause == Cause::kTaskFailed || finding.cause == Cause::kCrashLoop;
      if (!vague || !TellsOfDns(log->second)) continue;
      const std::string words = finding.says;
      finding = MakeFinding(Cause::kDns, absl::StrCat("pod ", name_), words);
      finding.log = log->second;
    }
  }

  const Json& pod_;
  const JobPicture& picture_;
  const Json& status_;
  const std::string name_;
  const std::string phase_;
  std::vector<Finding> out_;
};

}  // namespace

Cause CauseOfExit(int code, const std::string& reason) {
  if (reason == "OOMKilled") return Cause::kOutOfMemory;
  if (reason == "ContainerCannotRun" || reason == "StartError") return Cause::kCannotStart;
  switch (code) {
    case base::kExitUsage:
      return Cause::kBadArguments;
    case base::kExitData:
      return Cause::kBadData;
    case base::kExitNumeric:
      return Cause::kNotANumber;
    case 126:
    case 127:
      return Cause::kCannotStart;
    case base::kExitInterrupted:
    case kExitKilled:
    case base::kExitTerminated:
      return Cause::kKilled;
    case base::kExitCluster:
      return Cause::kClusterTrouble;
    default:
      return Cause::kTaskFailed;
  }
}

std::vector<Finding> FindingsOfPod(const Json& pod, const JobPicture& picture) {
  return PodReader(pod, picture).Read();
}

}  // namespace tfjob
