// A small real server for tests of the transport: TCP on a port of the kernel's choice, with TLS or
// without, one thread a connection, every byte of an answer in the test's hands.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kube {

struct TestCertificate {
  std::string certificate_pem, key_pem;
};
// A self-signed authority and what it has signed, made anew for each process.
struct TestPki {
  std::string ca_pem;
  TestCertificate server;  // for "localhost", "api.example" and 127.0.0.1
  TestCertificate client;  // CN=tester
  std::string other_ca_pem;
};
const TestPki& Pki();

struct ServerRequest {
  std::string method, path, body;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string client_name;                     // CN of the client's certificate
  std::string server_name;                     // as the client sent it (SNI)
  int connection = 0;                          // 1, 2… in order of acceptance
};

// One accepted connection; the handler's until it returns.
class ServerConnection {
 public:
  virtual ~ServerConnection() = default;
  virtual bool Write(std::string_view bytes) = 0;  // false: the peer has gone
  // Ends the connection; `orderly` = with TLS's farewell.
  virtual void Close(bool orderly) = 0;
  // Blocks until the peer closes (true) or the time is over.
  virtual bool WaitForClose(absl::Duration timeout) = 0;

  void Answer(int code, std::string_view body, std::string_view more_headers = "");
  void StartChunks();  // 200 with Transfer-Encoding: chunked
  bool Chunk(std::string_view data);
  bool EndChunks();
};

class TestServer {
 public:
  using Handler = std::function<void(const ServerRequest&, ServerConnection&)>;
  struct Options {
    bool tls = true;
    bool require_client_certificate = false;
  };
  TestServer(Options options, Handler handler);
  ~TestServer();

  int port() const { return port_; }
  std::string url(const std::string& host = "127.0.0.1") const;
  int connections() const { return connections_; }

 private:
  void Accept();
  void Serve(int fd, int connection);

  const Options options_;
  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::shared_ptr<void> context_;  // SSL_CTX
  std::atomic<int> connections_ = 0;
  std::atomic<bool> stopping_ = false;
  absl::Mutex mutex_;
  std::vector<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace kube
