#include "operator/kube/credentials.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "operator/kube/subprocess.h"

namespace kube {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", strerror(errno)));
  }
  std::string text;
  char piece[4096];
  while (file.read(piece, sizeof(piece)), file.gcount() > 0) {
    text.append(piece, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": larger than ", kMaxFileBytes, " bytes"));
    }
  }
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  return text;
}

absl::StatusOr<std::string> TokenFile::Get() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  if (now - read_at_ < kMaxAge && !token_.empty()) return token_;
  absl::StatusOr<std::string> text = ReadSmallFile(path_);
  std::string token = text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
  if (!token.empty()) {
    token_ = std::move(token);
    read_at_ = now;
    return token_;
  }
  if (!token_.empty()) return token_;  // being replaced just now, or gone: the server will tell
  if (!text.ok()) return text.status();
  return absl::InvalidArgumentError(absl::StrCat(path_, ": the token file is empty"));
}

void TokenFile::Forget() {
  absl::MutexLock lock(&mutex_);
  read_at_ = absl::InfinitePast();
}

absl::StatusOr<ExecCredential> ParseExecCredential(const ExecSpec& spec, std::string_view output) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(spec.field, ": ", spec.command, ": ", what));
  };
  const Json json = Json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bad("its output is no ExecCredential: not a JSON object");
  if (base::StringAt(json, "kind") != "ExecCredential")
    return bad("its output's kind is no ExecCredential");
  if (base::StringAt(json, "apiVersion") != spec.api_version) {
    return bad(absl::StrCat("its output's apiVersion is \"", base::StringAt(json, "apiVersion"),
                            "\", the kubeconfig says ", spec.api_version));
  }
  const auto status = json.find("status");
  if (status == json.end() || !status->is_object()) return bad("its output has no status");
  ExecCredential out;
  out.token = base::StringAt(*status, "token");
  out.pair = {base::StringAt(*status, "clientCertificateData"),
              base::StringAt(*status, "clientKeyData")};
  if (out.pair.certificate_pem.empty() != out.pair.key_pem.empty()) {
    return bad("its output has only one of clientCertificateData and clientKeyData");
  }
  if (out.token.empty() && out.pair.key_pem.empty()) {
    return bad("its output has neither token nor client certificate");
  }
  const std::string expires = base::StringAt(*status, "expirationTimestamp");
  std::string error;
  if (!expires.empty() && !absl::ParseTime(absl::RFC3339_full, expires, &out.expires, &error)) {
    return bad(absl::StrCat("its output's expirationTimestamp \"", expires, "\": ", error));
  }
  return out;
}

std::string ExecInfo(const ExecSpec& spec, const KubeContext& context, const std::string& ca_pem) {
  Json info = {{"apiVersion", spec.api_version},
               {"kind", "ExecCredential"},
               {"spec", {{"interactive", false}}}};
  if (spec.provide_cluster_info) {
    Json& cluster = info["spec"]["cluster"];
    cluster["server"] = context.server;
    if (!ca_pem.empty()) cluster["certificate-authority-data"] = absl::Base64Escape(ca_pem);
    if (context.insecure) cluster["insecure-skip-tls-verify"] = true;
    if (!context.tls_server_name.empty()) cluster["tls-server-name"] = context.tls_server_name;
    if (!context.proxy_url.empty()) cluster["proxy-url"] = context.proxy_url;
    cluster["config"] = nullptr;
  }
  return info.dump();
}

absl::StatusOr<ExecCredential> ExecPlugin::Run() const {
  std::vector<std::string> argv = {spec_.command};
  argv.insert(argv.end(), spec_.args.begin(), spec_.args.end());
  auto env = spec_.env;
  env.emplace_back("KUBERNETES_EXEC_INFO", exec_info_);
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(spec_.field, ": ", spec_.command, ": ", what,
                                                   spec_.install_hint.empty() ? "" : "\n",
                                                   spec_.install_hint));
  };
  const absl::StatusOr<ProcessResult> result = RunProcess(argv, env, timeout_);
  if (absl::IsDeadlineExceeded(result.status())) {
    return bad(absl::StrCat("was not done after ", absl::FormatDuration(timeout_)));
  }
  if (!result.ok()) return bad(absl::StrCat("cannot run: ", result.status().message()));
  if (result->exit_code != 0) {
    return bad(absl::StrCat("ended with exit code ", result->exit_code, ": ",
                            absl::StripAsciiWhitespace(result->err)));
  }
  return ParseExecCredential(spec_, result->out);
}

absl::StatusOr<ExecCredential> ExecPlugin::Get() {
  absl::MutexLock lock(&mutex_);
  if (clock_->Now() < due_) return last_;
  absl::StatusOr<ExecCredential> next = Run();
  const absl::Time now = clock_->Now();
  if (next.ok()) {
    due_ = std::max(next->expires - kEarly, now + kFailurePause);
    last_ = std::move(next);
    return last_;
  }
  due_ = now + kFailurePause;
  if (!last_.ok() || last_->expires <= now) last_ = std::move(next);
  return last_;
}

void ExecPlugin::Forget() {
  absl::MutexLock lock(&mutex_);
  due_ = absl::InfinitePast();
}

}  // namespace kube
