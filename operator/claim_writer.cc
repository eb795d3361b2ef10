#include "operator/claim_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/pod_view.h"
#include "operator/refusal.h"

namespace tfjob {

ClaimWriter::ClaimWriter(Parts parts)
    : parts_(std::move(parts)),
      ns_(parts_.job.metadata.namespace_name),
      key_(absl::StrCat(ns_, "/", parts_.job.metadata.name)) {}

// Looks first: an attempt to make what is there counts against a quota before it is refused.
bool ClaimWriter::Create(const CreateClaim& create) {
  const absl::StatusOr<Json> there =
      parts_.client.Get(kube::kClaims, ns_, create.name, parts_.stop);
  if (there.ok()) return Use(*there);
  absl::Status status = there.status();
  if (absl::IsNotFound(status)) {
    status = parts_.client.Create(kube::kClaims, ns_, create.object, parts_.stop).status();
  }
  if (status.ok()) {
    parts_.record.CreatedClaim(create.name);
    return true;
  }
  if (MayPass(status)) return parts_.record.Failed(status);
  return parts_.record.Blocked({kReasonFailedCreateClaim, ErrorCreating(status)});
}

// It may hold what an earlier job has left, or what somebody has prepared; not what is about to go.
bool ClaimWriter::Use(const Json& claim) {
  const std::string& uid = parts_.job.metadata.uid;
  const PodView view = PodViewOf(claim);  // name, labels and owner
  if (IsOfBefore(view, uid)) {
    return parts_.record.Failed(absl::UnavailableError(
        absl::StrCat("PersistentVolumeClaim ", view.name, " of before is still being removed")));
  }
  if (view.job_uid != uid) parts_.record.TookClaim(view.name);
  return true;
}

bool ClaimWriter::Delete(const DeleteClaim& gone) {
  const absl::StatusOr<Json> there = parts_.client.Get(kube::kClaims, ns_, gone.name, parts_.stop);
  absl::Status status = there.status();
  if (there.ok()) {
    const PodView view = PodViewOf(*there);  // name, labels and owner
    if (view.deletion_time || JobKeyOf(*there) != key_) return true;
    status = parts_.client.Delete(kube::kClaims, ns_, gone.name, {.uid = view.uid}, parts_.stop);
  }
  if (absl::IsNotFound(status)) return true;
  if (!status.ok()) return parts_.record.NotDeleted(status, kReasonFailedDeleteClaim);
  parts_.record.DeletedClaim(gone.name);
  return true;
}

}  // namespace tfjob
