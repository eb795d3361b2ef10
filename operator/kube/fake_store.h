// The storage of the fake API server: objects, resource versions, a window of history, the rules of
// create, update, delete and garbage collection. Knows no HTTP. For tests.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "operator/kube/client.h"

namespace kube {

// What a request becomes: a body, or a Kubernetes Status.
struct FakeAnswer {
  int code = 200;
  Json body;
  bool ok() const { return code < 400; }
};
FakeAnswer FakeFailure(int code, const std::string& reason, const std::string& message);

struct FakeStoreOptions {
  // Changes of each resource that a watch can still be given; older ones answer 410.
  size_t watch_window = 10'000;
  // Deleted pods stay, with a deletionTimestamp, until FinishDeletions or a delete with grace 0.
  bool graceful_pods = false;
  bool garbage_collection = true;  // objects whose owners are all gone go, too
  base::Clock* clock = base::Clock::Real();
};

struct FakeResource {
  std::string group_version, plural;
  auto operator<=>(const FakeResource&) const = default;
};

struct FakeChange {
  int64_t version = 0;
  Json before, after;  // null = there was none, there is none
};

// Not thread-safe. Deterministic: uids, names and versions are counted.
class FakeStore {
 public:
  explicit FakeStore(FakeStoreOptions options) : options_(options) {}

  FakeAnswer Get(const FakeResource& resource, const std::string& ns,
                 const std::string& name) const;
  FakeAnswer Create(const FakeResource& resource, const std::string& ns, Json object);
  // subresource: "" or "status".
  FakeAnswer Replace(const FakeResource& resource, const std::string& ns, const std::string& name,
                     const std::string& subresource, Json object);
  // content_type: one of the four of Kubernetes.
  FakeAnswer Patch(const FakeResource& resource, const std::string& ns, const std::string& name,
                   const std::string& subresource, std::string_view content_type,
                   const Json& patch);
  FakeAnswer Delete(const FakeResource& resource, const std::string& ns, const std::string& name,
                    const Json& options);
  FakeAnswer DeleteCollection(const FakeResource& resource, const std::string& ns,
                              const std::string& selector, const Json& options);
  FakeAnswer List(const FakeResource& resource, const std::string& ns, const std::string& selector,
                  int limit, const std::string& continue_token) const;

  // As a controller of the cluster would: no rules; creates or replaces, status and all.
  Json Put(const FakeResource& resource, Json object);
  bool Remove(const FakeResource& resource, const std::string& ns, const std::string& name);
  // Removes what waits with a deletionTimestamp and without finalizers.
  void FinishDeletions();
  // Removes objects whose owners do not exist.
  void CollectGarbage();
  std::vector<Json> Objects(const FakeResource& resource, const std::string& ns) const;

  int64_t version() const { return version_; }
  // The changes after `version`, or nullopt: no longer known.
  std::optional<std::vector<const FakeChange*>> ChangesAfter(const FakeResource& resource,
                                                             int64_t version) const;
  // Forgets all history: every list, watch and page that goes on from before gets 410.
  void Compact();

 private:
  struct Table {
    std::map<std::string, Json> objects;  // by "namespace/name"
    std::deque<FakeChange> history;
    int64_t forgotten = 0;  // the newest version that history no longer holds
  };
  using Key = std::pair<FakeResource, std::string>;

  const Json* Find(const FakeResource& resource, const std::string& key) const;
  // Stores `object` (null: removes) under a new version, keeps history and indexes.
  Json Commit(const FakeResource& resource, const std::string& key, Json object);
  void Erase(const FakeResource& resource, const std::string& key);
  FakeAnswer Update(const FakeResource& resource, const std::string& key,
                    const std::string& subresource, Json object);
  void Index(const Key& key, const Json& object, bool add);
  bool HasLivingOwner(const Json& object) const;
  void BeginDeletion(const FakeResource& resource, const std::string& key, const Json& options);
  void DeleteDependents(const std::string& uid, bool orphan);
  void FinishForeground();

  const FakeStoreOptions options_;
  std::map<FakeResource, Table> tables_;
  std::map<std::string, Key> by_uid_;
  std::map<std::string, std::set<Key>> dependents_;  // by the owner's uid
  std::set<std::string> foreground_;                 // uids of owners that wait for dependents
  int64_t version_ = 0;
  int64_t uids_ = 0;
  int64_t names_ = 0;
};

// Whether `object` is in namespace `ns` ("" = any) and its labels match `selector`: a=b, a==b,
// a!=b, a, !a, a in (b,c), a notin (b,c), joined by commas.
bool Selected(const Json& object, const std::string& ns, const std::string& selector);
// "" or what is wrong with a selector.
std::string SelectorError(const std::string& selector);

}  // namespace kube
