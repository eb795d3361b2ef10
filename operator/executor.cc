#include "operator/executor.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/json_read.h"
#include "base/task_certificates.h"
#include "operator/api/names.h"
#include "operator/pod_view.h"
#include "operator/reconcile/status.h"

namespace tfjob {
namespace {

bool IsOfWebhook(const absl::Status& status) {
  return absl::StrContains(status.message(), "failed calling webhook");
}

// Nobody has to do anything about these: the next try may go through.
bool MayPass(const absl::Status& status) {
  if (IsOfWebhook(status)) return false;  // 500, but somebody has to repair it
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kNotFound:
      return false;
    default:
      return true;
  }
}

template <typename Kind>
std::vector<const Kind*> Select(const std::vector<Action>& actions) {
  std::vector<const Kind*> out;
  for (const Action& action : actions) {
    if (const auto* match = std::get_if<Kind>(&action)) out.push_back(match);
  }
  return out;
}

}  // namespace

std::string AdviceFor(const absl::Status& error) {
  const std::string text(error.message());
  if (absl::StrContains(text, "exceeded quota")) {
    return "raise the quota or free what others use of it";
  }
  if (absl::StrContains(text, "PriorityClass")) {
    return "create that PriorityClass or correct priorityClassName in the pod template";
  }
  if (IsOfWebhook(error)) return "let whoever keeps that webhook repair it";
  if (absl::StrContains(text, "being terminated")) return "the namespace is being deleted";
  if (absl::StrContains(text, "serviceaccount") && absl::StrContains(text, "not found")) {
    return "create that service account or correct serviceAccountName in the pod template";
  }
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "correct the pod template of the TFJob";
    case absl::StatusCode::kPermissionDenied:
      return "allow it, or change what the TFJob asks for";
    case absl::StatusCode::kNotFound:
      return "create what is missing";
    default:
      return "";
  }
}

// One execution: collects results from several threads.
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
        stop_(std::move(stop)) {}

  template <typename Kind>
  bool All(const std::vector<Action>& actions) {
    const std::vector<const Kind*> selected = Select<Kind>(actions);
    helpers_.ForEach(static_cast<int>(selected.size()), options_.width,
                     [&](int i) { return Do(*selected[i]); });
    absl::MutexLock lock(&mutex_);
    return out_.error.ok() && out_.troubles.empty();
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

  Execution Finish() && {
    absl::MutexLock lock(&mutex_);
    for (Names* names : {&created_pods_, &deleted_pods_, &created_services_, &deleted_services_}) {
      std::sort(names->begin(), names->end());  // calls end in any order
    }
    out_.created_pods = static_cast<int>(created_pods_.size());
    out_.deleted_pods = static_cast<int>(deleted_pods_.size());
    out_.created_services = static_cast<int>(created_services_.size());
    out_.deleted_services = static_cast<int>(deleted_services_.size());
    std::sort(taken_.begin(), taken_.end(),
              [](const Trouble& a, const Trouble& b) { return a.message < b.message; });
    for (Trouble& taken : taken_) out_.troubles.push_back(std::move(taken));
    Tell(kReasonCreatedService, "Created service: ", created_services_);
    Tell(kReasonCreatedPod, "Created pod: ", created_pods_);
    if (!options_.single_events && !deleted_pods_.empty() && !deleted_services_.empty()) {
      TellOfBoth();
    } else {
      Tell(kReasonDeletedPod, "Deleted pod: ", deleted_pods_);
      Tell(kReasonDeletedService, "Deleted service: ", deleted_services_);
    }
    if (options_.single_events && !deleted_pod_groups_.empty()) {
      out_.events.push_back(
          {"Normal", kReasonJobTerminated, "Job has been terminated. Deleting PodGroup"});
    }
    Tell(kReasonDeletedPodGroup, "Deleted PodGroup: ", deleted_pod_groups_);
    if (out_.deleted_job) {
      out_.events.push_back({"Normal", kReasonDeletedJob, "Deleted job: " + job_.metadata.name});
    }
    return std::move(out_);
  }

 private:
  using Names = std::vector<std::string>;

  bool Do(const CreatePod& create) {
    return Create(kube::kPods, create.name, create.object, created_pods_,
                  {kReasonFailedCreatePod, kReasonForeignPod, "Pod"});
  }
  bool Do(const CreateService& create) {
    return Create(kube::kServices, create.name, create.object, created_services_,
                  {kReasonFailedCreateService, kReasonForeignService, "Service"});
  }
  bool Do(const CreateSecret& create) {
    const absl::StatusOr<base::TaskCertificates> made =
        base::MakeTaskCertificates(job_.metadata.uid, absl::Now());
    if (!made.ok()) return Failed(made.status());
    Json object = create.object;
    for (const auto& [name, content] : made->Files()) {
      object["data"][name] = absl::Base64Escape(content);
    }
    Names untold;  // nobody needs an event about it
    return Create(kube::kSecrets, create.name, object, untold,
                  {kReasonFailedCreateSecret, kReasonForeignSecret, "Secret",
                   "let the operator create and get secrets, or give the TFJob the annotation "
                   "trainyard.dev/task-tls: \"false\""});
  }
  bool Do(const CreatePodGroup& create) {
    const absl::StatusOr<Json> made =
        client_.Create(options_.pod_groups, ns_, create.object, stop_);
    if (absl::IsAlreadyExists(made.status())) return TakePodGroup(create);
    if (!made.ok()) return RefusedPodGroup(made.status(), kReasonFailedCreatePodGroup, "creating");
    cache_.NotePodGroup(*made);
    return true;
  }
  bool Do(const UpdatePodGroup& update) {
    const absl::StatusOr<Json> updated =
        client_.Patch(options_.pod_groups, ns_, update.name, kube::PatchType::kMerge,
                      {{"metadata", {{"uid", update.uid}}}, {"spec", update.spec}}, "", stop_);
    if (absl::IsNotFound(updated.status())) {
      cache_.NotePodGroupGone(key_, update.uid);
      return Failed(absl::UnavailableError(
          absl::StrCat("PodGroup ", update.name, " has gone and has to be made again")));
    }
    if (!updated.ok()) {
      return RefusedPodGroup(updated.status(), kReasonFailedUpdatePodGroup, "updating");
    }
    cache_.NotePodGroup(*updated);
    return true;
  }
  bool Do(const DeletePodGroup& gone) {
    const absl::Status status =
        client_.Delete(options_.pod_groups, ns_, gone.name, {.uid = gone.uid}, stop_);
    if (status.ok()) return NoteDeleted(gone);
    if (IsGone(status)) cache_.NotePodGroupGone(key_, gone.uid);
    return NotDeleted(status, kReasonFailedDeletePodGroup);
  }
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
    if (!absl::IsNotFound(adopted.status())) return Failed(adopted.status());
    cache_.NoteServiceGone(key_, adopt.uid);
    return true;
  }
  bool Do(const DeleteJob& gone) {
    const absl::Status status = client_.Delete(
        kube::kTfJobs, ns_, gone.name, {.uid = gone.uid, .propagation = "Background"}, stop_);
    absl::MutexLock lock(&mutex_);
    out_.deleted_job = status.ok();
    if (status.ok() || IsGone(status)) return true;
    out_.events.push_back(
        {"Warning", kReasonFailedDeleteJob, absl::StrCat("Error deleting: ", status.message())});
    out_.error.Update(status);
    return false;
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
              Names& created, const CreateReasons& reasons) {
    const absl::StatusOr<Json> made = client_.Create(resource, ns_, object, stop_);
    if (made.ok()) {
      Note(resource, *made);
      absl::MutexLock lock(&mutex_);
      created.push_back(name);
      return true;
    }
    if (absl::IsAlreadyExists(made.status())) return TakeExisting(resource, name, reasons);
    if (MayPass(made.status())) return Failed(made.status());
    std::string message = absl::StrCat("Error creating: ", made.status().message());
    const std::string advice = *reasons.advice == '\0' ? AdviceFor(made.status()) : reasons.advice;
    if (!advice.empty()) absl::StrAppend(&message, " (to do: ", advice, ")");
    return Blocked({reasons.failed, std::move(message)});
  }

  // Ours: made by an earlier operator, or by a call whose answer was lost. Else its name is taken.
  bool TakeExisting(const kube::Resource& resource, const std::string& name,
                    const CreateReasons& reasons) {
    const absl::StatusOr<Json> there = client_.Get(resource, ns_, name, stop_);
    if (!there.ok()) {
      return Failed(absl::UnavailableError(absl::StrCat(
          reasons.kind, " ", name, " exists but cannot be read: ", there.status().message())));
    }
    const bool may_be_orphan = resource == kube::kServices;
    const PodView view = PodViewOf(*there);  // of a service: name, labels and owner
    const bool ours =
        view.owner_uid == job_.metadata.uid || (may_be_orphan && view.owner_uid.empty());
    if (ours && JobKeyOf(*there) == key_) {
      if (resource == kube::kSecrets) return true;
      Note(resource, *there);
      absl::MutexLock lock(&mutex_);
      out_.look_again = true;
      return true;
    }
    if (view.owned_by_namesake || view.deletion_time) {
      return Failed(absl::UnavailableError(
          absl::StrCat(reasons.kind, " ", name, " of an earlier job is still being removed")));
    }
    Trouble taken = {reasons.taken, absl::StrCat(reasons.kind, " ", name,
                                                 " belongs to another owner; delete or rename it")};
    if (resource == kube::kSecrets) return Blocked(std::move(taken));  // pods would mount it
    absl::MutexLock lock(&mutex_);
    taken_.push_back(std::move(taken));
    return true;  // the others need not wait for it
  }

  // The one of an operator before us (v1.9 gives it no labels) becomes ours, and so does one that
  // has no owner, as with v1.9.
  bool TakePodGroup(const CreatePodGroup& create) {
    const absl::StatusOr<Json> there = client_.Get(options_.pod_groups, ns_, create.name, stop_);
    if (!there.ok()) {
      return Failed(absl::UnavailableError(absl::StrCat(
          "PodGroup ", create.name, " exists but cannot be read: ", there.status().message())));
    }
    const PodView view = PodViewOf(*there);  // name, labels and owner
    const bool ours = view.owner_uid == job_.metadata.uid;
    if (view.deletion_time || (view.owned_by_namesake && !ours)) {
      return Failed(absl::UnavailableError(
          absl::StrCat("PodGroup ", create.name, " of before is still being removed")));
    }
    if (!ours && !view.owner_uid.empty()) {
      return Blocked({kReasonForeignPodGroup, absl::StrCat("PodGroup ", create.name,
                                                           " belongs to another owner; delete or "
                                                           "rename it")});
    }
    if (ours && JobKeyOf(*there) == key_) return NotePodGroup(*there);
    const Json& wanted = create.object["metadata"];
    Json owners = base::ArrayAt(base::At(*there, "metadata"), "ownerReferences");
    if (!ours) owners.push_back(wanted["ownerReferences"][0]);
    const absl::StatusOr<Json> taken =
        client_.Patch(options_.pod_groups, ns_, create.name, kube::PatchType::kMerge,
                      {{"metadata",
                        {{"uid", view.uid},
                         {"labels", wanted["labels"]},
                         {"ownerReferences", std::move(owners)}}}},
                      "", stop_);
    if (!taken.ok()) {
      return RefusedPodGroup(taken.status(), kReasonFailedUpdatePodGroup, "updating");
    }
    return NotePodGroup(*taken);
  }

  bool NotePodGroup(const Json& pod_group) {
    cache_.NotePodGroup(pod_group);
    absl::MutexLock lock(&mutex_);
    out_.look_again = true;
    return true;
  }

  bool RefusedPodGroup(const absl::Status& status, const char* reason, const char* doing) {
    if (MayPass(status)) return Failed(status);
    const char* advice = absl::IsNotFound(status)
                             ? "install the CRD of PodGroups, or create the namespace"
                             : "correct runPolicy.schedulingPolicy of the TFJob, or allow it";
    return Blocked({reason, absl::StrCat("Error ", doing, " PodGroup: ", status.message(),
                                         " (to do: ", advice, ")")});
  }

  // Secrets are remembered nowhere.
  void Note(const kube::Resource& resource, const Json& object) {
    if (resource == kube::kPods) cache_.NotePod(object);
    if (resource == kube::kServices) cache_.NoteService(object);
  }

  bool NoteDeleted(const DeletePod& gone) {
    cache_.NotePodDeleting(key_, gone.uid);
    absl::MutexLock lock(&mutex_);
    deleted_pods_.push_back(gone.name);
    return true;
  }
  bool NoteDeleted(const DeleteService& gone) {
    cache_.NoteServiceDeleting(key_, gone.uid);
    absl::MutexLock lock(&mutex_);
    deleted_services_.push_back(gone.name);
    return true;
  }
  bool NoteDeleted(const DeletePodGroup& gone) {
    cache_.NotePodGroupDeleting(key_, gone.uid);
    absl::MutexLock lock(&mutex_);
    deleted_pod_groups_.push_back(gone.name);
    return true;
  }

  bool NotDeleted(const absl::Status& status, const char* failed_reason) {
    if (IsGone(status)) return true;
    absl::MutexLock lock(&mutex_);
    if (!MayPass(status)) {
      out_.events.push_back(
          {"Warning", failed_reason, absl::StrCat("Error deleting: ", status.message())});
    }
    out_.error.Update(status);
    return false;
  }

  bool Failed(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    out_.error.Update(status);
    return false;
  }

  // Of several calls refused at the same time the first one speaks for all.
  bool Blocked(Trouble trouble) {
    absl::MutexLock lock(&mutex_);
    if (out_.troubles.empty()) out_.troubles.push_back(std::move(trouble));
    return false;
  }

  void Tell(const char* reason, const char* what, const Names& names)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (names.empty()) return;
    if (!options_.single_events) {
      out_.events.push_back({"Normal", reason, what + NameList(names)});
      return;
    }
    for (const std::string& name : names) out_.events.push_back({"Normal", reason, what + name});
  }

  void TellOfBoth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    out_.events.push_back({"Normal", kReasonDeletedPod,
                           absl::StrCat("Deleted pod: ", NameList(deleted_pods_),
                                        "; deleted service: ", NameList(deleted_services_))});
  }

  kube::Client& client_;
  JobCache& cache_;
  Helpers& helpers_;
  const ExecutorOptions& options_;
  const TfJob& job_;
  const std::string ns_;
  const std::string key_;
  const std::stop_token stop_;

  absl::Mutex mutex_;
  Execution out_ ABSL_GUARDED_BY(mutex_);
  std::vector<Trouble> taken_ ABSL_GUARDED_BY(mutex_);
  // Filled under the mutex too.
  Names created_pods_, deleted_pods_, created_services_, deleted_services_, deleted_pod_groups_;
};

Executor::Executor(kube::Client* client, JobCache* cache, Helpers* helpers, ExecutorOptions options)
    : client_(*client), cache_(*cache), helpers_(*helpers), options_(std::move(options)) {}

Execution Executor::Execute(const TfJob& job, const Plan& plan, std::stop_token stop) {
  Run run(this, job, std::move(stop));
  const std::vector<Action>& actions = plan.actions;
  if (run.AllByLabel<DeletePod>(plan) && run.AllByLabel<DeleteService>(plan) &&
      run.All<DeletePodGroup>(actions) && run.All<DeleteJob>(actions) &&
      run.All<AdoptService>(actions) && run.All<CreatePodGroup>(actions) &&
      run.All<UpdatePodGroup>(actions) && run.All<CreateSecret>(actions) &&
      run.All<CreateService>(actions)) {
    run.All<CreatePod>(actions);
  }
  return std::move(run).Finish();
}

}  // namespace tfjob
