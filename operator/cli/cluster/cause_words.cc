// What each cause is called, what it means for the pod or job, and what to do about it.
#include <array>

#include "operator/cli/cluster/findings.h"

namespace tfjob {
namespace {

struct Words {
  Cause cause;
  const char* name;
  const char* what;
  const char* todo;
};

constexpr std::array kWords = {
    Words{Cause::kApiServerDown, "ApiServerDown", "the API server does not answer",
          "see whether the cluster runs and whether this is its address; --kubeconfig or --context "
          "name another"},
    Words{Cause::kApiServerUnknownHost, "ApiServerUnknownHost",
          "the name of the API server does not resolve",
          "correct the server in the kubeconfig, or the DNS of this machine"},
    Words{Cause::kApiServerUntrusted, "ApiServerUntrusted",
          "the API server's certificate is not accepted",
          "give the kubeconfig the certificate authority of this cluster "
          "(certificate-authority), or correct its server"},
    Words{Cause::kNotAllowed, "NotAllowed", "you may not do that",
          "log in again, or let somebody with the rights give them to you (kubectl auth can-i)"},
    Words{Cause::kNotSeen, "NotSeen", "no operator has looked at it yet",
          "see whether the operator runs and serves this namespace: kubectl get pods -A -l "
          "app.kubernetes.io/name=trainyard; helm test trainyard -n trainyard-system"},
    Words{Cause::kManagedElsewhere, "ManagedElsewhere", "is left to another controller",
          "ask that one, or make the job without runPolicy.managedBy"},
    Words{Cause::kInvalidSpec, "InvalidSpec", "has an invalid spec",
          "correct the manifest (trainyard validate FILE shows all problems), delete the job and "
          "apply it again"},
    Words{Cause::kSuspended, "Suspended", "is suspended", "trainyard resume JOB"},
    Words{Cause::kGangNotAdmitted, "GangNotAdmitted",
          "waits until the gang scheduler has room for all of it",
          "free resources or ask for less: queue, minAvailable and the pods' requests must fit "
          "together"},
    Words{Cause::kQuota, "Quota", "cannot make its pods: the namespace's quota is used up",
          "raise the quota or free what others use of it (kubectl describe quota); it is tried "
          "again by itself"},
    Words{Cause::kServiceAccountMissing, "ServiceAccountMissing",
          "cannot make its pods: their service account does not exist",
          "create that service account or correct serviceAccountName in the pod template"},
    Words{Cause::kPriorityClassMissing, "PriorityClassMissing",
          "cannot make its pods: their PriorityClass does not exist",
          "create that PriorityClass or correct priorityClassName in the pod template"},
    Words{Cause::kWebhookDenied, "WebhookDenied",
          "cannot make its pods: an admission policy of the cluster denies them",
          "change what the message names in the pod template, or ask whoever keeps that policy"},
    Words{Cause::kWebhookDown, "WebhookDown",
          "cannot make its pods: an admission webhook of the cluster does not answer",
          "let whoever keeps that webhook repair it; it is tried again by itself"},
    Words{Cause::kPodSecurity, "PodSecurity",
          "cannot make its pods: the namespace's Pod Security level forbids them",
          "give the pod template the securityContext that the message asks for, or use another "
          "namespace"},
    Words{Cause::kNameTaken, "NameTaken", "needs a name that something else has",
          "delete or rename that object, or give the job another name"},
    Words{Cause::kStartOrder, "StartOrder",
          "makes its next pods once those before them are ready (startupPolicyOrder is InOrder)",
          "see why these are not ready: their readinessProbe, and trainyard logs JOB"},
    Words{Cause::kPodsMissing, "PodsMissing", "lacks pods, and nobody has said why",
          "see the operator's log (kubectl -n trainyard-system logs deployment/trainyard): the API "
          "server may refuse them for the time being, or an admission webhook may not answer"},
    Words{Cause::kRefused, "Refused", "cannot make its pods: the API server refuses them",
          "correct what the message names; it is tried again by itself"},
    Words{Cause::kGpuShortage, "GpuShortage", "is not placed: no node has enough free GPUs",
          "free GPUs, add nodes with GPUs, or ask for fewer; nodes show GPUs only where their "
          "device plugin runs (docs/gpus.md)"},
    Words{Cause::kResourceShortage, "ResourceShortage",
          "is not placed: no node has enough free CPU, memory or other resources",
          "lower resources.requests in the pod template, free resources, or add nodes"},
    Words{Cause::kNodeSelector, "NodeSelector",
          "is not placed: no node matches its nodeSelector or affinity",
          "correct nodeSelector or affinity in the pod template, or label a node (kubectl get "
          "nodes --show-labels)"},
    Words{Cause::kTaint, "Taint", "is not placed: the nodes have a taint that it does not tolerate",
          "add a toleration to the pod template, or remove the taint (kubectl describe nodes)"},
    Words{Cause::kNodesCordoned, "NodesCordoned", "is not placed: nodes take no new pods",
          "kubectl uncordon NODE, or add nodes"},
    Words{Cause::kVolumeClaim, "VolumeClaim", "waits for a PersistentVolumeClaim",
          "create the claim, or see why it is not bound: kubectl describe pvc (docs/volumes.md)"},
    Words{Cause::kVolumeMount, "VolumeMount", "cannot mount a volume",
          "the message names the volume; a ReadWriteOnce volume serves one node only "
          "(docs/volumes.md)"},
    Words{Cause::kNotPlaced, "NotPlaced", "is not placed on a node",
          "see what the scheduler says; kubectl describe nodes shows what nodes have"},
    Words{Cause::kImageMissing, "ImageMissing", "cannot pull its image",
          "correct the image's name and tag, load it onto the nodes, or name a pull secret "
          "(imagePullSecrets); with the tag latest, or none, nodes always ask the registry"},
    Words{Cause::kConfigMissing, "ConfigMissing", "misses a ConfigMap, a Secret or a key of one",
          "create what the message names, or correct the reference in the pod template"},
    Words{Cause::kCannotStart, "CannotStart", "cannot start its command",
          "correct command in the pod template: the program must be in the image"},
    Words{Cause::kSandbox, "Sandbox", "cannot be set up by its node",
          "see to the node's network plugin and container runtime (kubectl describe node)"},
    Words{Cause::kOutOfMemory, "OutOfMemory", "was ended because it used more memory than allowed",
          "raise resources.limits.memory in the pod template, or use less: a smaller batch"},
    Words{Cause::kBadArguments, "BadArguments",
          "ended with exit code 2: its arguments or settings are wrong",
          "correct args, command or env in the pod template; the log lists what is wrong"},
    Words{Cause::kBadData, "BadData", "ended with exit code 3: data or checkpoint are unusable",
          "see file and reason in the log; another --data_dir or --checkpoint_dir"},
    Words{Cause::kNotANumber, "NotANumber", "ended with exit code 4: the loss is NaN or infinite",
          "a smaller learning rate, or --clip_norm"},
    Words{Cause::kCrashLoop, "CrashLoop", "crashes again and again",
          "see why in its log: trainyard logs JOB"},
    Words{Cause::kSidecarRuns, "SidecarRuns", "has run its program, and another container goes on",
          "a pod ends when all of its containers have: make the other one a sidecar of Kubernetes' "
          "own kind (an init container with restartPolicy: Always), or name it in the operator's "
          "--sidecar-containers"},
    Words{Cause::kKilled, "Killed", "was killed by a signal",
          "137: the node ran out of memory, or somebody killed it; 143: it was told to end"},
    Words{Cause::kClusterTrouble, "ClusterTrouble",
          "ended with exit code 138: it could not reach the other tasks",
          "see the log for whom it waited, and that task's pod; NetworkPolicies must let the pods "
          "of a job reach each other"},
    Words{Cause::kTaskFailed, "TaskFailed", "failed", "see why in its log: trainyard logs JOB"},
    Words{Cause::kDns, "Dns", "cannot resolve the names of the other tasks",
          "see whether the cluster's DNS runs (kubectl -n kube-system get pods -l "
          "k8s-app=kube-dns) and whether a NetworkPolicy closes port 53"},
    Words{Cause::kStalled, "Stalled", "runs, and its training makes no new steps",
          "see in the logs for whom its tasks wait: trainyard logs JOB -f; slow storage and a "
          "network "
          "that drops packets look like that, too"},
    Words{Cause::kEvicted, "Evicted", "was taken off its node by the cluster",
          "it is made again by itself where its restartPolicy allows; requests near what it uses, "
          "or a higher priority, make it rarer"},
    Words{Cause::kNodeLost, "NodeLost", "is on a node that does not answer",
          "bring the node back or remove its Node object (kubectl delete node NODE)"},
    Words{Cause::kDeadline, "Deadline", "was active longer than activeDeadlineSeconds allows",
          "raise runPolicy.activeDeadlineSeconds, delete the job and apply it again: it goes on "
          "from its checkpoint"},
    Words{Cause::kBackoffLimit, "BackoffLimit", "was restarted as often as backoffLimit allows",
          "cure why its pods fail, or raise runPolicy.backoffLimit; delete the job and apply it "
          "again"},
    Words{Cause::kPendingTooLong, "PendingTooLong",
          "has failed: a pod was pending for longer than its failurePolicy allows",
          "the message says why the pod could not start; cure that or raise timeoutSeconds, delete "
          "the job and apply it again"},
    Words{Cause::kFailed, "Failed", "has failed",
          "see why in its log: trainyard logs JOB; delete the job and apply it again"},
    Words{Cause::kNoReason, "NoReason", "waits, and the cluster has not said why",
          "kubectl describe pod; is there a scheduler, and do the nodes' kubelets run?"},
};

const Words& WordsOf(Cause cause) {
  for (const Words& words : kWords) {
    if (words.cause == cause) return words;
  }
  return kWords.back();
}

}  // namespace

std::string_view NameOf(Cause cause) { return WordsOf(cause).name; }

Finding MakeFinding(Cause cause, const std::string& object, const std::string& says) {
  const Words& words = WordsOf(cause);
  return {
      .cause = cause, .objects = {object}, .what = words.what, .says = says, .todo = words.todo};
}

}  // namespace tfjob
