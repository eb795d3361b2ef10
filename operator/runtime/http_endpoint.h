// One address on which GET requests are answered over HTTP: the listening socket, a few threads,
// and what a slow or rude client may take of them. It knows no page: handlers are callbacks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "operator/runtime/listen_address.h"

namespace runtime {

struct HttpRequest {
  std::map<std::string, std::string> parameters;  // of the query, decoded; of each name the first
  std::string authorization;                      // the header; "" if there is none
};

struct HttpAnswer {
  int code = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  std::map<std::string, std::string> headers;  // beside Content-Type and Content-Length
};

// A connection is closed after its answer, and one that sends nothing soon: a client that stays
// away keeps no thread. Connections beyond those that threads answer and few that wait are not
// accepted yet, so that no flood of them takes the process's files. Handlers are called on the
// threads, maybe several at once. Not thread-safe until Serve.
class HttpEndpoint {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  explicit HttpEndpoint(int threads);
  ~HttpEndpoint();  // stops serving; no handler runs any more
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // Answers GET and HEAD of this path; the others are 404.
  void Handle(const std::string& path, Handler handler);
  // Takes the port. UsageError that names `flag` and its value if it cannot.
  absl::Status Bind(const ListenAddress& address, const std::string& flag,
                    const std::string& value);
  void Serve();
  int port() const;  // that was bound

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace runtime
