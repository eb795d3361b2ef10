#include "operator/runtime/http_endpoint.h"

#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"

namespace runtime {
namespace {

constexpr size_t kMostWaiting = 64;  // accepted connections that no thread answers yet
constexpr int kBacklog = 256;        // connections that nobody has accepted yet

// Whether this machine can listen on [::]; containers without IPv6 cannot.
bool HasIpv6() {
  const int socket = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  const bool bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  (void)::close(socket);
  return bound;
}

// Threads for accepted connections. While too many wait, enqueue() does: then the kernel's own
// queue fills up, and further clients are refused there. Every connection that was taken is brought
// to its end, also at the shutdown, as only its task closes it. Thread-safe.
class BoundedPool : public httplib::TaskQueue {
 public:
  explicit BoundedPool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  void enqueue(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &BoundedPool::HasRoom));
    tasks_.push_back(std::move(task));
  }

  void shutdown() override {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  bool HasRoom() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return tasks_.size() < kMostWaiting; }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ended_ || !tasks_.empty(); }

  void Work() {
    while (true) {
      std::function<void()> task;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &BoundedPool::HasWork));
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

HttpRequest RequestOf(const httplib::Request& request) {
  HttpRequest out{.authorization = request.get_header_value("Authorization")};
  for (const auto& [name, value] : request.params) out.parameters.emplace(name, value);
  return out;
}

}  // namespace

class HttpEndpoint::Server {
 public:
  explicit Server(int threads) {
    server_.new_task_queue = [threads] { return new BoundedPool(threads); };
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(std::chrono::seconds(2));
    server_.set_write_timeout(std::chrono::seconds(5));
    server_.set_payload_max_length(1024);
    server_.set_socket_options([this](socket_t socket) {
      socket_ = socket;
      const int yes = 1;
      const int no = 0;
      // Not SO_REUSEPORT, the library's own choice: two processes would each get half the requests.
      (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      // [::] is for IPv4, too. Fails on sockets of IPv4, which do not need it.
      (void)::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    });
  }

  ~Server() {
    if (!thread_.joinable()) return;
    // A server can be stopped only once its loop runs, which is a moment after its thread's start.
    while (!server_.is_running() && !has_ended_) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }

  void Handle(const std::string& path, Handler handler) {
    server_.Get(path, [handler = std::move(handler)](const httplib::Request& request,
                                                     httplib::Response& response) {
      HttpAnswer answer = handler(RequestOf(request));
      response.status = answer.code;
      for (const auto& [name, value] : answer.headers) response.set_header(name, value);
      response.set_content(std::move(answer.body), answer.content_type);
    });
  }

  bool Bind(const ListenAddress& address) {
    const std::string host =
        !address.host.empty() ? address.host : std::string(HasIpv6() ? "::" : "0.0.0.0");
    if (address.port == 0) {
      port_ = server_.bind_to_any_port(host);
    } else {
      port_ = server_.bind_to_port(host, address.port) ? address.port : -1;
    }
    // The library's own 5 are soon full. Who comes then is asked again, 1 to 31 s later.
    return port_ > 0 && ::listen(socket_, kBacklog) == 0;
  }

  void Serve() {
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      has_ended_ = true;
    });
  }

  int port() const { return port_; }

 private:
  httplib::Server server_;
  socket_t socket_ = INVALID_SOCKET;  // the one that was made last, which is the one that is bound
  int port_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

HttpEndpoint::HttpEndpoint(int threads) : server_(std::make_unique<Server>(threads)) {}
HttpEndpoint::~HttpEndpoint() = default;
void HttpEndpoint::Handle(const std::string& path, Handler handler) {
  server_->Handle(path, std::move(handler));
}
absl::Status HttpEndpoint::Bind(const ListenAddress& address, const std::string& flag,
                                const std::string& value) {
  if (server_->Bind(address)) return absl::OkStatus();
  return base::UsageError(base::StrCat(
      flag, ": cannot listen on ", value,
      "; is the port in use, or the address not of this machine? Choose another, or \"0\" for "
      "none"));
}
void HttpEndpoint::Serve() { server_->Serve(); }
int HttpEndpoint::port() const { return server_->port(); }

}  // namespace runtime
