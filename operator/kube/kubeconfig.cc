#include "operator/kube/kubeconfig.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "operator/kube/yaml_strings.h"

namespace kube {
namespace {

using Json = nlohmann::json;

// One map of the kubeconfig with the path that leads to it, so that every message can name its
// field.
class Section {
 public:
  Section(std::string file, std::string path, const Json& map)
      : file_(std::move(file)), path_(std::move(path)), map_(map) {}

  std::string Field(const std::string& key) const {
    return path_.empty() ? key : absl::StrCat(path_, ".", key);
  }
  absl::Status Bad(const std::string& key, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", Field(key), ": ", what));
  }
  bool Has(const std::string& key) const { return map_.contains(key) && !map_[key].is_null(); }

  absl::StatusOr<std::string> Text(const std::string& key) const {
    if (!Has(key)) return "";
    if (!map_[key].is_string()) return Bad(key, "must be text");
    return map_[key].get<std::string>();
  }

  absl::StatusOr<bool> Flag(const std::string& key) const {
    ASSIGN_OR_RETURN(const std::string text, Text(key));
    if (text.empty() || text == "false") return false;
    if (text == "true") return true;
    return Bad(key, absl::StrCat("\"", text, "\" is neither true nor false"));
  }

  absl::StatusOr<std::vector<std::string>> Texts(const std::string& key) const {
    std::vector<std::string> out;
    if (!Has(key)) return out;
    if (!map_[key].is_array()) return Bad(key, "must be a list of text");
    for (const Json& entry : map_[key]) {
      if (!entry.is_string()) return Bad(key, "must be a list of text");
      out.push_back(entry.get<std::string>());
    }
    return out;
  }

  // `key` as a path relative to the kubeconfig's folder, or `key`-data in base64; data wins.
  absl::StatusOr<FileOrData> Pem(const std::string& key) const {
    FileOrData out;
    const std::string data_key = absl::StrCat(key, "-data");
    ASSIGN_OR_RETURN(const std::string encoded, Text(data_key));
    if (!encoded.empty()) {
      out.field = Field(data_key);
      if (!absl::Base64Unescape(encoded, &out.data)) return Bad(data_key, "is no base64");
      return out;
    }
    ASSIGN_OR_RETURN(out.path, Path(key));
    out.field = Field(key);
    return out;
  }

  absl::StatusOr<std::string> Path(const std::string& key) const {
    ASSIGN_OR_RETURN(const std::string path, Text(key));
    return path.empty() ? path : Beside(path);
  }

  // A relative path counts from the kubeconfig's folder.
  std::string Beside(const std::string& path) const {
    return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
  }

  // The map at `key`.
  absl::StatusOr<Section> Inner(const std::string& key) const {
    if (!Has(key) || !map_[key].is_object()) return Bad(key, "must be a map");
    return Section(file_, Field(key), map_[key]);
  }

  // `list`[name].`key`: clusters, users and contexts are lists of {name, KEY: {…}}.
  absl::StatusOr<Section> Named(const std::string& list, const std::string& name,
                                const std::string& key) const {
    std::vector<std::string> known;
    if (Has(list) && !map_[list].is_array()) return Bad(list, "must be a list");
    static const Json kNone = Json::array();
    for (const Json& entry : Has(list) ? map_[list] : kNone) {
      if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string()) {
        return Bad(list, "each entry needs a name");
      }
      known.push_back(entry["name"].get<std::string>());
      if (known.back() != name) continue;
      const std::string path = absl::StrCat(list, "[\"", name, "\"]");
      if (!entry.contains(key) || !entry[key].is_object()) {
        return Section(file_, path, entry).Bad(key, "must be a map");
      }
      return Section(file_, absl::StrCat(path, ".", key), entry[key]);
    }
    return Bad(list, absl::StrCat("has no \"", name, "\"; there are: ",
                                  known.empty() ? "none" : absl::StrJoin(known, ", ")));
  }

  const Json& map() const { return map_; }

 private:
  std::string file_;
  std::string path_;
  const Json& map_;
};

absl::Status ReadCluster(const Section& cluster, KubeContext* out) {
  ASSIGN_OR_RETURN(out->server, cluster.Text("server"));
  if (!absl::StartsWith(out->server, "https://") && !absl::StartsWith(out->server, "http://")) {
    return cluster.Bad(
        "server", absl::StrCat("\"", out->server, "\" does not begin with https:// or http://"));
  }
  ASSIGN_OR_RETURN(out->ca, cluster.Pem("certificate-authority"));
  ASSIGN_OR_RETURN(out->insecure, cluster.Flag("insecure-skip-tls-verify"));
  if (out->insecure && !out->ca.empty()) {
    return cluster.Bad("insecure-skip-tls-verify",
                       "a certificate authority is given as well; leave one of them out");
  }
  ASSIGN_OR_RETURN(out->tls_server_name, cluster.Text("tls-server-name"));
  ASSIGN_OR_RETURN(out->proxy_url, cluster.Text("proxy-url"));
  if (!out->proxy_url.empty() && !absl::StartsWith(out->proxy_url, "http://")) {
    return cluster.Bad("proxy-url", "only http:// proxies can be used");
  }
  return absl::OkStatus();
}

absl::Status ReadExecEnv(const Section& exec, ExecSpec* out) {
  const Json& env = exec.map()["env"];
  if (!env.is_array()) return exec.Bad("env", "must be a list");
  for (const Json& entry : env) {
    const bool good = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                      entry.contains("value") && entry["value"].is_string();
    if (!good) return exec.Bad("env", "each entry needs a name and a value");
    out->env.emplace_back(entry["name"].get<std::string>(), entry["value"].get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadExec(const Section& user, ExecSpec* out) {
  ASSIGN_OR_RETURN(const Section exec, user.Inner("exec"));
  out->field = user.Field("exec");
  ASSIGN_OR_RETURN(out->command, exec.Text("command"));
  if (out->command.empty()) return exec.Bad("command", "is missing");
  if (absl::StrContains(out->command, "/")) out->command = exec.Beside(out->command);
  ASSIGN_OR_RETURN(out->args, exec.Texts("args"));
  ASSIGN_OR_RETURN(out->install_hint, exec.Text("installHint"));
  ASSIGN_OR_RETURN(out->provide_cluster_info, exec.Flag("provideClusterInfo"));
  ASSIGN_OR_RETURN(const std::string mode, exec.Text("interactiveMode"));
  if (mode == "Always") {
    return exec.Bad("interactiveMode", "the plug-in wants a terminal, which there is none of");
  }
  ASSIGN_OR_RETURN(out->api_version, exec.Text("apiVersion"));
  if (out->api_version != "client.authentication.k8s.io/v1" &&
      out->api_version != "client.authentication.k8s.io/v1beta1") {
    return exec.Bad("apiVersion",
                    absl::StrCat("\"", out->api_version,
                                 "\" is not known; client.authentication.k8s.io/v1 and v1beta1 "
                                 "are"));
  }
  if (!exec.Has("env")) return absl::OkStatus();
  return ReadExecEnv(exec, out);
}

absl::Status ReadUser(const Section& user, KubeContext* out) {
  for (const char* unsupported : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    if (user.Has(unsupported)) return user.Bad(unsupported, "impersonation is not supported");
  }
  if (user.Has("auth-provider")) {
    return user.Bad("auth-provider", "is not supported; use an exec plug-in in its place");
  }
  ASSIGN_OR_RETURN(out->client_certificate, user.Pem("client-certificate"));
  ASSIGN_OR_RETURN(out->client_key, user.Pem("client-key"));
  if (out->client_certificate.empty() != out->client_key.empty()) {
    return user.Bad(out->client_key.empty() ? "client-key" : "client-certificate",
                    "is missing; certificate and key belong together");
  }
  ASSIGN_OR_RETURN(out->token, user.Text("token"));
  ASSIGN_OR_RETURN(out->token_file, user.Path("tokenFile"));
  ASSIGN_OR_RETURN(out->username, user.Text("username"));
  ASSIGN_OR_RETURN(out->password, user.Text("password"));
  if (!user.Has("exec")) return absl::OkStatus();
  if (!out->token.empty() || !out->token_file.empty() || !out->username.empty()) {
    return user.Bad("exec", "stands beside a token or a password; leave one of them out");
  }
  return ReadExec(user, &out->exec);
}

}  // namespace

absl::StatusOr<KubeContext> ReadKubeconfig(const std::string& file, std::string_view text,
                                           const std::string& context) {
  ASSIGN_OR_RETURN(const Json json, ReadYamlStrings(file, text));
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", what));
  };
  if (json.is_null()) return bad("is empty");
  if (!json.is_object()) return bad("is no kubeconfig: not a map");
  const Section root(file, "", json);
  ASSIGN_OR_RETURN(const std::string kind, root.Text("kind"));
  if (!kind.empty() && kind != "Config") return root.Bad("kind", kind + " is no Config");
  ASSIGN_OR_RETURN(const std::string current, root.Text("current-context"));
  const std::string name = context.empty() ? current : context;
  if (name.empty()) {
    return root.Bad("current-context", "is not set; set it, or name a context with --context");
  }
  KubeContext out;
  ASSIGN_OR_RETURN(const Section chosen, root.Named("contexts", name, "context"));
  ASSIGN_OR_RETURN(const std::string cluster_name, chosen.Text("cluster"));
  if (cluster_name.empty()) return chosen.Bad("cluster", "is missing");
  ASSIGN_OR_RETURN(const std::string user_name, chosen.Text("user"));
  ASSIGN_OR_RETURN(out.ns, chosen.Text("namespace"));
  ASSIGN_OR_RETURN(const Section cluster, root.Named("clusters", cluster_name, "cluster"));
  RETURN_IF_ERROR(ReadCluster(cluster, &out));
  if (user_name.empty()) return out;
  ASSIGN_OR_RETURN(const Section user, root.Named("users", user_name, "user"));
  RETURN_IF_ERROR(ReadUser(user, &out));
  return out;
}

}  // namespace kube
