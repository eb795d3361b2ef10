#include "operator/runtime/health_server.h"

#include <utility>

#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/runtime/http_endpoint.h"
#include "operator/runtime/metrics.h"

namespace runtime {
namespace {

constexpr int kAnswerThreads = 2;  // so that one slow client does not make a probe fail
constexpr char kText[] = "text/plain; charset=utf-8";

HttpEndpoint::Handler Page(std::string content_type, std::function<std::string()> text) {
  return [content_type = std::move(content_type), text = std::move(text)](const HttpRequest&) {
    return HttpAnswer{.body = text(), .content_type = content_type};
  };
}

// `check` may be empty.
HttpEndpoint::Handler Check(std::function<absl::Status()> check) {
  return [check = std::move(check)](const HttpRequest&) {
    const absl::Status status = check ? check() : absl::OkStatus();
    return HttpAnswer{
        .code = status.ok() ? 200 : 503,
        .body = status.ok() ? "ok\n" : base::StrCat(std::string(status.message()), "\n")};
  };
}

std::string ListOf(const HealthServerOptions& options) {
  std::string list;
  for (const auto& [name, page] : options.debug) list += "/debug/" + name + "\n";
  return list;
}

class HealthServerImpl : public HealthServer {
 public:
  absl::Status Start(const HealthServerOptions& options) {
    ASSIGN_OR_RETURN(const auto metrics,
                     ParseListenFlag(options.metrics_flag, options.metrics_address));
    ASSIGN_OR_RETURN(const auto probe, ParseListenFlag(options.probe_flag, options.probe_address));
    const bool is_one = metrics && probe && *metrics == *probe;
    if (metrics) {
      AddPages(options, Get(metrics_));
      if (is_one) AddChecks(options, *metrics_);
      RETURN_IF_ERROR(metrics_->Bind(*metrics, options.metrics_flag, options.metrics_address));
    }
    if (probe && !is_one) {
      AddChecks(options, Get(probe_));
      RETURN_IF_ERROR(probe_->Bind(*probe, options.probe_flag, options.probe_address));
    }
    if (metrics_) metrics_->Serve();
    if (probe_) probe_->Serve();
    probe_port_ = is_one ? metrics_port() : probe_ ? probe_->port() : 0;
    return absl::OkStatus();
  }

  int metrics_port() const override { return metrics_ ? metrics_->port() : 0; }
  int probe_port() const override { return probe_port_; }

 private:
  static HttpEndpoint& Get(std::unique_ptr<HttpEndpoint>& endpoint) {
    endpoint = std::make_unique<HttpEndpoint>(kAnswerThreads);
    return *endpoint;
  }

  static void AddPages(const HealthServerOptions& options, HttpEndpoint& endpoint) {
    if (options.metrics) endpoint.Handle("/metrics", Page(kMetricsContentType, options.metrics));
    endpoint.Handle("/debug/", Page(kText, [list = ListOf(options)] { return list; }));
    for (const auto& [name, page] : options.debug) {
      endpoint.Handle("/debug/" + name, Page(kText, page));
    }
  }

  static void AddChecks(const HealthServerOptions& options, HttpEndpoint& endpoint) {
    endpoint.Handle("/healthz", Check(options.alive));
    endpoint.Handle("/readyz", Check(options.ready));
  }

  std::unique_ptr<HttpEndpoint> metrics_;
  std::unique_ptr<HttpEndpoint> probe_;
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
