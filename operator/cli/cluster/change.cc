#include "operator/cli/cluster/change.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/job_row.h"
#include "operator/cli/cluster/output.h"
#include "operator/cli/cluster/wait.h"

namespace tfjob {
namespace {

absl::Status CheckUnfinished(const Json& job, const char* what) {
  if (!IsOver(job)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "TFJob ", ObjectName(job), " has ", IsTrue(job, kFailed) ? "failed" : "succeeded",
      ": it cannot be ", what, " any more; delete it and apply it again"));
}

// Written only where nobody has changed the job meanwhile.
absl::Status PatchSpec(const Cluster& cluster, const Json& job, Json spec) {
  const Json& metadata = base::At(job, "metadata");
  const Json patch = {{"metadata",
                       {{"uid", base::StringAt(metadata, "uid")},
                        {"resourceVersion", base::StringAt(metadata, "resourceVersion")}}},
                      {"spec", std::move(spec)}};
  return cluster.client
      ->Patch(kube::kTfJobs, cluster.ns, ObjectName(job), kube::PatchType::kMerge, patch)
      .status();
}

// Looks, changes, and does both again where somebody, mostly the operator with its status, was
// faster. `say`: what is said to people about it.
int Change(const Cluster& cluster, const std::string& name, std::ostream& out, std::ostream& err,
           const std::function<absl::Status(const Json&, std::ostream& say)>& change) {
  constexpr int kTries = 5;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    const absl::StatusOr<Json> job = GetJob(cluster, name);
    status = job.ok() ? change(*job, IsStructured(cluster) ? err : out) : job.status();
    if (!absl::IsAborted(status)) break;
  }
  if (status.ok() && IsStructured(cluster)) {
    const absl::StatusOr<Json> job = GetJob(cluster, name);
    if (job.ok()) PrintObject(cluster, WholeJob(*job), out);
    status = job.status();
  }
  return status.ok() ? base::kExitOk : Fail(cluster, status, err);
}

// The key of the type in the manifest, which may spell it in any case.
absl::StatusOr<std::string> KeyOfType(const Json& job, const std::string& type) {
  std::vector<std::string> there;
  const Json& specs = base::At(job, "spec", "tfReplicaSpecs");
  for (const auto& [key, spec] : specs.items()) {
    if (CanonicalReplicaType(key) == CanonicalReplicaType(type)) return key;
    there.push_back(key);
  }
  return absl::InvalidArgumentError(absl::StrCat("--type: TFJob ", ObjectName(job), " has no ",
                                                 type, "; it has ", absl::StrJoin(there, ", ")));
}

}  // namespace

int SuspendJob(const Cluster& cluster, const std::string& name, bool suspend, std::ostream& out,
               std::ostream& err) {
  return Change(cluster, name, out, err, [&](const Json& job, std::ostream& say) -> absl::Status {
    const Json& before = base::At(base::At(job, "spec", "runPolicy"), "suspend");
    if ((before == Json(true)) == suspend) {
      say << "TFJob " << name << (suspend ? " is suspended already\n" : " is not suspended\n");
      return absl::OkStatus();
    }
    absl::Status status = CheckUnfinished(job, suspend ? "suspended" : "resumed");
    if (status.ok()) status = PatchSpec(cluster, job, {{"runPolicy", {{"suspend", suspend}}}});
    if (!status.ok()) return status;
    say << "TFJob " << name
        << (suspend ? " is suspended: its pods end, what is on its volumes stays\n"
                    : " is resumed\n");
    const Json& labels = base::At(job, "metadata", "labels");
    if (!base::StringAt(labels, "kueue.x-k8s.io/queue-name").empty()) {
      err << "trainyard: note: Kueue has the job in a queue and may decide otherwise\n";
    }
    return absl::OkStatus();
  });
}

int ScaleJob(const Cluster& cluster, const std::string& name, const ScaleFlags& flags,
             std::ostream& out, std::ostream& err) {
  if (flags.replicas < 0 || flags.replicas > kMaxReplicas) {
    return Fail(cluster,
                absl::InvalidArgumentError(
                    absl::StrCat("N: ", flags.replicas, " is not between 0 and ", kMaxReplicas)),
                err);
  }
  return Change(cluster, name, out, err, [&](const Json& job, std::ostream& say) -> absl::Status {
    const absl::StatusOr<std::string> key = KeyOfType(job, flags.type);
    if (!key.ok()) return key.status();
    const Json& spec = base::At(base::At(job, "spec", "tfReplicaSpecs"), *key);
    const int replicas = IntAt(spec, "replicas", 1);
    if (replicas == flags.replicas) {
      say << "TFJob " << name << " has " << replicas << " " << *key << " already\n";
      return absl::OkStatus();
    }
    absl::Status status = CheckUnfinished(job, "scaled");
    if (status.ok()) {
      status =
          PatchSpec(cluster, job, {{"tfReplicaSpecs", {{*key, {{"replicas", flags.replicas}}}}}});
    }
    if (!status.ok()) return status;
    say << "TFJob " << name << ": " << *key << " " << replicas << " -> " << flags.replicas << "\n";
    return absl::OkStatus();
  });
}

int RemoveJob(const Cluster& cluster, const std::string& name, const DeleteFlags& flags,
              std::ostream& out, std::ostream& err) {
  const absl::StatusOr<absl::Duration> timeout = ParseTimeout("--timeout", flags.timeout);
  if (!timeout.ok()) return Fail(cluster, timeout.status(), err);
  const absl::StatusOr<Json> job = GetJob(cluster, name);
  if (!job.ok()) return Fail(cluster, job.status(), err);
  const std::string uid = base::StringAt(base::At(*job, "metadata"), "uid");
  const absl::Status status = cluster.client->Delete(kube::kTfJobs, cluster.ns, name, {.uid = uid});
  if (!status.ok() && !absl::IsNotFound(status)) return Fail(cluster, status, err);
  if (flags.wait) return WaitUntilGone(cluster, *job, *timeout, out, err);
  if (IsStructured(cluster)) PrintObject(cluster, WholeJob(*job), out);
  (IsStructured(cluster) ? err : out) << "TFJob " << name << " is deleted; its pods go with it\n";
  return base::kExitOk;
}

}  // namespace tfjob
