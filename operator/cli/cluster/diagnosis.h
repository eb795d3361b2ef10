// Why a TFJob does not get on, in plain words: from what the API server has about it to the causes.
// PURE: JSON in, findings out; total: takes any JSON.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/api/tfjob.h"

namespace tfjob {

enum class Cause {
  kApiServerDown,
  kApiServerUnknownHost,
  kApiServerUntrusted,
  kNotAllowed,
  kNotSeen,  // no operator has looked at the job
  kManagedElsewhere,
  kInvalidSpec,
  kSuspended,
  kGangNotAdmitted,
  kQuota,
  kServiceAccountMissing,
  kPriorityClassMissing,
  kWebhookDenied,
  kWebhookDown,
  kPodSecurity,
  kNameTaken,    // a pod or service of another owner has a name that the job needs
  kStartOrder,   // its next pods wait for those before them
  kPodsMissing,  // and no refusal is known
  kRefused,      // any other refusal of the API server
  kGpuShortage,
  kResourceShortage,
  kNodeSelector,
  kTaint,
  kNodesCordoned,
  kVolumeClaim,  // missing, or not bound
  kVolumeMount,
  kNotPlaced,  // any other word of the scheduler
  kImageMissing,
  kConfigMissing,  // a ConfigMap or Secret
  kCannotStart,    // the container's command
  kSandbox,        // the node cannot set up the pod
  kOutOfMemory,
  kBadArguments,  // exit code 2
  kBadData,       // exit code 3
  kNotANumber,    // exit code 4
  kCrashLoop,
  kSidecarRuns,     // its program has ended, another container has not
  kKilled,          // by a signal, and not for memory
  kClusterTrouble,  // exit code 138
  kTaskFailed,      // any other exit code
  kDns,
  kStalled,  // it runs, and its training makes no steps
  kEvicted,
  kNodeLost,
  kDeadline,
  kBackoffLimit,
  kPendingTooLong,  // a rule of its failurePolicy says so
  kFailed,          // the job's own words, where nothing else tells
  kNoReason,        // a pod waits and nobody has said why
};
// "ImageMissing".
std::string_view NameOf(Cause cause);

struct Finding {
  Cause cause;
  std::vector<std::string> objects;  // "pod mine-worker-0", "TFJob mine"
  std::string what;                  // in plain words; follows the objects: "cannot pull its image"
  std::string says;                  // the cluster's own words, "" where it says nothing
  std::string todo;
  std::string log;    // how the container's output ends, lines; "" where that tells nothing
  bool past = false;  // it was so; the job gets on all the same
};

struct JobPicture {
  Json job;
  std::vector<Json> pods;    // those with the job's label
  std::vector<Json> events;  // of the namespace, in any order
  std::vector<Json> claims;  // PersistentVolumeClaims of the namespace
  bool claims_known = false;
  std::vector<Json> nodes;                  // where a pod is not placed; empty = not known
  std::vector<Json> dns_pods;               // of the cluster's DNS; empty = not known
  std::map<std::string, std::string> logs;  // by pod: the last lines of its container
  absl::Time now;
};

// The most likely cause first; what is past comes last. Empty: nothing stands in its way.
std::vector<Finding> DiagnoseJob(const JobPicture& picture);

// For a call that did not go through. `where`: "https://… (kubeconfig FILE)".
Finding DiagnoseCall(const absl::Status& status, const std::string& where);

}  // namespace tfjob
