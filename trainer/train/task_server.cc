#include "trainer/train/task_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/random_id.h"
#include "trainer/train/task.grpc.pb.h"
#include "trainer/train/task_client.h"

namespace trainer {
namespace {

constexpr size_t kMaxKeyBytes = 1024;
constexpr size_t kMaxValueBytes = 1 << 20;
constexpr size_t kMaxStoreBytes = 64 << 20;
constexpr size_t kMaxPingers = 10000;

class KeyValueStore;

// A Get that waits for its key.
class GetReactor final : public grpc::ServerUnaryReactor {
 public:
  GetReactor(KeyValueStore* store, std::string key, rpc::GetResponse* response)
      : store_(store), key_(std::move(key)), response_(response) {}
  void OnCancel() override;
  void OnDone() override { delete this; }

  const std::string& key() const { return key_; }
  void Answer(const std::string& value) {
    response_->set_value(value);
    Finish(grpc::Status::OK);
  }

 private:
  KeyValueStore* const store_;
  const std::string key_;
  rpc::GetResponse* const response_;
};

// Values by key and the calls that wait for one. A waiting reactor is finished by whoever takes it
// out of the map, and never under the lock.
class KeyValueStore {
 public:
  absl::Status Put(const std::string& key, std::string value) {
    if (key.empty() || key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " and a value of ",
                                                     value.size(), " bytes: at most ", kMaxKeyBytes,
                                                     " and ", kMaxValueBytes));
    }
    std::vector<GetReactor*> waiting;
    {
      const absl::MutexLock lock(&mutex_);
      const auto old = values_.find(key);
      const size_t freed = old == values_.end() ? 0 : key.size() + old->second.size();
      const size_t bytes = bytes_ - freed + key.size() + value.size();
      if (bytes > kMaxStoreBytes) {
        return absl::ResourceExhaustedError("the key-value store is full");
      }
      bytes_ = bytes;
      values_[key] = value;
      waiting = TakeWaiting(key);
    }
    for (GetReactor* reactor : waiting) reactor->Answer(value);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(const std::string& key) {
    const absl::MutexLock lock(&mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return absl::NotFoundError(absl::StrCat("no value for ", key));
    return found->second;
  }

  absl::StatusOr<std::string> WaitFor(const std::string& key, absl::Duration timeout) {
    const auto there = [&]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return values_.contains(key); };
    const absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&there), timeout)) {
      return absl::DeadlineExceededError(absl::StrCat("no value for ", key));
    }
    return values_.at(key);
  }

  // Answers now or when the key comes.
  void Wait(GetReactor* reactor) {
    std::optional<std::string> value;
    {
      const absl::MutexLock lock(&mutex_);
      const auto found = values_.find(reactor->key());
      if (found == values_.end() && !closed_) {
        waiting_.emplace(reactor->key(), reactor);
        return;
      }
      if (found != values_.end()) value = found->second;
    }
    if (!value) return reactor->Finish(grpc::Status(grpc::UNAVAILABLE, "shutting down"));
    reactor->Answer(*value);
  }

  // Takes a waiting call out; false when it is being answered already.
  bool Forget(GetReactor* reactor) {
    const absl::MutexLock lock(&mutex_);
    const auto [begin, end] = waiting_.equal_range(reactor->key());
    for (auto it = begin; it != end; ++it) {
      if (it->second != reactor) continue;
      waiting_.erase(it);
      return true;
    }
    return false;
  }

  void Close() {
    std::multimap<std::string, GetReactor*> waiting;
    {
      const absl::MutexLock lock(&mutex_);
      closed_ = true;
      waiting.swap(waiting_);
    }
    for (const auto& [key, reactor] : waiting) {
      reactor->Finish(grpc::Status(grpc::UNAVAILABLE, "shutting down"));
    }
  }

 private:
  std::vector<GetReactor*> TakeWaiting(const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<GetReactor*> taken;
    const auto [begin, end] = waiting_.equal_range(key);
    for (auto it = begin; it != end; ++it) taken.push_back(it->second);
    waiting_.erase(begin, end);
    return taken;
  }

  absl::Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  std::multimap<std::string, GetReactor*> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

void GetReactor::OnCancel() {
  if (store_->Forget(this)) Finish(grpc::Status(grpc::DEADLINE_EXCEEDED, "the key did not come"));
}

// Which tasks have pinged this one.
class PingBook {
 public:
  void Add(const std::string& task) {
    {
      const std::lock_guard lock(mutex_);
      if (task.empty() || seen_.size() >= kMaxPingers) return;
      if (!seen_.insert(task).second) return;
    }
    changed_.notify_all();
  }

  std::set<std::string> WaitFor(const std::set<std::string>& tasks, absl::Duration timeout,
                                std::stop_token stop) {
    std::unique_lock lock(mutex_);
    std::set<std::string> missing;
    changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(timeout), [&] {
      missing.clear();
      for (const std::string& task : tasks) {
        if (!seen_.contains(task)) missing.insert(task);
      }
      return missing.empty();
    });
    return missing;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> seen_;
};

// A call that a SessionHost answers when it likes.
template <typename Response>
class SessionReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit SessionReactor(Response* response) : response_(response) {}
  void OnCancel() override { cancelled_.request_stop(); }
  void OnDone() override { delete this; }
  std::stop_token cancelled() const { return cancelled_.get_token(); }
  SessionHost::Done<Response> done() {
    return [this](absl::StatusOr<Response> result) {
      if (result.ok()) *response_ = *std::move(result);
      Finish(ToGrpc(result.status()));
    };
  }

 private:
  Response* const response_;
  std::stop_source cancelled_;
};

class Service final : public rpc::TaskService::CallbackService {
 public:
  Service(const TaskServerOptions& options, KeyValueStore* store, PingBook* pings)
      : options_(options), store_(store), pings_(pings) {}

  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const rpc::PingRequest* request,
                                 rpc::PingResponse* response) override {
    if (request->task().size() <= kMaxKeyBytes) pings_->Add(request->task());
    response->set_task(base::TaskName(options_.task));
    response->set_incarnation(options_.incarnation);
    response->set_checking(options_.checking);
    return Finished(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context,
                                const rpc::PutRequest* request, rpc::PutResponse*) override {
    return Finished(context, store_->Put(request->key(), request->value()));
  }

  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const rpc::GetRequest* request,
                                rpc::GetResponse* response) override {
    if (context->deadline() == std::chrono::system_clock::time_point::max()) {
      return Finished(context, absl::InvalidArgumentError("Get needs a deadline"));
    }
    auto* const reactor = new GetReactor(store_, request->key(), response);
    store_->Wait(reactor);
    return reactor;
  }

  grpc::ServerUnaryReactor* StartSession(grpc::CallbackServerContext* context,
                                         const rpc::StartSessionRequest* request,
                                         rpc::StartSessionResponse* response) override {
    return Host(context, *request, response, &SessionHost::StartSession);
  }
  grpc::ServerUnaryReactor* RunSteps(grpc::CallbackServerContext* context,
                                     const rpc::RunStepsRequest* request,
                                     rpc::RunStepsResponse* response) override {
    return Host(context, *request, response, &SessionHost::RunSteps);
  }
  grpc::ServerUnaryReactor* EndSession(grpc::CallbackServerContext* context,
                                       const rpc::EndSessionRequest* request,
                                       rpc::EndSessionResponse* response) override {
    return Host(context, *request, response, &SessionHost::EndSession);
  }

 private:
  static grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context,
                                            const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Host(grpc::CallbackServerContext* context, const Request& request,
                                 Response* response,
                                 void (SessionHost::*method)(Request, std::stop_token,
                                                             SessionHost::Done<Response>)) {
    if (options_.sessions == nullptr) {
      return Finished(context, absl::FailedPreconditionError(absl::StrCat(
                                   base::TaskName(options_.task),
                                   " is no standing server; start it with `trainer serve`")));
    }
    auto* const reactor = new SessionReactor<Response>(response);
    (options_.sessions->*method)(request, reactor->cancelled(), reactor->done());
    return reactor;
  }

  const TaskServerOptions options_;
  KeyValueStore* const store_;
  PingBook* const pings_;
};

class TaskServerImpl final : public TaskServer {
 public:
  explicit TaskServerImpl(const TaskServerOptions& options)
      : options_(options), service_(options, &store_, &pings_) {}

  ~TaskServerImpl() override {
    store_.Close();
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    server_->Wait();
  }

  // False when the address cannot be had.
  bool Listen() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // Clients ask with HTTP/2 pings whether a long call is still alive (TaskChannel).
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.AddListeningPort(options_.listen_address, MakeServerCredentials(options_.tls.get()),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    return server_ != nullptr && port_ != 0;
  }

  int port() const override { return port_; }
  uint64_t incarnation() const override { return options_.incarnation; }
  absl::Status Put(const std::string& key, std::string value) override {
    return store_.Put(key, std::move(value));
  }
  absl::StatusOr<std::string> Get(const std::string& key) override { return store_.Get(key); }
  absl::StatusOr<std::string> WaitFor(const std::string& key, absl::Duration timeout) override {
    return store_.WaitFor(key, timeout);
  }
  std::set<std::string> WaitForPings(const std::set<std::string>& tasks, absl::Duration timeout,
                                     std::stop_token stop) override {
    return pings_.WaitFor(tasks, timeout, std::move(stop));
  }

 private:
  const TaskServerOptions options_;
  KeyValueStore store_;
  PingBook pings_;
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// gRPC says only that it could not; ask the kernel for the reason.
std::string WhyCannotListen(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
      error != 0) {
    return gai_strerror(error);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (socket < 0) return std::strerror(errno);
  const bool bound = ::bind(socket, found->ai_addr, found->ai_addrlen) == 0;
  const std::string reason = bound ? "the port was in use a moment ago" : std::strerror(errno);
  ::close(socket);
  return reason;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskServer>> TaskServer::Start(const TaskServerOptions& options) {
  TaskServerOptions complete = options;
  if (complete.incarnation == 0) complete.incarnation = base::RandomId();
  auto server = std::make_unique<TaskServerImpl>(complete);
  if (!server->Listen()) {
    return base::UsageError(absl::StrCat(base::TaskName(options.task), " cannot listen on ",
                                         options.listen_address, ": ",
                                         WhyCannotListen(options.listen_address)));
  }
  return server;
}

}  // namespace trainer
