#include "operator/cli/cluster/wait.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/describe.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/job_row.h"
#include "operator/cli/cluster/output.h"

namespace tfjob {
namespace {

std::string UidOfJob(const Json& job) { return base::StringAt(base::At(job, "metadata"), "uid"); }

// Whether a poll that failed may be tried again.
class Outage {
 public:
  bool Bear(const absl::Status& status, absl::Time now) {
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return false;
    if (!reached_) return false;  // it never answered
    if (!since_) since_ = now;
    return now - *since_ < kPatience;
  }
  void Over() {
    reached_ = true;
    since_.reset();
  }

 private:
  bool reached_ = false;
  std::optional<absl::Time> since_;
};

// The exit code once the wait is over. kFailed and kSucceeded exclude each other.
std::optional<int> Judge(const Json& job, const std::string& awaited) {
  const bool succeeded = IsTrue(job, kSucceeded);
  const bool failed = IsTrue(job, kFailed);
  if (awaited == kRunning && (IsTrue(job, kRunning) || succeeded)) return base::kExitOk;
  if (awaited == kFailed && failed) return base::kExitOk;
  if (awaited != kFailed && succeeded) return base::kExitOk;
  if (succeeded || failed) return base::kExitFailure;
  return std::nullopt;
}

std::string Outcome(const Json& job) {
  return absl::StrCat("TFJob ", ObjectName(job), ": ", StateOf(job),
                      ReasonOf(job).empty() ? "" : absl::StrCat(": ", ReasonOf(job)));
}

// What stands in the way, in one line.
std::string Obstacle(const Cluster& cluster, const std::string& name) {
  const absl::StatusOr<JobPicture> picture = TakePicture(cluster, name);
  if (!picture.ok()) return "";
  const std::vector<Finding> findings = DiagnoseJob(*picture);
  if (findings.empty() || findings.front().past) return "";
  const Finding& first = findings.front();
  return absl::StrCat("; ", first.objects.front(), " ", first.what,
                      first.says.empty() ? "" : absl::StrCat(": ", first.says));
}

std::string Standing(const Cluster& cluster, const Json& job, const std::string& name) {
  std::string out = absl::StrCat(StateOf(job), ", ", ReplicasText(job));
  if (!ProgressOf(job).empty()) absl::StrAppend(&out, ", ", ProgressOf(job));
  return out + Obstacle(cluster, name);
}

}  // namespace

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& flag, const std::string& text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    duration = absl::ZeroDuration();
  }
  if (duration > absl::ZeroDuration()) return duration;
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": \"", text, "\" is no duration above zero; write it as 90s, 10m or 1h30m"));
}

int WaitForJob(const Cluster& cluster, const std::string& name, const WaitFlags& flags,
               std::ostream& out, std::ostream& err) {
  const absl::StatusOr<absl::Duration> timeout = ParseTimeout("--timeout", flags.timeout);
  if (!timeout.ok()) return Fail(cluster, timeout.status(), err);
  const absl::Time start = cluster.now();
  absl::Time say = start + kSay;
  Outage outage;
  std::string uid;
  for (;;) {
    const absl::StatusOr<Json> job = GetJob(cluster, name);
    const absl::Time now = cluster.now();
    if (job.ok()) {
      outage.Over();
      if (!uid.empty() && UidOfJob(*job) != uid) {
        err << "trainyard: TFJob " << name << " was deleted and made again\n";
        return base::kExitFailure;
      }
      uid = UidOfJob(*job);
      if (const std::optional<int> code = Judge(*job, flags.awaited)) {
        if (IsStructured(cluster)) PrintObject(cluster, WholeJob(*job), out);
        (*code == base::kExitOk && !IsStructured(cluster) ? out : err) << Outcome(*job) << "\n";
        return *code;
      }
    } else if (absl::IsNotFound(job.status()) && !uid.empty()) {
      err << "trainyard: TFJob " << name << " was deleted\n";
      return base::kExitFailure;
    } else if (!outage.Bear(job.status(), now)) {
      return Fail(cluster, job.status(), err);
    }
    const std::string standing = now < say && now - start < *timeout ? ""
                                 : job.ok()                          ? Standing(cluster, *job, name)
                                            : std::string(job.status().message());
    if (now - start >= *timeout) {
      err << "trainyard: TFJob " << name << " was not " << flags.awaited << " within "
          << absl::FormatDuration(*timeout) << ": " << standing << "\n";
      return kExitTimeout;
    }
    if (now >= say) {
      err << "waiting for TFJob " << name << " to be " << flags.awaited << ", "
          << absl::ToInt64Seconds(now - start) << " s: " << standing << "\n"
          << std::flush;
      say += kSay;
    }
    if (!cluster.pause(kLook)) return base::kExitInterrupted;
  }
}

int WaitUntilGone(const Cluster& cluster, const Json& job, absl::Duration timeout,
                  std::ostream& out, std::ostream& err) {
  const std::string name = ObjectName(job);
  const absl::Time start = cluster.now();
  absl::Time say = start + kSay;
  Outage outage;
  outage.Over();
  for (;;) {
    const absl::StatusOr<Json> now_there = cluster.client->Get(kube::kTfJobs, cluster.ns, name);
    const absl::StatusOr<std::vector<Json>> pods = PodsOfJob(cluster, name);
    const bool gone = absl::IsNotFound(now_there.status()) ||
                      (now_there.ok() && UidOfJob(*now_there) != UidOfJob(job));
    std::vector<std::string> left;
    for (const Json& pod : pods.ok() ? *pods : std::vector<Json>()) {
      for (const Json& owner : base::ArrayAt(base::At(pod, "metadata"), "ownerReferences")) {
        if (base::StringAt(owner, "uid") == UidOfJob(job)) left.push_back(ObjectName(pod));
      }
    }
    if (gone && pods.ok() && left.empty()) {
      if (IsStructured(cluster)) PrintObject(cluster, WholeJob(job), out);
      (IsStructured(cluster) ? err : out) << "TFJob " << name << " is gone, and its pods are\n";
      return base::kExitOk;
    }
    const absl::Time now = cluster.now();
    const absl::Status trouble = gone || now_there.ok() ? pods.status() : now_there.status();
    if (trouble.ok()) {
      outage.Over();
    } else if (!outage.Bear(trouble, now)) {
      return Fail(cluster, trouble, err);
    }
    const std::string standing =
        absl::StrCat(gone ? "its pods are still there: " : "it is still there, with ", left.size(),
                     " pods", left.empty() ? "" : absl::StrCat(", ", left.front()));
    if (now - start >= timeout) {
      err << "trainyard: TFJob " << name << " was not gone within " << absl::FormatDuration(timeout)
          << ": " << standing << "\n";
      return kExitTimeout;
    }
    if (now >= say) {
      err << "waiting for TFJob " << name << " to be gone, " << absl::ToInt64Seconds(now - start)
          << " s: " << standing << "\n"
          << std::flush;
      say += kSay;
    }
    if (!cluster.pause(kLook)) return base::kExitInterrupted;
  }
}

}  // namespace tfjob
