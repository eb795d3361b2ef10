// Where the API server is and how to prove who we are: kubeconfig files and the in-cluster service
// account.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/transport.h"

namespace kube {

struct KeyPair {
  std::string certificate_pem, key_pem;
};

struct Config {
  std::string server;     // "https://10.0.0.1:6443"
  std::string ca_pem;     // certificate authority; empty = the system's
  bool insecure = false;  // insecure-skip-tls-verify
  std::string tls_server_name;
  std::string client_certificate_pem, client_key_pem;  // empty = none
  // The client certificate of now, for new connections; empty function = the one above.
  // Thread-safe; reruns exec plugins when they are due.
  std::function<absl::StatusOr<KeyPair>()> key_pair;
  std::string proxy_url;           // http://…; empty = none
  std::string username, password;  // basic authentication; empty = none
  // The bearer token of now, or "" for none. Thread-safe; rereads token files and reruns exec
  // plugins when they are due.
  std::function<absl::StatusOr<std::string>()> token;
  // The server has answered 401: forgets what is cached, so that the next call gets it anew. May be
  // empty. Thread-safe.
  std::function<void()> refused;
  std::string ns;  // of the context or the service account; "" = none
  std::string
      origin;  // where all this comes from, for messages: "kubeconfig /home/me/.kube/config"
};

struct ConfigSource {
  std::string kubeconfig;  // path; empty = $KUBECONFIG (first file), in-cluster, ~/.kube/config
  std::string context;     // empty = current-context
  std::string master;      // overrides the server's URL
};

// Errors are kInvalidArgument and name file and field.
absl::StatusOr<Config> LoadConfig(const ConfigSource& source);

// The same API server, reached the same way, by nobody: for requests with tokens of their own.
Config WithoutCredentials(Config config);

// The real transport (cpprestsdk).
absl::StatusOr<std::shared_ptr<Transport>> MakeTransport(Config config);

}  // namespace kube
