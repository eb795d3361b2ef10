// Finds the configuration and turns it into a Config: reads the files that a kubeconfig names,
// starts token files and plug-ins.
#include "operator/kube/config.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "operator/kube/config_environment.h"
#include "operator/kube/credentials.h"
#include "operator/kube/kubeconfig.h"

namespace kube {
namespace {

// The PEM text of a field; `file` is the kubeconfig's path.
absl::StatusOr<std::string> ReadPem(const std::string& file, const FileOrData& from,
                                    const std::string& block) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", from.field, ": ", what));
  };
  if (from.empty()) return "";
  std::string text = from.data;
  if (!from.path.empty()) {
    absl::StatusOr<std::string> read = ReadSmallFile(from.path);
    if (!read.ok()) return bad(std::string(read.status().message()));
    text = *std::move(read);
  }
  if (absl::StrContains(text, "-----BEGIN ") && absl::StrContains(text, block)) return text;
  return bad(absl::StrCat(from.path, from.path.empty() ? "" : ": ", "holds no PEM ", block));
}

void UseTokenFile(const std::string& path, base::Clock* clock, Config* config) {
  const auto token_file = std::make_shared<TokenFile>(path, clock);
  config->token = [token_file] { return token_file->Get(); };
  config->refused = [token_file] { token_file->Forget(); };
}

void UsePlugin(const std::string& file, const KubeContext& context, base::Clock* clock,
               Config* config) {
  ExecSpec spec = context.exec;
  spec.field = absl::StrCat(file, ": ", spec.field);
  const std::string info = ExecInfo(spec, context, config->ca_pem);
  const auto plugin = std::make_shared<ExecPlugin>(std::move(spec), info, clock);
  config->token = [plugin]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const ExecCredential credential, plugin->Get());
    return credential.token;
  };
  config->key_pair = [plugin]() -> absl::StatusOr<KeyPair> {
    ASSIGN_OR_RETURN(const ExecCredential credential, plugin->Get());
    return credential.pair;
  };
  config->refused = [plugin] { plugin->Forget(); };
}

absl::StatusOr<Config> FromKubeconfig(const std::string& file, const std::string& context_name,
                                      const ConfigEnvironment& environment) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file));
  ASSIGN_OR_RETURN(const KubeContext context, ReadKubeconfig(file, text, context_name));
  Config config;
  config.origin = absl::StrCat("kubeconfig ", file);
  if (!context_name.empty()) absl::StrAppend(&config.origin, ", context ", context_name);
  config.server = context.server;
  config.insecure = context.insecure;
  config.tls_server_name = context.tls_server_name;
  config.proxy_url = context.proxy_url;
  config.ns = context.ns;
  config.username = context.username;
  config.password = context.password;
  ASSIGN_OR_RETURN(config.ca_pem, ReadPem(file, context.ca, "CERTIFICATE"));
  ASSIGN_OR_RETURN(config.client_certificate_pem,
                   ReadPem(file, context.client_certificate, "CERTIFICATE"));
  ASSIGN_OR_RETURN(config.client_key_pem, ReadPem(file, context.client_key, "PRIVATE KEY"));
  if (!context.exec.command.empty()) {
    UsePlugin(file, context, environment.clock, &config);
  } else if (!context.token_file.empty()) {
    UseTokenFile(context.token_file, environment.clock, &config);
  } else if (!context.token.empty()) {
    config.token = [token = context.token] { return token; };
  }
  return config;
}

absl::StatusOr<Config> InCluster(const ConfigEnvironment& environment) {
  const std::string host = environment.getenv("KUBERNETES_SERVICE_HOST");
  const std::string port = environment.getenv("KUBERNETES_SERVICE_PORT");
  if (port.empty()) {
    return absl::InvalidArgumentError(
        "KUBERNETES_SERVICE_PORT: is not set, though KUBERNETES_SERVICE_HOST is");
  }
  Config config;
  config.origin = "the service account of this pod";
  // The HTTP library takes no IPv6 address; the service's name means the same in every cluster.
  const bool ipv6 = absl::StrContains(host, ":");
  config.server = absl::StrCat("https://", ipv6 ? "kubernetes.default.svc" : host, ":", port);
  const std::string& folder = environment.service_account;
  const std::string ca = absl::StrCat(folder, "/ca.crt");
  ASSIGN_OR_RETURN(config.ca_pem, ReadSmallFile(ca));
  if (!absl::StrContains(config.ca_pem, "-----BEGIN CERTIFICATE")) {
    return absl::InvalidArgumentError(absl::StrCat(ca, ": holds no PEM CERTIFICATE"));
  }
  UseTokenFile(absl::StrCat(folder, "/token"), environment.clock, &config);
  RETURN_IF_ERROR(config.token().status());
  const absl::StatusOr<std::string> ns = ReadSmallFile(absl::StrCat(folder, "/namespace"));
  if (ns.ok()) config.ns = std::string(absl::StripAsciiWhitespace(*ns));
  return config;
}

// $KUBECONFIG may be a list; the first that exists is read, or else the first, to say that it is
// missing.
std::string FirstOf(const std::string& list) {
  std::string first;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    const std::string path = list.substr(at, end - at);
    at = end + 1;
    if (path.empty()) continue;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
    if (first.empty()) first = path;
  }
  return first;
}

absl::StatusOr<Config> Find(const ConfigSource& source, const ConfigEnvironment& environment) {
  if (!source.kubeconfig.empty()) {
    return FromKubeconfig(source.kubeconfig, source.context, environment);
  }
  const std::string from_variable = FirstOf(environment.getenv("KUBECONFIG"));
  if (!from_variable.empty()) return FromKubeconfig(from_variable, source.context, environment);
  const bool in_cluster = !environment.getenv("KUBERNETES_SERVICE_HOST").empty();
  if (in_cluster && source.context.empty()) return InCluster(environment);
  const std::string home = environment.getenv("HOME");
  const std::string at_home = absl::StrCat(home, "/.kube/config");
  std::error_code ignored;
  if (!home.empty() && std::filesystem::exists(at_home, ignored)) {
    return FromKubeconfig(at_home, source.context, environment);
  }
  if (!source.master.empty() && source.context.empty()) return Config{};  // no credentials
  return absl::InvalidArgumentError(
      "no API server: not in a pod (KUBERNETES_SERVICE_HOST is not set), no $KUBECONFIG, no "
      "~/.kube/config; give --kubeconfig or --master");
}

}  // namespace

absl::StatusOr<Config> LoadConfigFrom(const ConfigSource& source,
                                      const ConfigEnvironment& environment) {
  ASSIGN_OR_RETURN(Config config, Find(source, environment));
  if (source.master.empty()) return config;
  if (!absl::StartsWith(source.master, "https://") && !absl::StartsWith(source.master, "http://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--master: \"", source.master, "\" does not begin with https:// or http://"));
  }
  config.server = source.master;
  config.origin = config.origin.empty() ? "--master" : config.origin + ", --master";
  return config;
}

absl::StatusOr<Config> LoadConfig(const ConfigSource& source) {
  ConfigEnvironment environment;
  environment.getenv = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  return LoadConfigFrom(source, environment);
}

Config WithoutCredentials(Config config) {
  return {.server = std::move(config.server),
          .ca_pem = std::move(config.ca_pem),
          .insecure = config.insecure,
          .tls_server_name = std::move(config.tls_server_name),
          .proxy_url = std::move(config.proxy_url),
          .origin = std::move(config.origin)};
}

}  // namespace kube
