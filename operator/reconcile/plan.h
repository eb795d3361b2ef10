// The decision of the operator as one pure function: what is observed of a job and its children
// goes in, what to do, the new status, events and the next wake-up come out. The Kubernetes
// executor and the local runner both apply its plans. Knows no API client, no processes, no clock.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/cluster_spec.h"
#include "operator/api/tfjob.h"

namespace tfjob {

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

// The little that decisions need of a pod.
struct PodView {
  std::string name;
  std::string uid;
  std::string owner_uid;  // uid of the controlling owner; pods of other owners are never touched
  std::string job_uid;    // label job-uid; "" where v1.9 made it
  std::string type;       // label replica-type: "worker"
  int index = -1;         // label replica-index
  PodPhase phase = PodPhase::kPending;
  // Its phase is what its own containers have come to; a sidecar that never ends still runs.
  bool sidecar_runs = false;
  std::string reason;  // status.reason, e.g. Evicted
  std::optional<absl::Time> creation_time;
  std::optional<absl::Time> deletion_time;
  // Exit code of the terminated container `tensorflow`; nullopt while it runs or if it never ran.
  std::optional<int> exit_code;
  int restart_count = 0;  // sum over init and normal containers, as the kubelet counts
  bool ready = false;
  bool task_tls = false;   // its task speaks TLS with the others
  bool disrupted = false;  // condition DisruptionTarget=True: evicted, pre-empted, node lost
  // Of a pod in phase Failed: its conditions (type → status), and how its container `tensorflow`
  // ended. Empty for others, so that pods that run cost no memory for it.
  std::map<std::string, std::string> failed_conditions;
  std::string end_reason;   // OOMKilled, Error …
  std::string end_message;  // the end of its termination message, at most 1 KiB
  std::optional<absl::Time> end_time;
  // Its controlling owner is a TFJob of the name in its labels: with another uid than the job's it
  // is a leftover of an earlier job of that name, and the garbage collector is on its way.
  bool owned_by_namesake = false;
  std::string ip;  // "" until it has one, and on its node's own network
  // Why it does not get on, in the cluster's words: ImagePullBackOff, CrashLoopBackOff,
  // Unschedulable … "" while all is well.
  std::string waiting_reason;
  std::string waiting_message;
  bool operator==(const PodView&) const = default;
};

struct ServiceView {
  std::string name;
  std::string uid;
  std::string owner_uid;
  std::string job_uid;
  std::string type;
  int index = -1;
  std::optional<absl::Time> deletion_time;
  bool operator==(const ServiceView&) const = default;
};

// What a gang scheduler is asked for. A field that the scheduler's kind does not know stays empty.
struct PodGroupSpec {
  int min_member = 0;
  std::string queue;                                 // Volcano
  std::string priority_class;                        // Volcano
  std::map<std::string, std::string> min_resources;  // resource name → quantity
  std::optional<int> schedule_timeout_seconds;       // scheduler-plugins
  bool operator==(const PodGroupSpec&) const = default;
};

// The gang of a job in the cluster; pods may have to wait for its admission.
struct PodGroupView {
  std::string name;
  std::string uid;
  std::string owner_uid;
  std::optional<absl::Time> deletion_time;
  std::string phase;    // "" until the scheduler has seen it
  std::string message;  // why it is not placed, in the scheduler's words
  PodGroupSpec spec;
  bool operator==(const PodGroupView&) const = default;
};

// What stood in the way of an action: reason and message of the event and the condition about it.
struct Trouble {
  std::string reason;  // FailedCreatePod, PodNameTaken …
  std::string message;
  bool operator==(const Trouble&) const = default;
};

struct Observed {
  // As stored; MakePlan applies the defaults itself. Its status must be at least as new as the last
  // one that the caller wrote; pods and services may be stale.
  TfJob job;
  std::vector<PodView> pods;
  std::vector<ServiceView> services;
  std::vector<PodGroupView> pod_groups;  // empty unless PlanOptions names a gang scheduler
  absl::Time now;
  // What the actions of this pass ran into, once they have been tried; nullopt before that.
  std::optional<std::vector<Trouble>> troubles;
  // What the chief says of the training, where it was asked and has answered.
  std::optional<Progress> progress;
  // What FromJson found in the job's manifest.
  std::vector<FieldError> parse_errors;
  std::vector<FieldError> parse_warnings;
};

// Actions. Deletes carry the uid as precondition; creates carry the whole object.
struct CreatePodGroup {
  std::string name;
  Json object;
  bool operator==(const CreatePodGroup&) const = default;
};
struct UpdatePodGroup {
  std::string name;
  std::string uid;
  Json spec;  // a merge patch of its spec
  bool operator==(const UpdatePodGroup&) const = default;
};
struct DeletePodGroup {
  std::string name;
  std::string uid;
  bool operator==(const DeletePodGroup&) const = default;
};
// The secret that the tasks of the job share; whoever executes this adds its data.
struct CreateSecret {
  std::string name;
  Json object;
  bool operator==(const CreateSecret&) const = default;
};
// A claim that a replica's template asks for; one of that name that is there already is used.
struct CreateClaim {
  std::string name;
  Json object;
  bool operator==(const CreateClaim&) const = default;
};
// Of a replica that the job no longer has. Goes by name: claims are not watched.
struct DeleteClaim {
  std::string name;
  bool operator==(const DeleteClaim&) const = default;
};
struct CreateService {
  std::string name;
  std::string type;  // "worker"; "" and -1: the one of the whole job
  int index = 0;
  Json object;
  bool operator==(const CreateService&) const = default;
};
struct CreatePod {
  std::string name;
  std::string type;
  int index = 0;
  Json object;
  bool operator==(const CreatePod&) const = default;
};
struct DeletePod {
  std::string name;
  std::string uid;
  bool force = false;  // without waiting for its node, which is lost
  bool operator==(const DeletePod&) const = default;
};
struct DeleteService {
  std::string name;
  std::string uid;
  bool operator==(const DeleteService&) const = default;
};
// A service of ours without an owner: becomes the job's, so that it goes with the job.
struct AdoptService {
  std::string name;
  std::string uid;
  bool operator==(const AdoptService&) const = default;
};
// The TTL is over: delete the job itself, its children by background propagation.
struct DeleteJob {
  std::string name;
  std::string uid;
  bool operator==(const DeleteJob&) const = default;
};
using Action = std::variant<CreatePodGroup, UpdatePodGroup, CreateSecret, CreateClaim,
                            CreateService, CreatePod, DeleteClaim, DeletePod, DeleteService,
                            DeletePodGroup, AdoptService, DeleteJob>;

// An event on the job, to be sent once the status write has succeeded. Events about the outcome of
// an action (SuccessfulCreatePod, FailedDeletePod …) are the executor's.
struct Event {
  std::string type;  // Normal or Warning
  std::string reason;
  std::string message;
  bool operator==(const Event&) const = default;
};

struct Plan {
  // In order: deletes, the pod group, the secret, claims, services, pods.
  std::vector<Action> actions;
  // The job has ended for good, and its deletes of this kind are of all that carries its label
  // job-uid: one call by that label may stand for many.
  bool deletes_all_pods = false;
  bool deletes_all_services = false;
  TfJobStatus status;  // to be written if it differs from the observed one
  std::vector<Event> events;
  // When to look again if nothing happens: zero means at once, after the status has been written.
  std::optional<absl::Duration> requeue_after;
  // What the job waits for, for people; "" where it is its pods, as usual.
  std::string waits_for;
  bool operator==(const Plan&) const = default;
};

struct PlanOptions {
  // Behave as training-operator v1.9 does, even where that hurts users (see docs: migration).
  bool compat_v19 = false;
  std::string cluster_domain;                 // appended to <pod>.<ns>.svc when not empty
  std::string default_namespace = "default";  // for a job without one
  std::string default_clean_pod_policy = "None";
  bool evaluator_in_cluster = true;  // list evaluators in TF_CONFIG's cluster
  // Pods of lost nodes are deleted by force when their deletion is overdue by so much; zero: never,
  // for such a node may still run them.
  absl::Duration lost_pod_timeout;
  bool inject_host_env = true;  // PS_HOSTS, WORKER_HOSTS, JOB_NAME, TASK_INDEX
  // Every job is a gang of this scheduler: "volcano", or one that reads the PodGroups of
  // scheduler-plugins. Empty: no gangs.
  std::string gang_scheduler;
  // Repositories of images whose jobs speak TLS between their tasks unless an annotation says
  // otherwise (see api/task_tls.h); empty: only jobs whose annotation asks for it.
  std::vector<std::string> task_tls_images;
  int task_tls_file_mode = 0444;  // of the files in pods, whose users may be any
  // The address that peers use for a task, given the port that its manifest asks for. Empty: the
  // DNS name of its service. Must be a pure function of its arguments.
  std::function<std::string(const base::Task& task, int port)> address;
  // Pods and services also get the labels of tf-operator and of training-operator up to v1.5.
  bool legacy_labels = false;
  // The exit codes that policy ExitCode takes for worth a retry; empty: all from 128 on.
  std::set<int> retryable_exit_codes;
};

// Total: never fails; a bad spec becomes a Failed condition and an event.
Plan MakePlan(const Observed& observed, const PlanOptions& options = {});

// True once the job has a Succeeded or Failed condition that is True.
bool IsFinished(const TfJobStatus& status);
// True if the condition of this type is there and True.
bool HasCondition(const TfJobStatus& status, const std::string& type);

}  // namespace tfjob
