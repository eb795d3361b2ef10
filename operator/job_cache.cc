#include "operator/job_cache.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/pod_groups.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

// A list may come from a server's cache that lags a little behind our own write.
constexpr absl::Duration kListMayLag = absl::Seconds(10);
// After that a write that no watch has shown is not believed in any more.
constexpr absl::Duration kUnseenLimit = absl::Minutes(5);

bool InNamespace(const std::string& key, const std::string& ns) {
  return ns.empty() ||
         (key.size() > ns.size() && key[ns.size()] == '/' && key.compare(0, ns.size(), ns) == 0);
}

template <typename View>
View ViewOf(const Json& object, const JobCacheOptions& options) {
  if constexpr (std::is_same_v<View, PodView>) {
    return PodViewOf(object, options.sidecars);
  } else if constexpr (std::is_same_v<View, ServiceView>) {
    return ServiceViewOf(object);
  } else {
    return PodGroupViewOf(object);
  }
}

}  // namespace

template <typename View>
JobCache::Children<View>& JobCache::Of(Entry& entry) {
  if constexpr (std::is_same_v<View, PodView>) {
    return entry.pods;
  } else if constexpr (std::is_same_v<View, ServiceView>) {
    return entry.services;
  } else {
    return entry.pod_groups;
  }
}

// False if it says nothing new: older than what is known, or our own write come back.
bool JobCache::StoreJob(Entry& entry, Json& object) {
  const uint64_t version = ResourceVersionOf(object);
  std::string uid = UidOf(object);
  if (entry.job && entry.job->uid == uid) {
    entry.job->named = true;
    if (version != 0 && version <= entry.job->resource_version) return false;
  }
  StoredJob job;
  job.named = true;
  job.uid = std::move(uid);
  job.resource_version = version;
  Json& meta = object["metadata"];
  if (meta.is_object()) {
    if (const auto text = meta.find("resourceVersion"); text != meta.end() && text->is_string()) {
      job.resource_version_text = text->get<std::string>();
    }
    for (const char* key : {"managedFields", "resourceVersion", "finalizers", "ownerReferences"}) {
      meta.erase(key);
    }
    if (const auto notes = meta.find("annotations"); notes != meta.end() && notes->is_object()) {
      notes->erase("kubectl.kubernetes.io/last-applied-configuration");
    }
  }
  object["apiVersion"] = kApiVersion;  // items of lists may lack both
  object["kind"] = kKind;
  Json bare = {{"apiVersion", kApiVersion}, {"kind", kKind}};
  if (const auto status = object.find("status"); status != object.end()) {
    bare["status"] = std::move(*status);
    job.status = FromJson(bare).job.status;
    object.erase("status");
  }
  job.text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  job.text.shrink_to_fit();  // it grew by doubling
  job.spec_hash = std::hash<std::string>()(job.text);
  entry.job = std::move(job);
  PruneGhosts(entry);
  return true;
}

// Forgets the succeeded pods that the job's status remembers by now.
void JobCache::PruneGhosts(Entry& entry) {
  const TfJobStatus& status = entry.job->status;
  std::erase_if(entry.pods, [&](const Child<PodView>& pod) {
    if (!pod.ghost) return false;
    const auto replica = status.replica_statuses.find(CanonicalReplicaType(pod.view.type));
    return IsFinished(status) || (replica != status.replica_statuses.end() &&
                                  replica->second.succeeded_indexes.contains(pod.view.index));
  });
}

template <typename View>
bool JobCache::StoreChild(Entry& entry, View view, uint64_t resource_version, bool own) {
  Children<View>& children = Of<View>(entry);
  const auto same_name =
      std::find_if(children.begin(), children.end(),
                   [&](const Child<View>& child) { return child.view.name == view.name; });
  if (same_name == children.end()) {
    // A job soon has all of its children: room for twice as many would stay empty.
    if (const size_t size = children.size(); size == children.capacity()) {
      children.reserve(size + 1 + size / 4);
    }
    children.push_back({std::move(view), resource_version});
    children.back().named = true;
    if (own) children.back().unseen_since = options_.clock->Now();
    return true;
  }
  Child<View>& known = *same_name;
  const bool same_object = known.view.uid == view.uid;
  if (same_object && !own) {
    known.named = true;
    known.unseen_since = absl::InfinitePast();
  }
  if (resource_version != 0 && resource_version <= known.resource_version) return false;
  if (known.ghost && same_object) return false;
  // Asked to go by us, though this state of it does not say so yet.
  if (same_object && known.view.deletion_time && !view.deletion_time) {
    view.deletion_time = known.view.deletion_time;
  }
  const bool changed = known.view != view;
  known.view = std::move(view);
  known.resource_version = resource_version;
  known.ghost = false;
  if (!same_object) {
    known.named = true;
    known.unseen_since = own ? options_.clock->Now() : absl::InfinitePast();
  }
  return changed;
}

template <typename View>
bool JobCache::DropChild(Entry& entry, const std::string& uid, bool keep_ghost) {
  Children<View>& children = Of<View>(entry);
  const auto it = std::find_if(children.begin(), children.end(),
                               [&](const Child<View>& child) { return child.view.uid == uid; });
  if (it == children.end()) return false;
  if constexpr (std::is_same_v<View, PodView>) {
    // The pod ran to its end: its index must not run again, even if the status does not say so yet.
    if (keep_ghost && options_.remember_succeeded && entry.job &&
        it->view.owner_uid == entry.job->uid && it->view.phase == PodPhase::kSucceeded) {
      it->ghost = true;
      if (!it->view.deletion_time) it->view.deletion_time = options_.clock->Now();
      PruneGhosts(entry);
      return true;
    }
  }
  children.erase(it);
  return true;
}

void JobCache::EraseIfEmpty(const std::string& key) {
  const auto it = entries_.find(key);
  if (it != entries_.end() && it->second.empty()) entries_.erase(it);
}

void JobCache::ListEnded(bool* is_first) {
  if (!std::exchange(*is_first, false)) return;
  absl::MutexLock lock(&mutex_);
  --unsynced_;
}

bool JobCache::AwaitSynced(absl::Time deadline, std::stop_token stop) const {
  const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
  absl::MutexLock lock(&mutex_);
  const auto settled = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return unsynced_ == 0 || stop.stop_requested();
  };
  mutex_.AwaitWithDeadline(absl::Condition(&settled), deadline);
  return unsynced_ == 0;
}

// Of a change of its children. What users wait to see comes first, cleaning up last.
template <typename View>
runtime::Priority JobCache::PriorityOf(const Entry& entry) {
  if (!entry.job || IsFinished(entry.job->status)) return runtime::Priority::kLow;
  return std::is_same_v<View, PodView> ? runtime::Priority::kHigh : runtime::Priority::kNormal;
}

void JobCache::Changed(const std::string& key, runtime::Priority priority) const {
  if (options_.on_change) options_.on_change(key, priority);
}

void JobCache::TellProgress(const std::string& key) const {
  if (!options_.on_progress) return;
  std::string uid;
  ProgressStatus progress;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || !it->second.job || !it->second.job->status.progress) return;
    uid = it->second.job->uid;
    progress = *it->second.job->status.progress;
  }
  options_.on_progress(key, uid, progress);
}

// TFJobs of one namespace.
class JobCache::JobSink : public runtime::WatchSink {
 public:
  JobSink(JobCache* cache, std::string ns) : cache_(*cache), ns_(std::move(ns)) {
    absl::MutexLock lock(&cache_.mutex_);
    ++cache_.unsynced_;
  }

  void OnObject(kube::Json& object) override {
    const std::string key = KeyOf(object);
    bool changed = false;
    {
      absl::MutexLock lock(&cache_.mutex_);
      changed = StoreJob(cache_.entries_[key], object);
    }
    if (!changed) return;
    cache_.TellProgress(key);
    cache_.Changed(key, runtime::Priority::kNormal);
  }

  void OnDeleted(const kube::Json& object) override { Remove(KeyOf(object), UidOf(object)); }

  void OnListBegin() override {
    absl::MutexLock lock(&cache_.mutex_);
    for (auto& [key, entry] : cache_.entries_) {
      if (entry.job && InNamespace(key, ns_)) entry.job->named = false;
    }
  }

  void OnListEnd() override {
    std::vector<std::pair<std::string, std::string>> gone;
    {
      absl::MutexLock lock(&cache_.mutex_);
      for (const auto& [key, entry] : cache_.entries_) {
        if (!entry.job || entry.job->named || !InNamespace(key, ns_)) continue;
        gone.emplace_back(key, entry.job->uid);
      }
    }
    for (const auto& [key, uid] : gone) Remove(key, uid);
    cache_.ListEnded(&first_list_);
  }

 private:
  void Remove(const std::string& key, const std::string& uid) {
    {
      absl::MutexLock lock(&cache_.mutex_);
      const auto it = cache_.entries_.find(key);
      if (it == cache_.entries_.end() || !it->second.job || it->second.job->uid != uid) return;
      it->second.job.reset();
      std::erase_if(it->second.pods, [](const Child<PodView>& pod) { return pod.ghost; });
      cache_.EraseIfEmpty(key);
    }
    if (cache_.options_.on_job_deleted) cache_.options_.on_job_deleted(key);
    cache_.Changed(key, runtime::Priority::kNormal);
  }

  JobCache& cache_;
  const std::string ns_;
  bool first_list_ = true;
};

// Pods, services or PodGroups of one namespace.
template <typename View>
class JobCache::ChildSink : public runtime::WatchSink {
 public:
  ChildSink(JobCache* cache, std::string ns) : cache_(*cache), ns_(std::move(ns)) {
    absl::MutexLock lock(&cache_.mutex_);
    ++cache_.unsynced_;
  }

  void OnObject(kube::Json& object) override {
    const std::string key = JobKeyOf(object);
    if (key.empty()) return;
    View view = ViewOf<View>(object, cache_.options_);
    bool changed = false;
    runtime::Priority priority = runtime::Priority::kNormal;
    {
      absl::MutexLock lock(&cache_.mutex_);
      Entry& entry = cache_.entries_[key];
      changed = cache_.StoreChild<View>(entry, std::move(view), ResourceVersionOf(object),
                                        /*own=*/false);
      priority = PriorityOf<View>(entry);
    }
    if (changed) cache_.Changed(key, priority);
  }

  void OnDeleted(const kube::Json& object) override {
    const std::string key = JobKeyOf(object);
    bool changed = false;
    runtime::Priority priority = runtime::Priority::kNormal;
    // The last state of a pod comes with the deletion, and only there if the watch skipped it.
    std::optional<View> succeeded;
    if constexpr (std::is_same_v<View, PodView>) {
      if (PodView last = PodViewOf(object, cache_.options_.sidecars);
          last.phase == PodPhase::kSucceeded) {
        succeeded = std::move(last);
      }
    }
    {
      absl::MutexLock lock(&cache_.mutex_);
      const auto it = cache_.entries_.find(key);
      if (it == cache_.entries_.end()) return;
      if (succeeded) {
        cache_.StoreChild<View>(it->second, *std::move(succeeded), ResourceVersionOf(object),
                                false);
      }
      changed = cache_.DropChild<View>(it->second, UidOf(object), /*keep_ghost=*/true);
      priority = PriorityOf<View>(it->second);
      cache_.EraseIfEmpty(key);
    }
    if (changed) cache_.Changed(key, priority);
  }

  void OnListBegin() override {
    absl::MutexLock lock(&cache_.mutex_);
    list_began_ = cache_.options_.clock->Now();
    for (auto& [key, entry] : cache_.entries_) {
      if (!InNamespace(key, ns_)) continue;
      for (Child<View>& child : Of<View>(entry)) child.named = false;
    }
  }

  void OnListEnd() override {
    std::vector<std::pair<std::string, runtime::Priority>> changed;
    {
      absl::MutexLock lock(&cache_.mutex_);
      for (auto& [key, entry] : cache_.entries_) {
        if (!InNamespace(key, ns_) || !Sweep(entry)) continue;
        changed.emplace_back(key, PriorityOf<View>(entry));
      }
      for (const auto& [key, priority] : changed) cache_.EraseIfEmpty(key);
    }
    for (const auto& [key, priority] : changed) cache_.Changed(key, priority);
    cache_.ListEnded(&first_list_);
  }

 private:
  bool Sweep(Entry& entry) {
    std::vector<std::string> gone;
    for (const Child<View>& child : Of<View>(entry)) {
      const bool too_new = child.unseen_since > list_began_ - kListMayLag;
      if (!child.named && !child.ghost && !too_new) gone.push_back(child.view.uid);
    }
    for (const std::string& uid : gone) cache_.DropChild<View>(entry, uid, /*keep_ghost=*/true);
    return !gone.empty();
  }

  JobCache& cache_;
  const std::string ns_;
  absl::Time list_began_;
  bool first_list_ = true;
};

JobCache::JobCache(JobCacheOptions options) : options_(std::move(options)) {}
JobCache::~JobCache() = default;

std::unique_ptr<runtime::WatchSink> JobCache::MakeJobSink(const std::string& ns) {
  return std::make_unique<JobSink>(this, ns);
}
std::unique_ptr<runtime::WatchSink> JobCache::MakePodSink(const std::string& ns) {
  return std::make_unique<ChildSink<PodView>>(this, ns);
}
std::unique_ptr<runtime::WatchSink> JobCache::MakeServiceSink(const std::string& ns) {
  return std::make_unique<ChildSink<ServiceView>>(this, ns);
}
std::unique_ptr<runtime::WatchSink> JobCache::MakePodGroupSink(const std::string& ns) {
  return std::make_unique<ChildSink<PodGroupView>>(this, ns);
}

std::optional<JobCache::Snapshot> JobCache::Observe(const std::string& key) const {
  Snapshot out;
  std::string text;
  std::string version;
  TfJobStatus status;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || !it->second.job) return std::nullopt;
    const StoredJob& job = *it->second.job;
    text = job.text;
    version = job.resource_version_text;
    status = job.status;
    out.spec_hash = job.spec_hash;
    const absl::Time unseen_limit = options_.clock->Now() - kUnseenLimit;
    const auto believed = [&](const auto& children, auto& views) {
      for (const auto& child : children) {
        if (!child.unseen() || child.unseen_since > unseen_limit) views.push_back(child.view);
      }
    };
    believed(it->second.pods, out.observed.pods);
    believed(it->second.services, out.observed.services);
    believed(it->second.pod_groups, out.observed.pod_groups);
  }
  ParsedTfJob parsed =
      FromJson(Json::parse(text, nullptr, /*allow_exceptions=*/false), options_.parse);
  out.observed.job = std::move(parsed.job);
  out.observed.job.metadata.resource_version = std::move(version);
  out.observed.job.status = std::move(status);
  out.observed.parse_errors = std::move(parsed.errors);
  out.observed.parse_warnings = std::move(parsed.warnings);
  return out;
}

std::vector<std::string> JobCache::Keys() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_) {
    if (entry.job) keys.push_back(key);
  }
  return keys;
}

std::map<std::string, std::vector<Condition>> JobCache::Conditions(const std::string& ns) const {
  std::map<std::string, std::vector<Condition>> out;
  absl::MutexLock lock(&mutex_);
  for (auto it = ns.empty() ? entries_.begin() : entries_.lower_bound(ns + "/");
       it != entries_.end() && InNamespace(it->first, ns); ++it) {
    if (it->second.job) out.emplace_hint(out.end(), it->first, it->second.job->status.conditions);
  }
  return out;
}

JobCache::Counts JobCache::Count() const {
  absl::MutexLock lock(&mutex_);
  Counts counts;
  for (const auto& [key, entry] : entries_) {
    counts.jobs += entry.job.has_value();
    counts.pods += static_cast<int>(entry.pods.size());
    counts.services += static_cast<int>(entry.services.size());
  }
  return counts;
}

void JobCache::NoteStatus(const std::string& key, const std::string& uid, uint64_t resource_version,
                          const TfJobStatus& status) {
  // As it will come back: whole seconds.
  const Json bare = {
      {"apiVersion", kApiVersion}, {"kind", kKind}, {"status", StatusToJson(status)}};
  TfJobStatus stored = FromJson(bare).job.status;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || !it->second.job || it->second.job->uid != uid) return;
    StoredJob& job = *it->second.job;
    // Equal: the watch was faster. What we wrote counts, should the server have pruned it.
    if (resource_version < job.resource_version) return;
    job.resource_version = resource_version;
    job.resource_version_text = std::to_string(resource_version);
    job.status = std::move(stored);
    PruneGhosts(it->second);
  }
  TellProgress(key);
}

template <typename View>
void JobCache::Note(const Json& object, View view) {
  const std::string key = JobKeyOf(object);
  if (key.empty()) return;
  absl::MutexLock lock(&mutex_);
  StoreChild<View>(entries_[key], std::move(view), ResourceVersionOf(object), /*own=*/true);
}
void JobCache::NotePod(const Json& pod) { Note<PodView>(pod, PodViewOf(pod, options_.sidecars)); }
void JobCache::NoteService(const Json& service) {
  Note<ServiceView>(service, ServiceViewOf(service));
}
void JobCache::NotePodGroup(const Json& pod_group) {
  Note<PodGroupView>(pod_group, PodGroupViewOf(pod_group));
}

template <typename View>
void JobCache::MarkDeleting(const std::string& key, const std::string& uid) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  for (Child<View>& child : Of<View>(it->second)) {
    if (child.view.uid != uid || child.view.deletion_time) continue;
    child.view.deletion_time = options_.clock->Now();
  }
}
void JobCache::NotePodDeleting(const std::string& key, const std::string& uid) {
  MarkDeleting<PodView>(key, uid);
}
void JobCache::NoteServiceDeleting(const std::string& key, const std::string& uid) {
  MarkDeleting<ServiceView>(key, uid);
}
void JobCache::NotePodGroupDeleting(const std::string& key, const std::string& uid) {
  MarkDeleting<PodGroupView>(key, uid);
}

template <typename View>
void JobCache::Drop(const std::string& key, const std::string& uid) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  DropChild<View>(it->second, uid, /*keep_ghost=*/true);
  EraseIfEmpty(key);
}
void JobCache::NotePodGone(const std::string& key, const std::string& uid) {
  Drop<PodView>(key, uid);
}
void JobCache::NoteServiceGone(const std::string& key, const std::string& uid) {
  Drop<ServiceView>(key, uid);
}
void JobCache::NotePodGroupGone(const std::string& key, const std::string& uid) {
  Drop<PodGroupView>(key, uid);
}

}  // namespace tfjob
