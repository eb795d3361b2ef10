#include "operator/executor.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/task_certificates.h"
#include "operator/api/names.h"
#include "operator/claim_writer.h"
#include "operator/pod_group_writer.h"
#include "operator/pod_view.h"
#include "operator/refusal.h"

namespace tfjob {
namespace {

template <typename Kind>
std::vector<const Kind*> Select(const std::vector<Action>& actions) {
  std::vector<const Kind*> out;
  for (const Action& action : actions) {
    if (const auto* match = std::get_if<Kind>(&action)) out.push_back(match);
  }
  return out;
}

}  // namespace

// One execution: its calls go on side by side, on several threads.
class Executor::Run {
 public:
  Run(Executor* executor, const TfJob& job, std::stop_token stop)
      : client_(executor->client_),
        cache_(executor->cache_),
        helpers_(executor->helpers_),
        options_(executor->options_),
        job_(job),
        ns_(job.metadata.namespace_name),
        key_(absl::StrCat(job.metadata.namespace_name, "/", job.metadata.name)),
        stop_(std::move(stop)),
        record_(options_.single_events),
        claims_({client_, record_, job_, stop_}),
        pod_groups_({client_, cache_, record_, job_, options_.pod_groups, stop_}) {}

  template <typename Kind>
  bool All(const std::vector<Action>& actions) {
    const std::vector<const Kind*> selected = Select<Kind>(actions);
    helpers_.ForEach(static_cast<int>(selected.size()), options_.width,
                     [&](int i) { return Do(*selected[i]); });
    return record_.GoesOn();
  }

  // Deletes what the plan names of these by one call where it allows that; what then is left to do
  // (the call was refused, or saves nothing) goes one by one.
  template <typename Kind>
  bool AllByLabel(const Plan& plan) {
    const std::vector<const Kind*> selected = Select<Kind>(plan.actions);
    constexpr bool kIsPod = std::is_same_v<Kind, DeletePod>;
    const bool deletes_all = kIsPod ? plan.deletes_all_pods : plan.deletes_all_services;
    if (!deletes_all || selected.size() < 2) return All<Kind>(plan.actions);
    const kube::Resource& resource = kIsPod ? kube::kPods : kube::kServices;
    const absl::Status status = client_.DeleteCollection(
        resource, ns_, absl::StrCat(kLabelJobUid, "=", job_.metadata.uid), stop_);
    if (!status.ok()) return All<Kind>(plan.actions);
    for (const Kind* gone : selected) NoteDeleted(*gone);
    return true;
  }

  Execution Finish() && { return std::move(record_).Finish(job_.metadata.name); }

 private:
  bool Do(const CreatePod& create) {
    return Create(kube::kPods, create.name, create.object,
                  {kReasonFailedCreatePod, kReasonForeignPod, "Pod"});
  }
  bool Do(const CreateService& create) {
    return Create(kube::kServices, create.name, create.object,
                  {kReasonFailedCreateService, kReasonForeignService, "Service"});
  }
  bool Do(const CreateSecret& create) {
    const absl::StatusOr<base::TaskCertificates> made =
        base::MakeTaskCertificates(job_.metadata.uid, absl::Now());
    if (!made.ok()) return record_.Failed(made.status());
    Json object = create.object;
    for (const auto& [name, content] : made->Files()) {
      object["data"][name] = absl::Base64Escape(content);
    }
    return Create(kube::kSecrets, create.name, object,
                  {kReasonFailedCreateSecret, kReasonForeignSecret, "Secret",
                   "let the operator create and get secrets, or give the TFJob the annotation "
                   "trainyard.dev/task-tls: \"false\""});
  }
  bool Do(const CreateClaim& create) { return claims_.Create(create); }
  bool Do(const DeleteClaim& gone) { return claims_.Delete(gone); }
  bool Do(const CreatePodGroup& create) { return pod_groups_.Create(create); }
  bool Do(const UpdatePodGroup& update) { return pod_groups_.Update(update); }
  bool Do(const DeletePodGroup& gone) { return pod_groups_.Delete(gone); }
  static std::optional<int> ForceOf(const DeletePod& gone) {
    return gone.force ? std::optional(0) : std::nullopt;
  }
  bool Do(const DeletePod& gone) {
    const absl::Status status = client_.Delete(
        kube::kPods, ns_, gone.name, {.uid = gone.uid, .grace_seconds = ForceOf(gone)}, stop_);
    if (status.ok()) return NoteDeleted(gone);
    if (IsGone(status)) cache_.NotePodGone(key_, gone.uid);
    return NotDeleted(status, kReasonFailedDeletePod);
  }
  bool Do(const DeleteService& gone) {
    const absl::Status status =
        client_.Delete(kube::kServices, ns_, gone.name, {.uid = gone.uid}, stop_);
    if (status.ok()) return NoteDeleted(gone);
    if (IsGone(status)) cache_.NoteServiceGone(key_, gone.uid);
    return NotDeleted(status, kReasonFailedDeleteService);
  }
  bool Do(const AdoptService& adopt) {
    const Json owner = {{"apiVersion", kApiVersion},  {"kind", kKind},
                        {"name", job_.metadata.name}, {"uid", job_.metadata.uid},
                        {"controller", true},         {"blockOwnerDeletion", true}};
    // The uid is a precondition: a service made anew meanwhile is a conflict.
    const absl::StatusOr<Json> adopted = client_.Patch(
        kube::kServices, ns_, adopt.name, kube::PatchType::kMerge,
        {{"metadata", {{"uid", adopt.uid}, {"ownerReferences", Json::array({owner})}}}}, "", stop_);
    if (adopted.ok()) {
      cache_.NoteService(*adopted);
      return true;
    }
    if (!absl::IsNotFound(adopted.status())) return record_.Failed(adopted.status());
    cache_.NoteServiceGone(key_, adopt.uid);
    return true;
  }
  bool Do(const DeleteJob& gone) {
    const absl::Status status = client_.Delete(
        kube::kTfJobs, ns_, gone.name, {.uid = gone.uid, .propagation = "Background"}, stop_);
    if (status.ok()) record_.DeletedJob();
    if (status.ok() || IsGone(status)) return true;
    record_.Tell(
        {"Warning", kReasonFailedDeleteJob, absl::StrCat("Error deleting: ", status.message())});
    return record_.Failed(status);
  }

  // A conflict does not say so: whoever has the name now, the watch will show it.
  static bool IsGone(const absl::Status& status) { return absl::IsNotFound(status); }

  struct CreateReasons {
    const char* failed;
    const char* taken;
    const char* kind;
    const char* advice = "";  // "" = by the refusal
  };

  bool Create(const kube::Resource& resource, const std::string& name, const Json& object,
              const CreateReasons& reasons) {
    const absl::StatusOr<Json> made = client_.Create(resource, ns_, object, stop_);
    if (made.ok()) {
      Note(resource, *made);
      if (resource == kube::kPods) record_.CreatedPod(name);
      if (resource == kube::kServices) record_.CreatedService(name);
      return true;
    }
    if (absl::IsAlreadyExists(made.status())) return TakeExisting(resource, name, reasons);
    if (MayPass(made.status())) return record_.Failed(made.status());
    return record_.Blocked({reasons.failed, ErrorCreating(made.status(), reasons.advice)});
  }

  // Ours: made by an earlier operator, or by a call whose answer was lost. Else its name is taken.
  bool TakeExisting(const kube::Resource& resource, const std::string& name,
                    const CreateReasons& reasons) {
    const absl::StatusOr<Json> there = client_.Get(resource, ns_, name, stop_);
    if (!there.ok()) {
      return record_.Failed(absl::UnavailableError(absl::StrCat(
          reasons.kind, " ", name, " exists but cannot be read: ", there.status().message())));
    }
    const bool may_be_orphan = resource == kube::kServices;
    const PodView view = PodViewOf(*there);  // of a service: name, labels and owner
    const bool ours =
        view.owner_uid == job_.metadata.uid || (may_be_orphan && view.owner_uid.empty());
    if (ours && JobKeyOf(*there) == key_) {
      if (resource == kube::kSecrets) return true;
      Note(resource, *there);
      record_.LookAgain();
      return true;
    }
    if (view.owned_by_namesake || view.deletion_time) {
      return record_.Failed(absl::UnavailableError(
          absl::StrCat(reasons.kind, " ", name, " of an earlier job is still being removed")));
    }
    Trouble taken = {reasons.taken, absl::StrCat(reasons.kind, " ", name,
                                                 " belongs to another owner; delete or rename it")};
    // Pods would mount it.
    if (resource == kube::kSecrets) return record_.Blocked(std::move(taken));
    record_.NameTaken(std::move(taken));
    return true;
  }

  // Secrets are remembered nowhere.
  void Note(const kube::Resource& resource, const Json& object) {
    if (resource == kube::kPods) cache_.NotePod(object);
    if (resource == kube::kServices) cache_.NoteService(object);
  }

  bool NoteDeleted(const DeletePod& gone) {
    cache_.NotePodDeleting(key_, gone.uid);
    record_.DeletedPod(gone.name);
    return true;
  }
  bool NoteDeleted(const DeleteService& gone) {
    cache_.NoteServiceDeleting(key_, gone.uid);
    record_.DeletedService(gone.name);
    return true;
  }
  bool NotDeleted(const absl::Status& status, const char* failed_reason) {
    return IsGone(status) || record_.NotDeleted(status, failed_reason);
  }

  kube::Client& client_;
  JobCache& cache_;
  Helpers& helpers_;
  const ExecutorOptions& options_;
  const TfJob& job_;
  const std::string ns_;
  const std::string key_;
  const std::stop_token stop_;

  ExecutionRecord record_;
  ClaimWriter claims_;
  PodGroupWriter pod_groups_;
};

Executor::Executor(kube::Client* client, JobCache* cache, Helpers* helpers, ExecutorOptions options)
    : client_(*client), cache_(*cache), helpers_(*helpers), options_(std::move(options)) {}

Execution Executor::Execute(const TfJob& job, const Plan& plan, std::stop_token stop) {
  Run run(this, job, std::move(stop));
  const std::vector<Action>& actions = plan.actions;
  if (run.All<DeleteClaim>(actions) && run.AllByLabel<DeletePod>(plan) &&
      run.AllByLabel<DeleteService>(plan) && run.All<DeletePodGroup>(actions) &&
      run.All<DeleteJob>(actions) && run.All<AdoptService>(actions) &&
      run.All<CreatePodGroup>(actions) && run.All<UpdatePodGroup>(actions) &&
      run.All<CreateSecret>(actions) && run.All<CreateClaim>(actions) &&
      run.All<CreateService>(actions)) {
    run.All<CreatePod>(actions);
  }
  return std::move(run).Finish();
}

}  // namespace tfjob
