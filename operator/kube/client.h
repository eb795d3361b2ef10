// Typed calls of the Kubernetes API over a Transport: objects are JSON, failures are statuses that
// say what to do about them.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/transport.h"

namespace kube {

using Json = nlohmann::json;

struct Resource {
  std::string_view group_version;  // "v1", "apps/v1"
  std::string_view plural;         // "pods"
  bool operator==(const Resource&) const = default;
};
inline constexpr Resource kPods{"v1", "pods"};
inline constexpr Resource kServices{"v1", "services"};
inline constexpr Resource kSecrets{"v1", "secrets"};
inline constexpr Resource kEvents{"v1", "events"};
inline constexpr Resource kTfJobs{"kubeflow.org/v1", "tfjobs"};
inline constexpr Resource kNamespaces{"v1", "namespaces"};
inline constexpr Resource kClaims{"v1", "persistentvolumeclaims"};
inline constexpr Resource kLeases{"coordination.k8s.io/v1", "leases"};

// How a Kubernetes Status becomes an absl::Status (message: the server's, with what was asked):
//   400, 422 kInvalidArgument · 401 kUnauthenticated · 403 kPermissionDenied (quota, too) ·
//   404 kNotFound · 409 AlreadyExists kAlreadyExists · 409 else kAborted (conflict; look again) ·
//   410 kOutOfRange (resourceVersion too old: list again) · 429 kResourceExhausted ·
//   500, 502–504 kUnavailable · others kInternal. Transport errors pass through.
// How long the server asked to wait (Retry-After), or nullopt.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  int limit = 500;               // objects a page
  std::string continue_token;    // of the page before
  std::string resource_version;  // "" = newest; "0" = whatever the server's cache holds
};
struct ListPage {
  Json items = Json::array();
  std::string resource_version;
  std::string continue_token;  // empty = last page
};

struct WatchOptions {
  std::string label_selector;
  std::string resource_version;
  absl::Duration timeout = absl::Minutes(5);        // asked of the server
  absl::Duration idle_timeout = absl::Seconds(90);  // bookmarks come every minute
};
struct WatchEvent {
  std::string type;  // ADDED, MODIFIED, DELETED, BOOKMARK
  Json object;
};

// Of one container's output.
struct LogOptions {
  std::string container;              // empty = the pod's only one
  bool follow = false;                // until the container ends
  bool previous = false;              // of the run before the last restart
  bool timestamps = false;            // RFC 3339 with nanoseconds and a blank before each line
  std::optional<int64_t> tail_lines;  // the last ones alone
  std::string since_time;             // RFC 3339; lines from that second on
  absl::Duration idle_timeout = absl::Minutes(2);  // the longest silence
};

struct DeleteOptions {
  std::string uid;                         // precondition; empty = none
  std::string propagation = "Background";  // Background, Foreground, Orphan
  std::optional<int> grace_seconds;        // 0: without waiting for the pod's node
};

// kApply: server-side apply, forced, with ClientOptions::user_agent as field manager.
enum class PatchType { kMerge, kStrategicMerge, kJson, kApply };

// Called for each finished call: verb ("create", "status"…), resource, HTTP code (0 = no answer).
using CallObserver =
    std::function<void(std::string_view verb, const Resource&, int code, absl::Duration)>;

struct ClientOptions {
  std::string user_agent = "trainyard";
  absl::Duration call_timeout = absl::Seconds(30);
  // Tries again after 429 (as Retry-After says), 5xx on reads, and broken connections on reads,
  // at most so often; writes are the caller's to repeat, but a 429 was not executed.
  int max_retries = 3;
  CallObserver on_call;
  // Waits between two tries; false = stop was requested. Empty = really waits. For tests.
  std::function<bool(absl::Duration, std::stop_token)> wait;
  // Asked before each write (create, replace, patch, delete); false = kFailedPrecondition and no
  // call. For leaders: no write after the lease is lost. Empty = always.
  std::function<bool()> may_write;
};

// Thread-safe. `ns`: namespace; empty for all (list, watch) or for cluster-scoped resources.
class Client {
 public:
  virtual ~Client() = default;
  static std::unique_ptr<Client> Create(std::shared_ptr<Transport> transport,
                                        ClientOptions options);

  virtual absl::StatusOr<Json> Get(const Resource& resource, const std::string& ns,
                                   const std::string& name, std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<Json> Create(const Resource& resource, const std::string& ns,
                                      const Json& object, std::stop_token stop = {}) = 0;
  // PUT of the whole object, or of its status; metadata.resourceVersion in it guards against lost
  // updates.
  virtual absl::StatusOr<Json> Replace(const Resource& resource, const std::string& ns,
                                       const Json& object, std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<Json> ReplaceStatus(const Resource& resource, const std::string& ns,
                                             const Json& object, std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<Json> Patch(const Resource& resource, const std::string& ns,
                                     const std::string& name, PatchType type, const Json& patch,
                                     const std::string& subresource = "",
                                     std::stop_token stop = {}) = 0;
  // kNotFound: gone already. kAborted: another object of that name (uid).
  virtual absl::Status Delete(const Resource& resource, const std::string& ns,
                              const std::string& name, const DeleteOptions& options = {},
                              std::stop_token stop = {}) = 0;
  // All objects of the namespace that the selector picks, which must not be empty.
  virtual absl::Status DeleteCollection(const Resource& resource, const std::string& ns,
                                        const std::string& label_selector,
                                        std::stop_token stop = {}) = 0;
  virtual absl::StatusOr<ListPage> List(const Resource& resource, const std::string& ns,
                                        const ListOptions& options, std::stop_token stop = {}) = 0;
  // Blocks. OK: the server ended the watch in good order; kOutOfRange: list again; on_event returns
  // false to end it.
  virtual absl::Status Watch(const Resource& resource, const std::string& ns,
                             const WatchOptions& options,
                             const std::function<bool(WatchEvent&)>& on_event,
                             std::stop_token stop) = 0;
  // Blocks. on_data gets the output in pieces cut anywhere; it returns false to end it. OK: the log
  // is at its end. kInvalidArgument, too, while the container has not started.
  virtual absl::Status Logs(const std::string& ns, const std::string& pod,
                            const LogOptions& options,
                            const std::function<bool(std::string_view)>& on_data,
                            std::stop_token stop) = 0;
};

}  // namespace kube
