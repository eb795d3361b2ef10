// For tests: the one lease of an API server, with resourceVersion conflicts and faults on demand.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/runtime/test_client.h"

namespace runtime {

// Thread-safe.
class TestLeaseServer {
 public:
  using Json = kube::Json;
  absl::StatusOr<Json> Get() {
    absl::MutexLock lock(&mutex_);
    if (!object_) return absl::NotFoundError("no lease");
    return *object_;
  }
  absl::StatusOr<Json> Create(const Json& object) {
    absl::MutexLock lock(&mutex_);
    if (object_) return absl::AlreadyExistsError("lease exists");
    return Store(object);
  }
  absl::StatusOr<Json> Replace(const Json& object) {
    absl::MutexLock lock(&mutex_);
    if (!object_) return absl::NotFoundError("no lease");
    if ((*object_)["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"]) {
      return absl::AbortedError("conflict");
    }
    return Store(object);
  }
  // As an administrator: without a precondition; nullopt deletes.
  void Edit(std::optional<Json> object) {
    absl::MutexLock lock(&mutex_);
    object_.reset();
    if (object) (void)Store(*object);
  }
  Json spec() {
    absl::MutexLock lock(&mutex_);
    return object_ ? (*object_)["spec"] : Json();
  }
  int writes() {
    absl::MutexLock lock(&mutex_);
    return version_;
  }

 private:
  Json Store(const Json& object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    object_ = object;
    (*object_)["metadata"]["resourceVersion"] = std::to_string(++version_);
    return *object_;
  }
  absl::Mutex mutex_;
  std::optional<Json> object_ ABSL_GUARDED_BY(mutex_);
  int version_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One candidate's way to the server. `fault` is asked before and after each call; an error before
// keeps the call from the server, one after hides its answer.
class LeaseClient : public TestClient {
 public:
  enum class When { kBefore, kAfter };
  explicit LeaseClient(TestLeaseServer* server) : server_(*server) {}

  absl::StatusOr<Json> Get(const Resource&, const std::string&, const std::string&,
                           std::stop_token) override {
    return Do([&] { return server_.Get(); });
  }
  absl::StatusOr<Json> Create(const Resource&, const std::string&, const Json& object,
                              std::stop_token) override {
    return Do([&] { return server_.Create(object); });
  }
  absl::StatusOr<Json> Replace(const Resource&, const std::string&, const Json& object,
                               std::stop_token) override {
    return Do([&] { return server_.Replace(object); });
  }

  std::function<absl::Status(When)> fault = [](When) { return absl::OkStatus(); };

 private:
  template <typename Call>
  absl::StatusOr<Json> Do(const Call& call) {
    if (absl::Status status = fault(When::kBefore); !status.ok()) return status;
    absl::StatusOr<Json> answer = call();
    if (absl::Status status = fault(When::kAfter); !status.ok()) return status;
    return answer;
  }
  TestLeaseServer& server_;
};

}  // namespace runtime
