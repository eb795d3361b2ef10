// What the conditions of a job and the events about it tell.
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

constexpr absl::Duration kTimeToBeSeen = absl::Seconds(10);

// Of several obstacles in one message each is a finding.
std::vector<Finding> Blocked(const std::string& object, const std::string& message) {
  std::vector<Finding> out;
  for (const auto& piece : absl::StrSplit(message, "; ", absl::SkipEmpty())) {
    std::string part(piece);
    part = part.substr(0, part.find(" (to do: "));  // the operator's advice, which is ours, too
    const Cause cause = CauseOfRefusal(part);
    if (cause == Cause::kRefused && !out.empty()) {
      absl::StrAppend(&out.back().says, "; ", part);  // it was no end of a message
    } else {
      out.push_back(MakeFinding(cause, object, part));
    }
  }
  return out;
}

// An operator that keeps to v1.9 has no condition Blocked: the event counts while it is the newest.
const Json& RefusalEvent(const JobPicture& picture, const std::string& job) {
  const Json& refused =
      NewestEvent(picture, kKind, job,
                  {kReasonFailedCreatePod, kReasonFailedCreateService, kReasonFailedCreateSecret,
                   kReasonFailedCreatePodGroup, kReasonForeignPod, kReasonForeignService});
  const Json& made = NewestEvent(picture, kKind, job, {kReasonCreatedPod});
  const bool solved = !made.is_null() && TimeOfEvent(made) > TimeOfEvent(refused);
  return solved ? base::At(refused, "") : refused;
}

// The last exit code that the operator told of, with its words; the pod may be gone.
std::optional<Finding> EndedPod(const JobPicture& picture, const std::string& job) {
  const Json& event = NewestEvent(picture, kKind, job, {kReasonExitedWithCode});
  const std::string message = MessageOf(event);
  const size_t at = message.rfind(" exited with code ");
  int code = 0;
  if (at == std::string::npos || !absl::SimpleAtoi(message.substr(at + 18), &code) || code == 0) {
    return std::nullopt;
  }
  std::string names = message.substr(0, at);
  if (names.starts_with("Pod: ")) names = names.substr(5);
  Finding out = MakeFinding(CauseOfExit(code, ""), absl::StrCat("pod ", names), message);
  if (out.cause == Cause::kTaskFailed) out.what = absl::StrCat("ended with exit code ", code);
  return out;
}

std::vector<Finding> Failed(const std::string& object, const JobPicture& picture) {
  const Json& condition = ConditionOf(picture.job, kFailed);
  const std::string message = MessageOf(condition);
  std::vector<Finding> out;
  if (base::StringAt(condition, "reason") == kReasonFailedValidation) {
    return {MakeFinding(Cause::kInvalidSpec, object, message)};
  }
  if (Says(message, "longer than specified deadline")) {
    return {MakeFinding(Cause::kDeadline, object, message)};
  }
  if (Says(message, " was pending for ")) {
    return {MakeFinding(Cause::kPendingTooLong, object, message)};
  }
  if (Says(message, "backoff limit")) {
    out.push_back(MakeFinding(Cause::kBackoffLimit, object, message));
  } else {
    out.push_back(MakeFinding(Cause::kFailed, object, message));
  }
  if (std::optional<Finding> ended = EndedPod(picture, ObjectName(picture.job))) {
    out.push_back(*std::move(ended));
  }
  return out;
}

std::optional<Finding> NotSeen(const std::string& object, const JobPicture& picture) {
  const Json& policy = base::At(picture.job, "spec", "runPolicy");
  const std::string managed_by = base::StringAt(policy, "managedBy");
  if (!managed_by.empty() && managed_by != kManagedByUs) {
    return MakeFinding(Cause::kManagedElsewhere, object, "runPolicy.managedBy: " + managed_by);
  }
  if (!base::ArrayAt(base::At(picture.job, "status"), "conditions").empty()) return std::nullopt;
  const auto created = base::TimeAt(base::At(picture.job, "metadata"), "creationTimestamp");
  if (created && picture.now - *created < kTimeToBeSeen) return std::nullopt;
  return MakeFinding(Cause::kNotSeen, object, "");
}

Finding Suspended(const std::string& object, const JobPicture& picture) {
  Finding out =
      MakeFinding(Cause::kSuspended, object, MessageOf(ConditionOf(picture.job, kSuspended)));
  const std::string queue =
      base::StringAt(base::At(picture.job, "metadata", "labels"), "kueue.x-k8s.io/queue-name");
  if (!queue.empty()) {
    out.todo =
        absl::StrCat("Kueue resumes it once its queue ", queue, " has room: kubectl get workloads");
  }
  return out;
}

}  // namespace

Cause CauseOfRefusal(const std::string& message) {
  if (Says(message, "belongs to another owner")) return Cause::kNameTaken;
  if (Says(message, "exceeded quota") || Says(message, "failed quota")) return Cause::kQuota;
  if (Says(message, "PriorityClass")) return Cause::kPriorityClassMissing;
  if (Says(message, "serviceaccount") && Says(message, "not found")) {
    return Cause::kServiceAccountMissing;
  }
  if (Says(message, "failed calling webhook")) return Cause::kWebhookDown;
  if (Says(message, "violates PodSecurity")) return Cause::kPodSecurity;
  if ((Says(message, "admission webhook") || Says(message, "ValidatingAdmissionPolicy")) &&
      Says(message, "denied")) {
    return Cause::kWebhookDenied;
  }
  return Cause::kRefused;
}

std::vector<Finding> FindingsOfJob(const JobPicture& picture) {
  const Json& job = picture.job;
  const std::string object = absl::StrCat("TFJob ", ObjectName(job));
  if (IsTrue(job, kSucceeded)) return {};
  if (IsTrue(job, kFailed)) return Failed(object, picture);
  std::vector<Finding> out;
  if (std::optional<Finding> not_seen = NotSeen(object, picture))
    out.push_back(*std::move(not_seen));
  const bool wants_suspension =
      base::At(base::At(job, "spec", "runPolicy"), "suspend") == Json(true);
  if (wants_suspension || IsTrue(job, kSuspended)) {
    return {Suspended(object, picture)};
  }
  const Json& refusal =
      IsTrue(job, kBlocked) ? ConditionOf(job, kBlocked) : RefusalEvent(picture, ObjectName(job));
  for (Finding& finding : Blocked(object, MessageOf(refusal))) out.push_back(std::move(finding));
  if (IsTrue(job, kStalled)) {
    out.push_back(MakeFinding(Cause::kStalled, object, MessageOf(ConditionOf(job, kStalled))));
  }
  if (IsTrue(job, kQueued)) {
    out.push_back(
        MakeFinding(Cause::kGangNotAdmitted, object, MessageOf(ConditionOf(job, kQueued))));
  }
  return out;
}

}  // namespace tfjob
