#include "operator/execution.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/reconcile/status.h"
#include "operator/refusal.h"

namespace tfjob {

void ExecutionRecord::Add(Names& names, const std::string& name) {
  absl::MutexLock lock(&mutex_);
  names.push_back(name);
}

void ExecutionRecord::DeletedJob() {
  absl::MutexLock lock(&mutex_);
  out_.deleted_job = true;
}

void ExecutionRecord::LookAgain() {
  absl::MutexLock lock(&mutex_);
  out_.look_again = true;
}

void ExecutionRecord::Tell(Event event) {
  absl::MutexLock lock(&mutex_);
  out_.events.push_back(std::move(event));
}

bool ExecutionRecord::Failed(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  out_.error.Update(status);
  return false;
}

bool ExecutionRecord::NotDeleted(const absl::Status& status, const char* reason) {
  absl::MutexLock lock(&mutex_);
  if (!MayPass(status)) {
    out_.events.push_back({"Warning", reason, absl::StrCat("Error deleting: ", status.message())});
  }
  out_.error.Update(status);
  return false;
}

bool ExecutionRecord::Blocked(Trouble trouble) {
  absl::MutexLock lock(&mutex_);
  if (out_.troubles.empty()) out_.troubles.push_back(std::move(trouble));
  return false;
}

void ExecutionRecord::NameTaken(Trouble trouble) {
  absl::MutexLock lock(&mutex_);
  taken_.push_back(std::move(trouble));
}

bool ExecutionRecord::GoesOn() const {
  absl::MutexLock lock(&mutex_);
  return out_.error.ok() && out_.troubles.empty();
}

Execution ExecutionRecord::Finish(const std::string& job_name) && {
  absl::MutexLock lock(&mutex_);
  for (Names* names : {&created_pods_, &deleted_pods_, &created_services_, &deleted_services_,
                       &created_claims_, &taken_claims_, &deleted_claims_}) {
    std::sort(names->begin(), names->end());  // calls end in any order
  }
  out_.created_pods = static_cast<int>(created_pods_.size());
  out_.deleted_pods = static_cast<int>(deleted_pods_.size());
  out_.created_services = static_cast<int>(created_services_.size());
  out_.deleted_services = static_cast<int>(deleted_services_.size());
  std::sort(taken_.begin(), taken_.end(),
            [](const Trouble& a, const Trouble& b) { return a.message < b.message; });
  for (Trouble& taken : taken_) out_.troubles.push_back(std::move(taken));
  TellEach(kReasonCreatedClaim, "Created claim: ", created_claims_);
  TellEach(kReasonExistingClaim, "Uses what was there already: claim ", taken_claims_);
  TellEach(kReasonCreatedService, "Created service: ", created_services_);
  TellEach(kReasonCreatedPod, "Created pod: ", created_pods_);
  if (!single_events_ && !deleted_pods_.empty() && !deleted_services_.empty()) {
    out_.events.push_back({"Normal", kReasonDeletedPod,
                           absl::StrCat("Deleted pod: ", NameList(deleted_pods_),
                                        "; deleted service: ", NameList(deleted_services_))});
  } else {
    TellEach(kReasonDeletedPod, "Deleted pod: ", deleted_pods_);
    TellEach(kReasonDeletedService, "Deleted service: ", deleted_services_);
  }
  TellEach(kReasonDeletedClaim, "Deleted claim: ", deleted_claims_);
  if (single_events_ && !deleted_pod_groups_.empty()) {
    out_.events.push_back(
        {"Normal", kReasonJobTerminated, "Job has been terminated. Deleting PodGroup"});
  }
  TellEach(kReasonDeletedPodGroup, "Deleted PodGroup: ", deleted_pod_groups_);
  if (out_.deleted_job) {
    out_.events.push_back({"Normal", kReasonDeletedJob, "Deleted job: " + job_name});
  }
  return std::move(out_);
}

void ExecutionRecord::TellEach(const char* reason, const char* what, const Names& names) {
  if (names.empty()) return;
  if (!single_events_) {
    out_.events.push_back({"Normal", reason, what + NameList(names)});
    return;
  }
  for (const std::string& name : names) out_.events.push_back({"Normal", reason, what + name});
}

}  // namespace tfjob
