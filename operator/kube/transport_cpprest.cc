// The real transport: cpprestsdk's HTTP client (HTTP/1.1) with TLS of our own making. Each call
// waits on the calling thread with a deadline of its own, as the library knows only an idle time
// for all calls; the library's two threads never block. No exception leaves this file.
#include <utility>  // before Boost.Asio 1.74, which forgets it in C++20

#include <cpprest/http_client.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "operator/kube/config.h"
#include "operator/kube/cpprest_sink.h"
#include "operator/kube/exchange.h"
#include "operator/kube/tls.h"

namespace kube {
namespace {

using web::http::client::http_client;
using web::http::client::http_client_config;

constexpr size_t kThreads = 2;  // of the library; they only move bytes
constexpr size_t kMaxAnswerBytes = 128 << 20;
constexpr size_t kMaxErrorBytes = 1 << 20;       // of the answer that refuses a stream
constexpr auto kNever = std::chrono::hours(24);  // the library's own timeout
constexpr absl::Duration kRefusalInterval = absl::Seconds(5);

// The library's pool has 40 threads unless told otherwise before its first use.
void LimitThreads() {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      crossplat::threadpool::initialize_with_threads(kThreads);
    } catch (const std::exception&) {
      // Another part of the process was first; its pool serves as well.
    }
  });
}

std::map<std::string, std::string> LowerCased(const web::http::http_headers& headers) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : headers) out[absl::AsciiStrToLower(name)] = value;
  return out;
}

absl::Status FromException(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const web::http::http_exception& http) {
    const std::string code = http.error_code() ? http.error_code().message() : "";
    const std::string what = http.what();
    if (code.empty() || absl::StrContains(what, code)) return absl::UnavailableError(what);
    return absl::UnavailableError(absl::StrCat(what, ": ", code));
  } catch (const std::exception& other) {
    return absl::UnavailableError(other.what());
  } catch (...) {
    return absl::UnavailableError("the connection broke");
  }
}

// A kept-alive connection that the server had closed; the server has read nothing.
bool IsStale(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         (absl::StrContains(status.message(), "Failed to read HTTP status line") ||
          absl::StrContains(status.message(), "Failed to write request"));
}

// The library hands "[::1]" with its brackets to the resolver, which knows no such host.
absl::Status CheckHost(const web::uri& server) {
  if (server.host().front() != '[') return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("server \"", server.to_string(),
                   "\": an IPv6 address cannot be used here; use a host name instead (in a pod: "
                   "https://kubernetes.default.svc)"));
}

class CpprestTransport : public Transport {
 public:
  CpprestTransport(Config config, std::shared_ptr<Tls> tls)
      : config_(std::move(config)),
        tls_(std::move(tls)),
        client_(web::uri(config_.server), ClientConfig(config_, tls_)) {}

  absl::StatusOr<Response> Call(const Request& request, std::stop_token stop) override {
    const absl::Time deadline = absl::Now() + request.timeout;
    const auto once = [&] {
      return Run(request, kMaxAnswerBytes, /*stream=*/false,
                 [&](Exchange& exchange) { return exchange.Wait(deadline, stop); });
    };
    absl::StatusOr<Response> response = once();
    if (!response.ok() && request.method == "GET" && IsStale(response.status())) response = once();
    if (!ShouldTryAgain(response)) return response;
    return once();
  }

  absl::StatusOr<Response> Stream(const Request& request,
                                  const std::function<bool(std::string_view)>& on_data,
                                  std::stop_token stop) override {
    bool started = false;
    const auto note_start = [&](std::string_view piece) {
      started = true;
      return on_data(piece);
    };
    const auto once = [&] {
      return Run(request, kMaxErrorBytes, /*stream=*/true, [&](Exchange& exchange) {
        return exchange.Consume(request.timeout, note_start, stop);
      });
    };
    absl::StatusOr<Response> response = once();
    if (!response.ok() && !started && IsStale(response.status())) response = once();
    if (!ShouldTryAgain(response)) return response;
    return once();
  }

 private:
  static http_client_config ClientConfig(const Config& config, std::shared_ptr<Tls> tls);

  absl::StatusOr<web::http::http_request> Build(const Request& request) const;
  absl::Status Authorize(const std::string& bearer_token, web::http::http_request* request) const;
  // Sends the request and lets `wait` get the answer.
  absl::StatusOr<Response> Run(const Request& request, size_t max_body_bytes, bool stream,
                               const std::function<absl::StatusOr<Response>(Exchange&)>& wait);
  void Start(const std::shared_ptr<Exchange>& exchange, web::http::http_request request,
             const pplx::cancellation_token& cancel);
  absl::Status Explain(const Request& request, const absl::Status& status) const;
  // After a 401: whether there may be newer credentials. Not more often than each few seconds, as a
  // plug-in that gives bad ones would run for each call.
  bool ShouldTryAgain(const absl::StatusOr<Response>& response) ABSL_LOCKS_EXCLUDED(mutex_);

  // Constant.
  const Config config_;
  const std::shared_ptr<Tls> tls_;  // nullptr for http://
  // Own synchronisation.
  http_client client_;

  absl::Mutex mutex_;
  absl::Time last_refusal_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

http_client_config CpprestTransport::ClientConfig(const Config& config, std::shared_ptr<Tls> tls) {
  http_client_config out;
  out.set_timeout(kNever);
  out.set_max_redirects(0);  // the token is for this server only
  if (!config.proxy_url.empty()) out.set_proxy(web::web_proxy(web::uri(config.proxy_url)));
  if (tls == nullptr) return out;
  out.set_validate_certificates(!config.insecure);
  out.set_tlsext_sni_enabled(false);  // it would name the URL's host, whatever tls-server-name says
  out.set_ssl_context_callback(
      [tls](boost::asio::ssl::context& context) { tls->Configure(context.native_handle()); });
  out.set_nativehandle_options([tls](web::http::client::native_handle handle) {
    using TlsStream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;
    if (handle != nullptr) tls->NameServer(static_cast<TlsStream*>(handle)->native_handle());
  });
  return out;
}

absl::Status CpprestTransport::Authorize(const std::string& bearer_token,
                                         web::http::http_request* request) const {
  if (!bearer_token.empty()) {
    if (config_.key_pair || !config_.client_certificate_pem.empty()) {
      return absl::InvalidArgumentError(
          "a token of somebody else's needs a transport without a client certificate");
    }
    request->headers().add("Authorization", absl::StrCat("Bearer ", bearer_token));
    return absl::OkStatus();
  }
  if (config_.key_pair && tls_ != nullptr) {
    absl::StatusOr<KeyPair> pair = config_.key_pair();
    if (!pair.ok()) return absl::UnauthenticatedError(pair.status().message());
    if (!pair->certificate_pem.empty()) RETURN_IF_ERROR(tls_->SetKeyPair(*pair));
  }
  std::string token;
  if (config_.token) {
    absl::StatusOr<std::string> now = config_.token();
    if (!now.ok()) return absl::UnauthenticatedError(now.status().message());
    token = *std::move(now);
  }
  if (!token.empty()) {
    request->headers().add("Authorization", absl::StrCat("Bearer ", token));
  } else if (!config_.username.empty()) {
    request->headers().add("Authorization",
                           absl::StrCat("Basic ", absl::Base64Escape(absl::StrCat(
                                                      config_.username, ":", config_.password))));
  }
  return absl::OkStatus();
}

absl::StatusOr<web::http::http_request> CpprestTransport::Build(const Request& request) const {
  try {
    web::http::http_request out(request.method);
    out.set_request_uri(web::uri(request.path));
    if (!request.content_type.empty()) out.set_body(request.body, request.content_type);
    out.headers().add("Accept", "application/json");
    out.headers().add("User-Agent", request.user_agent.empty() ? "trainyard" : request.user_agent);
    RETURN_IF_ERROR(Authorize(request.bearer_token, &out));
    return out;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.method, " ", request.path, " is no request: ", error.what()));
  }
}

void CpprestTransport::Start(const std::shared_ptr<Exchange>& exchange,
                             web::http::http_request request,
                             const pplx::cancellation_token& cancel) {
  const auto finished = [exchange](const pplx::task<web::http::http_response>& answer) {
    try {
      answer.get();
      exchange->Finish(absl::OkStatus());
    } catch (...) {
      exchange->Finish(FromException(std::current_exception()));
    }
  };
  const auto has_headers = [exchange, finished](const pplx::task<web::http::http_response>& begun) {
    try {
      const web::http::http_response response = begun.get();
      exchange->Headers(response.status_code(), LowerCased(response.headers()));
      response.content_ready().then(finished);
    } catch (...) {
      exchange->Finish(FromException(std::current_exception()));
    }
  };
  try {
    client_.request(std::move(request), cancel).then(has_headers);
  } catch (...) {
    exchange->Finish(FromException(std::current_exception()));
  }
}

absl::StatusOr<Response> CpprestTransport::Run(
    const Request& request, size_t max_body_bytes, bool stream,
    const std::function<absl::StatusOr<Response>(Exchange&)>& wait) {
  ASSIGN_OR_RETURN(web::http::http_request http, Build(request));
  auto exchange = std::make_shared<Exchange>(stream, max_body_bytes);
  http.set_response_stream(concurrency::streams::ostream(SinkHandle(exchange)));
  pplx::cancellation_token_source cancel;
  Start(exchange, std::move(http), cancel.get_token());
  absl::StatusOr<Response> response = wait(*exchange);
  if (stream || !response.ok()) {  // the connection is of no use to another call
    exchange->Abandon();
    cancel.cancel();
  }
  if (!response.ok()) return Explain(request, response.status());
  return response;
}

absl::Status CpprestTransport::Explain(const Request& request, const absl::Status& status) const {
  std::string why(status.message());
  if (tls_ != nullptr && absl::StrContains(why, "SSL handshake")) {
    const std::string tls_error = tls_->last_error();
    if (!tls_error.empty()) absl::StrAppend(&why, ": ", tls_error);
  }
  if (absl::IsDeadlineExceeded(status)) {
    absl::StrAppend(&why, " (", absl::FormatDuration(request.timeout), ")");
  }
  return {status.code(), absl::StrCat(config_.server, ": ", why)};
}

bool CpprestTransport::ShouldTryAgain(const absl::StatusOr<Response>& response) {
  if (!response.ok() || response->code != 401 || !config_.refused) return false;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    if (now - last_refusal_ < kRefusalInterval) return false;
    last_refusal_ = now;
  }
  config_.refused();
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Transport>> MakeTransport(Config config) {
  LimitThreads();
  try {
    const web::uri server(config.server);
    const bool secure = server.scheme() == "https";
    if ((!secure && server.scheme() != "http") || server.host().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server \"", config.server, "\": not of the form https://host:port or http://host:port"));
    }
    RETURN_IF_ERROR(CheckHost(server));
    if (config.tls_server_name.empty()) config.tls_server_name = server.host();
    std::shared_ptr<Tls> tls;
    if (secure) {
      ASSIGN_OR_RETURN(tls, Tls::Create(config, config.tls_server_name));
    }
    return std::make_shared<CpprestTransport>(std::move(config), std::move(tls));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("server \"", config.server, "\": ", error.what()));
  }
}

}  // namespace kube
