// The client: builds a request, sends it until it is answered or the tries are spent, reads the
// answer. What a request looks like is in request.cc, what an answer means in response.cc.
#include "operator/kube/client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/kube/request.h"
#include "operator/kube/response.h"

namespace kube {
namespace {

constexpr absl::Duration kFirstWait = absl::Milliseconds(100);
constexpr absl::Duration kLongestWait = absl::Seconds(5);
// A server that asks for more is for the caller's queue, not for a thread that sleeps.
constexpr absl::Duration kLongestRetryAfter = absl::Seconds(15);

double RandomFactor() {
  thread_local std::mt19937 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.5, 1.5)(engine);
}

struct Call {
  std::string_view verb;
  ObjectPath path;
  bool write = false;
};

class ClientImpl : public Client {
 public:
  ClientImpl(std::shared_ptr<Transport> transport, ClientOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {
    if (!options_.wait) options_.wait = base::PauseFor;
  }

  absl::StatusOr<Json> Get(const Resource& resource, const std::string& ns, const std::string& name,
                           std::stop_token stop) override {
    const ObjectPath path{resource, ns, name, ""};
    return ObjectCall({"get", path}, GetRequest(path), stop);
  }

  absl::StatusOr<Json> Create(const Resource& resource, const std::string& ns, const Json& object,
                              std::stop_token stop) override {
    return ObjectCall({"create", PathOfObject(resource, ns, object, ""), true},
                      CreateRequest(resource, ns, object), stop);
  }

  absl::StatusOr<Json> Replace(const Resource& resource, const std::string& ns, const Json& object,
                               std::stop_token stop) override {
    return ObjectCall({"update", PathOfObject(resource, ns, object, ""), true},
                      ReplaceRequest(resource, ns, object, ""), stop);
  }

  absl::StatusOr<Json> ReplaceStatus(const Resource& resource, const std::string& ns,
                                     const Json& object, std::stop_token stop) override {
    return ObjectCall({"status", PathOfObject(resource, ns, object, "status"), true},
                      ReplaceRequest(resource, ns, object, "status"), stop);
  }

  absl::StatusOr<Json> Patch(const Resource& resource, const std::string& ns,
                             const std::string& name, PatchType type, const Json& patch,
                             const std::string& subresource, std::stop_token stop) override {
    const ObjectPath path{resource, ns, name, subresource};
    return ObjectCall({"patch", path, true}, PatchRequest(path, type, patch, options_.user_agent),
                      stop);
  }

  absl::Status Delete(const Resource& resource, const std::string& ns, const std::string& name,
                      const DeleteOptions& options, std::stop_token stop) override {
    const ObjectPath path{resource, ns, name, ""};
    return Send({"delete", path, true}, DeleteRequest(path, options), stop).status();
  }

  absl::Status DeleteCollection(const Resource& resource, const std::string& ns,
                                const std::string& label_selector, std::stop_token stop) override {
    return Send({"deletecollection", {resource, ns, "", ""}, true},
                DeleteCollectionRequest(resource, ns, label_selector), stop)
        .status();
  }

  absl::StatusOr<ListPage> List(const Resource& resource, const std::string& ns,
                                const ListOptions& options, std::stop_token stop) override {
    const Call call{"list", {resource, ns, "", ""}};
    ASSIGN_OR_RETURN(Response response, Send(call, ListRequest(resource, ns, options), stop));
    absl::StatusOr<ListPage> page = ParseList(std::move(response.body));
    if (!page.ok()) return Named(call, page.status());
    return page;
  }

  absl::Status Watch(const Resource& resource, const std::string& ns, const WatchOptions& options,
                     const std::function<bool(WatchEvent&)>& on_event,
                     std::stop_token stop) override;
  absl::Status Logs(const std::string& ns, const std::string& pod, const LogOptions& options,
                    const std::function<bool(std::string_view)>& on_data,
                    std::stop_token stop) override;

 private:
  static ObjectPath PathOfObject(const Resource& resource, const std::string& ns,
                                 const Json& object, const std::string& subresource) {
    const Json& metadata = base::At(object, "metadata");
    std::string name = base::StringAt(metadata, "name");
    if (name.empty()) name = base::StringAt(metadata, "generateName");
    return {resource, ns, name, subresource};
  }

  static std::string What(const Call& call) {
    return base::StrCat(call.verb, " ", Describe(call.path));
  }
  static absl::Status Named(const Call& call, const absl::Status& status) {
    absl::Status named(status.code(),
                       base::StrCat(What(call), ": ", std::string(status.message())));
    if (const auto after = RetryAfter(status)) SetRetryAfter(&named, *after);
    return named;
  }

  absl::StatusOr<Json> ObjectCall(const Call& call, absl::StatusOr<Request> request,
                                  std::stop_token stop) {
    ASSIGN_OR_RETURN(Response response, Send(call, std::move(request), stop));
    absl::StatusOr<Json> object = ParseObject(std::move(response.body));
    if (!object.ok()) return Named(call, object.status());
    return object;
  }

  absl::StatusOr<Response> Send(const Call& call, absl::StatusOr<Request> request,
                                std::stop_token stop);
  absl::StatusOr<Response> SendOnce(const Call& call, const Request& request, std::stop_token stop,
                                    absl::Status* status);
  absl::Status MayWrite(const Call& call) const {
    if (!call.write || !options_.may_write || options_.may_write()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(What(call), ": not sent, as this process does not hold the lease"));
  }
  // How long to wait before the try after `attempt` (0, 1…), or nullopt: give up.
  std::optional<absl::Duration> NextWait(const Call& call, const absl::Status& status,
                                         int attempt) const;
  void Report(const Call& call, int code, absl::Time start) const {
    if (options_.on_call) {
      options_.on_call(call.verb, call.path.resource, code, absl::Now() - start);
    }
  }

  const std::shared_ptr<Transport> transport_;
  ClientOptions options_;  // constant after the constructor
};

std::optional<absl::Duration> ClientImpl::NextWait(const Call& call, const absl::Status& status,
                                                   int attempt) const {
  if (attempt >= options_.max_retries) return std::nullopt;
  const bool refused = absl::IsResourceExhausted(status);
  if (!refused && (call.write || !absl::IsUnavailable(status))) return std::nullopt;
  const absl::Duration backoff =
      std::min(kFirstWait * (1 << std::min(attempt, 10)), kLongestWait) * RandomFactor();
  const std::optional<absl::Duration> asked = RetryAfter(status);
  if (!asked) return backoff;
  if (*asked > kLongestRetryAfter) return std::nullopt;
  return *asked + kFirstWait * RandomFactor();  // not all clients at the same instant
}

absl::StatusOr<Response> ClientImpl::SendOnce(const Call& call, const Request& request,
                                              std::stop_token stop, absl::Status* status) {
  const absl::Time start = absl::Now();
  absl::StatusOr<Response> response = transport_->Call(request, stop);
  Report(call, response.ok() ? response->code : 0, start);
  *status = response.ok() ? StatusOf(What(call), *response) : Named(call, response.status());
  return response;
}

absl::StatusOr<Response> ClientImpl::Send(const Call& call, absl::StatusOr<Request> request,
                                          std::stop_token stop) {
  if (!request.ok()) return Named(call, request.status());
  request->timeout = options_.call_timeout;
  request->user_agent = options_.user_agent;
  for (int attempt = 0;; ++attempt) {
    RETURN_IF_ERROR(MayWrite(call));
    if (stop.stop_requested()) return absl::CancelledError(What(call) + ": stopped");
    absl::Status status;
    absl::StatusOr<Response> response = SendOnce(call, *request, stop, &status);
    if (status.ok()) return response;
    const std::optional<absl::Duration> wait = NextWait(call, status, attempt);
    if (!wait || !options_.wait(*wait, stop)) return status;
  }
}

absl::Status ClientImpl::Watch(const Resource& resource, const std::string& ns,
                               const WatchOptions& options,
                               const std::function<bool(WatchEvent&)>& on_event,
                               std::stop_token stop) {
  const Call call{"watch", {resource, ns, "", ""}};
  ASSIGN_OR_RETURN(Request request, WatchRequest(resource, ns, options));
  request.user_agent = options_.user_agent;
  WatchSplitter splitter;
  absl::Status event_status;
  bool wanted = true;
  const auto on_watch_event = [&](WatchEvent& event) {
    wanted = on_event(event);
    return wanted;
  };
  const auto on_data = [&](std::string_view piece) {
    event_status = splitter.Add(piece, on_watch_event);
    return event_status.ok();
  };
  const absl::Time start = absl::Now();
  const absl::StatusOr<Response> response = transport_->Stream(request, on_data, stop);
  Report(call, response.ok() ? response->code : 0, start);
  if (!wanted) return absl::OkStatus();
  if (!event_status.ok()) return Named(call, event_status);
  if (!response.ok()) return Named(call, response.status());
  RETURN_IF_ERROR(StatusOf(What(call), *response));
  if (splitter.at_boundary()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(What(call), ": ended in the middle of an event"));
}

absl::Status ClientImpl::Logs(const std::string& ns, const std::string& pod,
                              const LogOptions& options,
                              const std::function<bool(std::string_view)>& on_data,
                              std::stop_token stop) {
  const Call call{"get", {kPods, ns, pod, "log"}};
  ASSIGN_OR_RETURN(Request request, LogRequest(ns, pod, options));
  request.user_agent = options_.user_agent;
  const absl::Time start = absl::Now();
  const absl::StatusOr<Response> response = transport_->Stream(request, on_data, stop);
  Report(call, response.ok() ? response->code : 0, start);
  if (!response.ok()) return Named(call, response.status());
  return StatusOf(What(call), *response);
}

}  // namespace

std::unique_ptr<Client> Client::Create(std::shared_ptr<Transport> transport,
                                       ClientOptions options) {
  return std::make_unique<ClientImpl>(std::move(transport), std::move(options));
}

}  // namespace kube
