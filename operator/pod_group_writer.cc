#include "operator/pod_group_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/pod_view.h"
#include "operator/refusal.h"

namespace tfjob {

PodGroupWriter::PodGroupWriter(Parts parts)
    : parts_(std::move(parts)),
      ns_(parts_.job.metadata.namespace_name),
      key_(absl::StrCat(ns_, "/", parts_.job.metadata.name)) {}

bool PodGroupWriter::Create(const CreatePodGroup& create) {
  const absl::StatusOr<Json> made =
      parts_.client.Create(parts_.resource, ns_, create.object, parts_.stop);
  if (absl::IsAlreadyExists(made.status())) return TakeExisting(create);
  if (!made.ok()) return Refused(made.status(), kReasonFailedCreatePodGroup, "creating");
  parts_.cache.NotePodGroup(*made);
  return true;
}

bool PodGroupWriter::Update(const UpdatePodGroup& update) {
  const absl::StatusOr<Json> updated = parts_.client.Patch(
      parts_.resource, ns_, update.name, kube::PatchType::kMerge,
      {{"metadata", {{"uid", update.uid}}}, {"spec", update.spec}}, "", parts_.stop);
  if (absl::IsNotFound(updated.status())) {
    parts_.cache.NotePodGroupGone(key_, update.uid);
    return parts_.record.Failed(absl::UnavailableError(
        absl::StrCat("PodGroup ", update.name, " has gone and has to be made again")));
  }
  if (!updated.ok()) return Refused(updated.status(), kReasonFailedUpdatePodGroup, "updating");
  parts_.cache.NotePodGroup(*updated);
  return true;
}

bool PodGroupWriter::Delete(const DeletePodGroup& gone) {
  const absl::Status status =
      parts_.client.Delete(parts_.resource, ns_, gone.name, {.uid = gone.uid}, parts_.stop);
  if (absl::IsNotFound(status)) {
    parts_.cache.NotePodGroupGone(key_, gone.uid);
    return true;
  }
  if (!status.ok()) return parts_.record.NotDeleted(status, kReasonFailedDeletePodGroup);
  parts_.cache.NotePodGroupDeleting(key_, gone.uid);
  parts_.record.DeletedPodGroup(gone.name);
  return true;
}

// The one of an operator before us (v1.9 gives it no labels) becomes ours, and so does one that
// has no owner, as with v1.9.
bool PodGroupWriter::TakeExisting(const CreatePodGroup& create) {
  const absl::StatusOr<Json> there =
      parts_.client.Get(parts_.resource, ns_, create.name, parts_.stop);
  if (!there.ok()) {
    return parts_.record.Failed(absl::UnavailableError(absl::StrCat(
        "PodGroup ", create.name, " exists but cannot be read: ", there.status().message())));
  }
  const PodView view = PodViewOf(*there);  // name, labels and owner
  if (IsOfBefore(view, parts_.job.metadata.uid)) {
    return parts_.record.Failed(absl::UnavailableError(
        absl::StrCat("PodGroup ", create.name, " of before is still being removed")));
  }
  const bool ours = view.owner_uid == parts_.job.metadata.uid;
  if (!ours && !view.owner_uid.empty()) {
    return parts_.record.Blocked(
        {kReasonForeignPodGroup,
         absl::StrCat("PodGroup ", create.name, " belongs to another owner; delete or rename it")});
  }
  if (ours && JobKeyOf(*there) == key_) return Take(*there);
  const Json& wanted = create.object["metadata"];
  Json owners = base::ArrayAt(base::At(*there, "metadata"), "ownerReferences");
  if (!ours) owners.push_back(wanted["ownerReferences"][0]);
  const absl::StatusOr<Json> taken = parts_.client.Patch(
      parts_.resource, ns_, create.name, kube::PatchType::kMerge,
      {{"metadata",
        {{"uid", view.uid}, {"labels", wanted["labels"]}, {"ownerReferences", std::move(owners)}}}},
      "", parts_.stop);
  if (!taken.ok()) return Refused(taken.status(), kReasonFailedUpdatePodGroup, "updating");
  return Take(*taken);
}

bool PodGroupWriter::Take(const Json& pod_group) {
  parts_.cache.NotePodGroup(pod_group);
  parts_.record.LookAgain();
  return true;
}

bool PodGroupWriter::Refused(const absl::Status& status, const char* reason, const char* doing) {
  if (MayPass(status)) return parts_.record.Failed(status);
  const char* advice = absl::IsNotFound(status)
                           ? "install the CRD of PodGroups, or create the namespace"
                           : "correct runPolicy.schedulingPolicy of the TFJob, or allow it";
  return parts_.record.Blocked({reason, absl::StrCat("Error ", doing, " PodGroup: ",
                                                     status.message(), " (to do: ", advice, ")")});
}

}  // namespace tfjob
