#include "trainer/ps/task_tls.h"

#include <atomic>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <utility>

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/task_tls.h"

namespace trainer {
namespace {

constexpr absl::Duration kWarnEvery = absl::Seconds(10);
constexpr char kPlainText[] = "it speaks plain text where this job's tasks speak TLS";
constexpr char kOtherAuthority[] = "its certificate is not of this job";

absl::StatusOr<std::string> ReadPem(const std::string& dir, const char* name) {
  const std::string path = absl::StrCat(dir, "/", name);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good()) {
    return base::UsageError(absl::StrCat("--tls_dir: cannot read ", path,
                                         ", a file of the job's certificate; is its Secret "
                                         "mounted there?"));
  }
  if (!absl::StrContains(text.str(), "-----BEGIN ")) {
    return base::UsageError(absl::StrCat("--tls_dir: ", path, " is no PEM file"));
  }
  return text.str();
}

bool HasAny(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (absl::StrContains(text, part)) return true;
  }
  return false;
}

// OpenSSL's words, of either end, for what came where a TLS record was expected.
bool IsPlainText(const std::string& text) {
  return HasAny(text, {"wrong version number", "http request", "packet length", "UNKNOWN_PROTOCOL",
                       "WRONG_VERSION_NUMBER"});
}
bool IsNoCertificate(const std::string& text) {
  return HasAny(text, {"did not return a certificate", "PEER_DID_NOT_RETURN_A_CERTIFICATE"});
}
bool IsOtherAuthority(const std::string& text) {
  return HasAny(text, {"certificate verify failed", "CERTIFICATE_VERIFY_FAILED", "unknown ca"});
}

// Why a server turns connections away, as it is seen in gRPC's log line about one.
struct Refusal {
  bool (*is)(const std::string& line);
  const char* why;
  std::atomic<int64_t> next_warning = 0;  // in seconds since 1970
};

// Each reason is told at most so often, however many strangers knock.
void TellRefusal(const std::string& line) {
  static Refusal refusals[] = {{IsPlainText, kPlainText},
                               {IsNoCertificate, "it showed no certificate"},
                               {IsOtherAuthority, kOtherAuthority}};
  if (!absl::StrContains(line, "andshake")) return;
  for (Refusal& refusal : refusals) {
    if (!refusal.is(line)) continue;
    const int64_t now = absl::ToUnixSeconds(absl::Now());
    int64_t next = refusal.next_warning;
    if (now < next || !refusal.next_warning.compare_exchange_strong(
                          next, now + absl::ToInt64Seconds(kWarnEvery))) {
      return;
    }
    return base::LogWarning("refused a connection", {{"why", refusal.why}});
  }
}

// gRPC's own log lines go where ours go; what matters of them is in our messages.
void LogOfGrpc(gpr_log_func_args* line) {
  TellRefusal(line->message);
  base::LogDebug("gRPC says", {{"err", line->message}});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TaskTls>> TaskTls::Load(const std::string& dir) {
  ASSIGN_OR_RETURN(std::string authority, ReadPem(dir, base::kTaskTlsAuthority));
  ASSIGN_OR_RETURN(std::string certificate, ReadPem(dir, base::kTaskTlsCertificate));
  ASSIGN_OR_RETURN(std::string key, ReadPem(dir, base::kTaskTlsKey));
  return std::make_shared<const TaskTls>(std::move(authority), std::move(certificate),
                                         std::move(key));
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           grpc::ChannelArguments arguments, const TaskTls* tls) {
  gpr_set_log_function(LogOfGrpc);
  if (tls == nullptr) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  // A task is known by its job's authority, not by where it runs.
  arguments.SetSslTargetNameOverride(base::kTaskTlsName);
  return grpc::CreateCustomChannel(
      address, grpc::SslCredentials({tls->authority_, tls->key_, tls->certificate_}), arguments);
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TaskTls* tls) {
  gpr_set_log_function(LogOfGrpc);
  if (tls == nullptr) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls->authority_;
  options.pem_key_cert_pairs.push_back({tls->key_, tls->certificate_});
  return grpc::SslServerCredentials(options);
}

std::string TlsTrouble(const absl::Status& status, const TaskTls* tls) {
  const std::string text(status.message());
  if (tls != nullptr) {
    if (IsPlainText(text)) return kPlainText;
    if (IsOtherAuthority(text)) return kOtherAuthority;
    if (HasAny(text, {"andshake", "SSL"})) return absl::StrCat("TLS: ", text);
    return "";
  }
  if (!absl::IsUnavailable(status)) return "";
  if (HasAny(text, {"Socket closed", "Connection reset", "read failed", "GOAWAY"})) {
    return "it closed the connection; perhaps it speaks TLS: give this task --tls_dir";
  }
  return "";
}

}  // namespace trainer
