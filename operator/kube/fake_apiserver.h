// An API server in memory, behind Transport: for the tests of whatever uses a Client. Serves any
// resource; its rules are in fake_store.h. Faults, delays and cuts on demand; keeps a log.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/kube/client.h"
#include "operator/kube/fake_logs.h"
#include "operator/kube/fake_store.h"
#include "operator/kube/transport.h"

namespace kube {

// One request as the server understands it.
struct FakeCall {
  int number = 0;    // 1, 2… in order of arrival
  std::string verb;  // get, list, watch, create, update, status, patch, delete
  std::string group_version, plural, ns, name, subresource;
  Json body;     // null when there is none
  int code = 0;  // of the answer, in the log; 0 = none was given (cut, or still open)
};

// What shall happen to a request instead of the ordinary.
struct FakeFault {
  absl::Duration delay = absl::ZeroDuration();  // first; ends early on stop and at the deadline
  int code = 0;                                 // answer this; nothing is done
  std::string reason, message;
  int retry_after_seconds = 0;
  bool cut_before = false;   // the connection breaks, nothing is done
  bool cut_after = false;    // it is done, then the connection breaks
  int cut_watch_after = -1;  // events of a watch, then the connection breaks
};

struct FakeApiServerOptions {
  FakeStoreOptions store;
  absl::Duration bookmark_interval = absl::InfiniteDuration();
  size_t piece_bytes = 0;  // of a watch's data; 0 = whole lines
};

// Thread-safe.
class FakeApiServer : public Transport {
 public:
  explicit FakeApiServer(FakeApiServerOptions options = {});

  absl::StatusOr<Response> Call(const Request& request, std::stop_token stop) override;
  absl::StatusOr<Response> Stream(const Request& request,
                                  const std::function<bool(std::string_view)>& on_data,
                                  std::stop_token stop) override;

  // --- the cluster's other hands: no faults, no log
  Json Put(const Resource& resource, Json object);  // creates or replaces as it is
  // Replaces the status; CHECKs that the object exists.
  Json SetStatus(const Resource& resource, const std::string& ns, const std::string& name,
                 Json status);
  bool Remove(const Resource& resource, const std::string& ns, const std::string& name);
  void FinishDeletions();
  void CollectGarbage();
  std::optional<Json> Find(const Resource& resource, const std::string& ns,
                           const std::string& name) const;
  std::vector<Json> Objects(const Resource& resource, const std::string& ns = "") const;

  FakeLogs& logs() { return logs_; }  // of the containers

  // --- trouble
  // Asked about each request, outside of all locks; empty = none.
  void SetFaults(std::function<FakeFault(const FakeCall&)> faults);
  void Compact();       // all history is forgotten: 410 for whoever goes on from before
  void CloseWatches();  // in good order
  void CutWatches();    // their connections break
  void SendBookmarks();

  // --- the log
  std::vector<FakeCall> Calls() const;
  int Count(const std::string& verb, const std::string& plural) const;
  void ClearCalls();
  int watches() const;  // open now
  // Until so many watches of `plural` are open; false after `timeout`.
  bool WaitForWatches(const std::string& plural, int count, absl::Duration timeout) const;

 private:
  struct WatchState;

  absl::StatusOr<Response> Handle(const Request& request, FakeCall call, std::stop_token stop);
  FakeAnswer Execute(const FakeCall& call, const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int LogCall(FakeCall call) ABSL_LOCKS_EXCLUDED(mutex_);
  void LogCode(int number, int code) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<FakeFault> Fault(const FakeCall& call, const Request& request,
                                  std::stop_token stop) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Response> RunWatch(const Request& request, const FakeCall& call,
                                    const FakeFault& fault,
                                    const std::function<bool(std::string_view)>& on_data,
                                    std::stop_token stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lines that a watch has not had; moves it on.
  std::vector<std::string> NextLines(WatchState* watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNews(const WatchState& watch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FakeApiServerOptions options_;
  FakeLogs logs_;  // own synchronisation
  mutable absl::Mutex mutex_;
  FakeStore store_ ABSL_GUARDED_BY(mutex_);
  std::function<FakeFault(const FakeCall&)> faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<FakeCall> calls_ ABSL_GUARDED_BY(mutex_);
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> watches_ ABSL_GUARDED_BY(mutex_);  // open, by plural
  int closes_ ABSL_GUARDED_BY(mutex_) = 0;                      // calls of CloseWatches so far
  int cuts_ ABSL_GUARDED_BY(mutex_) = 0;
  int bookmarks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kube
