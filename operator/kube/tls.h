// TLS towards the API server with OpenSSL: whom to trust, which name to expect, which client
// certificate to show. Knows no HTTP.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/config.h"

struct ssl_ctx_st;  // SSL_CTX
struct ssl_st;      // SSL

namespace kube {

// Certificates are read once and shared by all connections. Thread-safe; must outlive the
// connections' handshakes.
class Tls {
 public:
  virtual ~Tls() = default;
  // `server_name`: what the server's certificate must name (an IP address or a host name).
  // kInvalidArgument where a certificate or key cannot be read or they do not belong together.
  static absl::StatusOr<std::shared_ptr<Tls>> Create(const Config& config, std::string server_name);

  // The client certificate for connections from now on. Cheap when it is the one of before.
  virtual absl::Status SetKeyPair(const KeyPair& pair) = 0;
  // Puts trust, checks and the client certificate into a new context.
  virtual void Configure(ssl_ctx_st* context) = 0;
  // Sends the server's name in the handshake (not for IP addresses, RFC 6066 3).
  virtual void NameServer(ssl_st* connection) = 0;
  // Why the last handshake failed, or "".
  virtual std::string last_error() const = 0;
};

}  // namespace kube
