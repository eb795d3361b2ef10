// Reads a kubeconfig: which cluster, which user, which namespace a context means. PURE: reads no
// other file and runs no plug-in; says where they are.
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kube {

// Something given either in the kubeconfig itself or as a file beside it.
struct FileOrData {
  std::string field;  // for messages: users["me"].user.client-key
  std::string path;   // absolute, or relative to the working directory; empty = not a file
  std::string data;   // decoded
  bool empty() const { return path.empty() && data.empty(); }
};

// A credential plug-in: users[].user.exec.
struct ExecSpec {
  std::string field;        // for messages
  std::string api_version;  // client.authentication.k8s.io/v1 or /v1beta1
  std::string command;      // a name for $PATH, or a path
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool provide_cluster_info = false;
};

struct KubeContext {
  std::string server;
  FileOrData ca;
  bool insecure = false;
  std::string tls_server_name;
  std::string proxy_url;

  FileOrData client_certificate, client_key;
  std::string token;
  std::string token_file;
  std::string username, password;
  ExecSpec exec;  // command empty = none

  std::string ns;
};

// The context named `context` (empty: current-context) of the kubeconfig `text`; `file` is its
// path, for messages and relative paths. kInvalidArgument "FILE: FIELD: what is wrong".
absl::StatusOr<KubeContext> ReadKubeconfig(const std::string& file, std::string_view text,
                                           const std::string& context);

}  // namespace kube
