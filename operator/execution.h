// What carrying out a plan has come to. Knows no API.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "operator/reconcile/plan.h"

namespace tfjob {

struct Execution {
  // Events about what was done and about deletions that failed; failed creations are troubles.
  std::vector<Event> events;
  // What somebody has to put right; tried again with a back-off.
  std::vector<Trouble> troubles;
  // The first failure that may pass by itself: no connection, overload, conflict.
  absl::Status error;
  int created_pods = 0;
  int deleted_pods = 0;
  int created_services = 0;
  int deleted_services = 0;
  bool deleted_job = false;
  bool look_again = false;  // something was there that the plan did not know of
};

// Gathers it while calls go on side by side. Thread-safe. What says no returns false, so that the
// caller can pass it on: what comes after it is not tried.
class ExecutionRecord {
 public:
  // `single_events`: one event for each object, as v1.9 sends them, instead of one for each kind.
  explicit ExecutionRecord(bool single_events) : single_events_(single_events) {}

  void CreatedPod(const std::string& name) { Add(created_pods_, name); }
  void CreatedService(const std::string& name) { Add(created_services_, name); }
  void CreatedClaim(const std::string& name) { Add(created_claims_, name); }
  // One of another job, or of nobody, that was there already.
  void TookClaim(const std::string& name) { Add(taken_claims_, name); }
  void DeletedClaim(const std::string& name) { Add(deleted_claims_, name); }
  void DeletedPod(const std::string& name) { Add(deleted_pods_, name); }
  void DeletedService(const std::string& name) { Add(deleted_services_, name); }
  void DeletedPodGroup(const std::string& name) { Add(deleted_pod_groups_, name); }
  void DeletedJob();
  void LookAgain();
  void Tell(Event event);

  // It may pass by itself.
  bool Failed(const absl::Status& status);
  // A deletion failed; `reason` of an event about it where it will not pass by itself.
  bool NotDeleted(const absl::Status& status, const char* reason);
  // Somebody has to help. Of several calls refused at the same time the first one speaks for all.
  bool Blocked(Trouble trouble);
  // Somebody has to help with this object; the others need not wait for it.
  void NameTaken(Trouble trouble);

  // Nothing has failed, nobody has to help with more than single objects.
  bool GoesOn() const;

  // Names in order, events by kind.
  Execution Finish(const std::string& job_name) &&;

 private:
  using Names = std::vector<std::string>;

  void Add(Names& names, const std::string& name);
  void TellEach(const char* reason, const char* what, const Names& names)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool single_events_;
  mutable absl::Mutex mutex_;
  Execution out_ ABSL_GUARDED_BY(mutex_);
  std::vector<Trouble> taken_ ABSL_GUARDED_BY(mutex_);
  // Filled under the mutex too.
  Names created_pods_, deleted_pods_, created_services_, deleted_services_, deleted_pod_groups_;
  Names created_claims_, taken_claims_, deleted_claims_;
};

}  // namespace tfjob
