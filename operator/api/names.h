// Every string that operator, children and clients must agree on: API group, labels, ports,
// container name, condition types and reasons, event reasons. Values are those of training-operator
// v1.9.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tfjob {

inline constexpr char kApiVersion[] = "kubeflow.org/v1";
inline constexpr char kKind[] = "TFJob";
inline constexpr char kOperatorName[] = "tfjob-controller";

// Labels of pods and services.
inline constexpr char kLabelOperatorName[] = "training.kubeflow.org/operator-name";
inline constexpr char kLabelJobName[] = "training.kubeflow.org/job-name";
inline constexpr char kLabelReplicaType[] = "training.kubeflow.org/replica-type";
inline constexpr char kLabelReplicaIndex[] = "training.kubeflow.org/replica-index";
// Additive: which job of that name. By it all children of a finished job go in one call.
inline constexpr char kLabelJobUid[] = "training.kubeflow.org/job-uid";
inline constexpr char kLabelJobRole[] = "training.kubeflow.org/job-role";
inline constexpr char kJobRoleMaster[] = "master";

// The same as tf-operator (since v0.5) and training-operator (up to v1.5) had them; only on
// request, and never selected by.
inline constexpr char kLegacyLabelGroupName[] = "group-name";
inline constexpr char kLegacyGroupName[] = "kubeflow.org";
inline constexpr const char* kLegacyLabelsJobName[] = {"job-name", "tf-job-name"};
inline constexpr const char* kLegacyLabelsReplicaType[] = {"replica-type", "tf-replica-type"};
inline constexpr const char* kLegacyLabelsReplicaIndex[] = {"replica-index", "tf-replica-index"};
inline constexpr const char* kLegacyLabelsJobRole[] = {"job-role", "tf-job-role"};

// The container that decides about success, and its port.
inline constexpr char kContainerName[] = "tensorflow";
inline constexpr char kPortName[] = "tfjob-port";
inline constexpr int kDefaultPort = 2222;
inline constexpr char kProgressPortName[] = "progress";  // additive: where it serves /progress
inline constexpr char kTfConfigEnv[] = "TF_CONFIG";

// Keys of spec.tfReplicaSpecs. Alphabetical order is the order in which types are judged.
inline constexpr char kChief[] = "Chief";
inline constexpr char kEvaluator[] = "Evaluator";
inline constexpr char kMaster[] = "Master";
inline constexpr char kPs[] = "PS";
inline constexpr char kWorker[] = "Worker";

// Containers that service meshes and their like put into pods, and that run until the pod is
// deleted: of Istio, Linkerd, Kuma, Consul, Dapr and Vault.
inline constexpr std::array<std::string_view, 6> kKnownSidecars = {
    "istio-proxy", "linkerd-proxy", "kuma-sidecar", "consul-dataplane", "daprd", "vault-agent"};

inline constexpr char kRestartAlways[] = "Always";
inline constexpr char kRestartOnFailure[] = "OnFailure";
inline constexpr char kRestartNever[] = "Never";
inline constexpr char kRestartExitCode[] = "ExitCode";

inline constexpr char kFailJob[] = "FailJob";
inline constexpr char kRestartReplica[] = "RestartReplica";
inline constexpr char kRestartJob[] = "RestartJob";
inline constexpr char kIgnore[] = "Ignore";
inline constexpr char kIn[] = "In";
inline constexpr char kNotIn[] = "NotIn";
inline constexpr char kDisruptionTarget[] = "DisruptionTarget";  // condition of a pod

inline constexpr char kCleanAll[] = "All";
inline constexpr char kCleanRunning[] = "Running";
inline constexpr char kCleanNone[] = "None";

inline constexpr char kRetain[] = "Retain";  // claims of replicas
inline constexpr char kDelete[] = "Delete";

inline constexpr char kInOrder[] = "InOrder";
inline constexpr char kAnyOrder[] = "AnyOrder";

inline constexpr char kSuccessDefault[] = "";
inline constexpr char kSuccessAllWorkers[] = "AllWorkers";

inline constexpr char kManagedByUs[] = "kubeflow.org/training-operator";
inline constexpr char kManagedByMultiKueue[] = "kueue.x-k8s.io/multikueue";

// Condition types.
inline constexpr char kCreated[] = "Created";
inline constexpr char kRunning[] = "Running";
inline constexpr char kRestarting[] = "Restarting";
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kFailed[] = "Failed";
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kBlocked[] = "Blocked";  // additive: the operator cannot do what the job asks
inline constexpr char kQueued[] = "Queued";  // additive: its gang scheduler has not admitted it yet
inline constexpr char kStalled[] =
    "Stalled";  // additive: no new step for spec.progress.stallSeconds
inline constexpr char kTrue[] = "True";
inline constexpr char kFalse[] = "False";

// Reasons of conditions and events.
inline constexpr char kReasonCreated[] = "TFJobCreated";
inline constexpr char kReasonRunning[] = "TFJobRunning";
inline constexpr char kReasonRestarting[] = "TFJobRestarting";
inline constexpr char kReasonSucceeded[] = "TFJobSucceeded";
inline constexpr char kReasonFailed[] = "TFJobFailed";
inline constexpr char kReasonSuspended[] = "TFJobSuspended";
inline constexpr char kReasonResumed[] = "TFJobResumed";
inline constexpr char kReasonStalled[] = "TFJobStalled";
inline constexpr char kReasonFailedValidation[] = "TFJobFailedValidation";
inline constexpr char kReasonExitedWithCode[] = "ExitedWithCode";
inline constexpr char kReasonTemplateRestartPolicy[] = "SetPodTemplateRestartPolicy";
inline constexpr char kReasonSpecWarning[] = "TFJobSpecWarning";
inline constexpr char kReasonForeignPod[] = "PodNameTaken";
inline constexpr char kReasonForeignService[] = "ServiceNameTaken";
inline constexpr char kReasonForeignSecret[] = "SecretNameTaken";
inline constexpr char kReasonCreatedPod[] = "SuccessfulCreatePod";
inline constexpr char kReasonFailedCreatePod[] = "FailedCreatePod";
inline constexpr char kReasonDeletedPod[] = "SuccessfulDeletePod";
inline constexpr char kReasonFailedDeletePod[] = "FailedDeletePod";
inline constexpr char kReasonCreatedService[] = "SuccessfulCreateService";
inline constexpr char kReasonFailedCreateService[] = "FailedCreateService";
inline constexpr char kReasonFailedCreateSecret[] = "FailedCreateSecret";
inline constexpr char kReasonCreatedClaim[] = "SuccessfulCreateClaim";
inline constexpr char kReasonFailedCreateClaim[] = "FailedCreateClaim";
inline constexpr char kReasonExistingClaim[] = "ExistingClaim";
inline constexpr char kReasonDeletedClaim[] = "SuccessfulDeleteClaim";
inline constexpr char kReasonFailedDeleteClaim[] = "FailedDeleteClaim";
inline constexpr char kReasonDeletedService[] = "SuccessfulDeleteService";
inline constexpr char kReasonFailedDeleteService[] = "FailedDeleteService";
inline constexpr char kReasonDeletedJob[] = "SuccessfulDeleteJob";
inline constexpr char kReasonFailedDeleteJob[] = "FailedDeleteJob";
inline constexpr char kReasonTemplateScheduler[] = "SetPodTemplateSchedulerName";
inline constexpr char kReasonPodGroupPending[] = "PodGroupPending";
inline constexpr char kReasonForeignPodGroup[] = "PodGroupNameTaken";
inline constexpr char kReasonFailedCreatePodGroup[] = "FailedCreatePodGroup";
inline constexpr char kReasonFailedUpdatePodGroup[] = "FailedUpdatePodGroup";
inline constexpr char kReasonJobTerminated[] = "JobTerminated";
inline constexpr char kReasonDeletedPodGroup[] = "SuccessfulDeletePodGroup";
inline constexpr char kReasonFailedDeletePodGroup[] = "FailedDeletePodGroup";

// Gang scheduling. Volcano's name is the one that chooses its own kind of PodGroup.
inline constexpr char kVolcano[] = "volcano";
inline constexpr char kVolcanoApiVersion[] = "scheduling.volcano.sh/v1beta1";
inline constexpr char kSchedulerPluginsApiVersion[] = "scheduling.x-k8s.io/v1alpha1";
inline constexpr char kPodGroupKind[] = "PodGroup";
inline constexpr char kPodGroupPlural[] = "podgroups";
inline constexpr char kAnnotationGroupName[] = "scheduling.k8s.io/group-name";  // Volcano
inline constexpr char kAnnotationTaskSpec[] = "volcano.sh/task-spec";
inline constexpr char kLabelPodGroup[] = "scheduling.x-k8s.io/pod-group";  // scheduler-plugins

// "Worker" for any spelling of it ("WORKER", "worker"); the key itself if it is no known type.
std::string CanonicalReplicaType(std::string_view key);
bool IsKnownReplicaType(std::string_view canonical);
// Chief or Master.
bool IsChiefLike(std::string_view canonical);
// "worker": as in labels, names and TF_CONFIG.
std::string LowerReplicaType(std::string_view type);
// <job>-<lower type>-<index>, "/" replaced by "-": the name of both pod and service.
std::string ReplicaName(std::string_view job, std::string_view type, int index);

}  // namespace tfjob
