#include "operator/runtime/health_server.h"

#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/runtime/metrics.h"

namespace runtime {
namespace {

constexpr int kAnswerThreads = 2;  // so that one slow client does not make a probe fail
constexpr char kText[] = "text/plain; charset=utf-8";

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

// One address that is listened on.
class Endpoint {
 public:
  Endpoint() {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kAnswerThreads); };
    // A connection is closed after its answer, and one that sends nothing soon: a client that stays
    // away keeps no thread.
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(std::chrono::seconds(2));
    server_.set_write_timeout(std::chrono::seconds(5));
    server_.set_payload_max_length(1024);
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      const int no = 0;
      // Not SO_REUSEPORT, the library's own choice: two processes would each get half the requests.
      (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      // [::] is for IPv4, too. Fails on sockets of IPv4, which do not need it.
      (void)::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    });
  }

  ~Endpoint() {
    if (!thread_.joinable()) return;
    // A server can be stopped only once its loop runs, which is a moment after its thread's start.
    while (!server_.is_running() && !has_ended_) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }

  void AddPage(const std::string& path, std::string content_type,
               std::function<std::string()> text) {
    server_.Get(path, [content_type = std::move(content_type), text = std::move(text)](
                          const httplib::Request&, httplib::Response& response) {
      response.set_content(text(), content_type);
    });
  }

  // `check` may be empty.
  void AddCheck(const std::string& path, std::function<absl::Status()> check) {
    server_.Get(
        path, [check = std::move(check)](const httplib::Request&, httplib::Response& response) {
          const absl::Status status = check ? check() : absl::OkStatus();
          response.status = status.ok() ? 200 : 503;
          response.set_content(
              status.ok() ? "ok\n" : base::StrCat(std::string(status.message()), "\n"), kText);
        });
  }

  // Takes the port; returns whether it could.
  bool Bind(const ListenAddress& address) {
    const std::string host =
        !address.host.empty() ? address.host : std::string(HasIpv6() ? "::" : "0.0.0.0");
    if (address.port == 0) {
      port_ = server_.bind_to_any_port(host);
    } else {
      port_ = server_.bind_to_port(host, address.port) ? address.port : -1;
    }
    return port_ > 0;
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
  int port_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

std::string ListOf(const HealthServerOptions& options) {
  std::string list;
  for (const auto& [name, page] : options.debug) list += "/debug/" + name + "\n";
  return list;
}

class HealthServerImpl : public HealthServer {
 public:
  absl::Status Start(const HealthServerOptions& options) {
    ASSIGN_OR_RETURN(const auto metrics, Parse(options.metrics_flag, options.metrics_address));
    ASSIGN_OR_RETURN(const auto probe, Parse(options.probe_flag, options.probe_address));
    const bool is_one = metrics && probe && *metrics == *probe;
    if (metrics) {
      AddPages(options, Get(metrics_));
      if (is_one) AddChecks(options, *metrics_);
      RETURN_IF_ERROR(Bind(*metrics_, *metrics, options.metrics_flag, options.metrics_address));
    }
    if (probe && !is_one) {
      AddChecks(options, Get(probe_));
      RETURN_IF_ERROR(Bind(*probe_, *probe, options.probe_flag, options.probe_address));
    }
    if (metrics_) metrics_->Serve();
    if (probe_) probe_->Serve();
    probe_port_ = is_one ? metrics_port() : probe_ ? probe_->port() : 0;
    return absl::OkStatus();
  }

  int metrics_port() const override { return metrics_ ? metrics_->port() : 0; }
  int probe_port() const override { return probe_port_; }

 private:
  static absl::StatusOr<std::optional<ListenAddress>> Parse(const std::string& flag,
                                                            const std::string& text) {
    absl::StatusOr<std::optional<ListenAddress>> address = ParseListenAddress(text);
    if (address.ok()) return address;
    return base::UsageError(base::StrCat(flag, ": ", std::string(address.status().message())));
  }

  static Endpoint& Get(std::unique_ptr<Endpoint>& endpoint) {
    endpoint = std::make_unique<Endpoint>();
    return *endpoint;
  }

  static void AddPages(const HealthServerOptions& options, Endpoint& endpoint) {
    if (options.metrics) endpoint.AddPage("/metrics", kMetricsContentType, options.metrics);
    endpoint.AddPage("/debug/", kText, [list = ListOf(options)] { return list; });
    for (const auto& [name, page] : options.debug) endpoint.AddPage("/debug/" + name, kText, page);
  }

  static void AddChecks(const HealthServerOptions& options, Endpoint& endpoint) {
    endpoint.AddCheck("/healthz", options.alive);
    endpoint.AddCheck("/readyz", options.ready);
  }

  static absl::Status Bind(Endpoint& endpoint, const ListenAddress& address,
                           const std::string& flag, const std::string& text) {
    if (endpoint.Bind(address)) return absl::OkStatus();
    return base::UsageError(base::StrCat(
        flag, ": cannot listen on ", text,
        "; is the port in use, or the address not of this machine? Choose another, or \"0\" for "
        "none"));
  }

  std::unique_ptr<Endpoint> metrics_;
  std::unique_ptr<Endpoint> probe_;
  int probe_port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(
    const HealthServerOptions& options) {
  auto server = std::make_unique<HealthServerImpl>();
  RETURN_IF_ERROR(server->Start(options));
  return server;
}

}  // namespace runtime
