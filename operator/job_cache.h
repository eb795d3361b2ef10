// What the operator knows of each job and its children, from watches and from its own writes: a
// write that has succeeded is known at once, though the watch shows it later. Keeps small values,
// no JSON objects. Knows no API client.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/reconcile/plan.h"
#include "operator/runtime/watcher.h"
#include "operator/runtime/workqueue.h"

namespace tfjob {

struct JobCacheOptions {
  base::Clock* clock = base::Clock::Real();
  ParseOptions parse;
  // A pod that succeeded and is gone still counts until the job's status says so. v1.9 forgets it.
  bool remember_succeeded = true;
  // Containers without which pods are judged, see PodViewOf.
  std::set<std::string> sidecars;
  // Called with each job key that a change concerns, on the thread that reports the change. High:
  // pods of a job that goes on have changed. Low: children of one that has finished.
  std::function<void(const std::string& key, runtime::Priority priority)> on_change;
  // Called once for each job that was deleted.
  std::function<void(const std::string& key)> on_job_deleted;
  // Called with what the status of a job says of its progress, each time that a status is stored
  // that says something. Empty: nobody wants to know.
  std::function<void(const std::string& key, const std::string& uid, const ProgressStatus&)>
      on_progress;
};

// Thread-safe.
class JobCache {
 public:
  explicit JobCache(JobCacheOptions options);
  ~JobCache();

  // Sinks of watches over one namespace ("" = all). They borrow the cache.
  std::unique_ptr<runtime::WatchSink> MakeJobSink(const std::string& ns);
  std::unique_ptr<runtime::WatchSink> MakePodSink(const std::string& ns);
  std::unique_ptr<runtime::WatchSink> MakeServiceSink(const std::string& ns);
  std::unique_ptr<runtime::WatchSink> MakePodGroupSink(const std::string& ns);

  // Copies of what is known of a job now; nullopt if there is no such job. `now` is not set.
  struct Snapshot {
    Observed observed;
    // Changes when somebody edits the spec (or the metadata), not with the status.
    size_t spec_hash = 0;
  };
  std::optional<Snapshot> Observe(const std::string& key) const;
  std::vector<std::string> Keys() const;  // of all jobs, sorted
  // The conditions of all jobs of a namespace ("" = all) by key: cheap beside Observe.
  std::map<std::string, std::vector<Condition>> Conditions(const std::string& ns) const;
  // Waits until the first list of every sink made so far is complete; false after `deadline` or
  // when `stop` was requested.
  bool AwaitSynced(absl::Time deadline, std::stop_token stop) const;
  struct Counts {
    int jobs = 0;
    int pods = 0;
    int services = 0;
  };
  Counts Count() const;

  // Own writes, as the API server answered them.
  void NoteStatus(const std::string& key, const std::string& uid, uint64_t resource_version,
                  const TfJobStatus& status);
  void NotePod(const Json& pod);
  void NoteService(const Json& service);
  void NotePodGroup(const Json& pod_group);
  // The deletion was accepted; the object may take its time to go.
  void NotePodDeleting(const std::string& key, const std::string& uid);
  void NoteServiceDeleting(const std::string& key, const std::string& uid);
  void NotePodGroupDeleting(const std::string& key, const std::string& uid);
  // The object is known not to be there.
  void NotePodGone(const std::string& key, const std::string& uid);
  void NoteServiceGone(const std::string& key, const std::string& uid);
  void NotePodGroupGone(const std::string& key, const std::string& uid);

 private:
  template <typename View>
  struct Child {
    View view;
    uint64_t resource_version = 0;
    // When we made it, until a watch shows it: a list that began earlier does not know it.
    absl::Time unseen_since = absl::InfinitePast();
    bool named = false;  // by the list that is under way
    // Succeeded and gone before the job's status could say so: remembered until it does.
    bool ghost = false;
    bool unseen() const { return unseen_since != absl::InfinitePast(); }
  };
  template <typename View>
  using Children = std::vector<Child<View>>;
  struct StoredJob {
    std::string text;  // the manifest without its status, as JSON
    std::string uid;
    std::string resource_version_text;
    uint64_t resource_version = 0;
    size_t spec_hash = 0;
    TfJobStatus status;
    bool named = false;
  };
  struct Entry {
    std::optional<StoredJob> job;
    Children<PodView> pods;
    Children<ServiceView> services;
    Children<PodGroupView> pod_groups;
    bool empty() const { return !job && pods.empty() && services.empty() && pod_groups.empty(); }
  };
  class JobSink;
  template <typename View>
  class ChildSink;
  using Entries = std::map<std::string, Entry>;  // by "ns/name"; sorted, so that ns is a range

  template <typename View>
  static Children<View>& Of(Entry& entry);
  static bool StoreJob(Entry& entry, Json& object);
  static void PruneGhosts(Entry& entry);
  // A change of an object, seen by a watch (or by our own write: `own`); true if it told us more.
  template <typename View>
  bool StoreChild(Entry& entry, View view, uint64_t resource_version, bool own);
  template <typename View>
  bool DropChild(Entry& entry, const std::string& uid, bool keep_ghost);
  template <typename View>
  void Note(const Json& object, View view);
  template <typename View>
  void MarkDeleting(const std::string& key, const std::string& uid);
  template <typename View>
  void Drop(const std::string& key, const std::string& uid);
  void EraseIfEmpty(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename View>
  static runtime::Priority PriorityOf(const Entry& entry);
  void Changed(const std::string& key, runtime::Priority priority) const;
  void TellProgress(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  void ListEnded(bool* is_first);

  const JobCacheOptions options_;
  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  int unsynced_ ABSL_GUARDED_BY(mutex_) = 0;  // sinks whose first list is not complete
};

}  // namespace tfjob
