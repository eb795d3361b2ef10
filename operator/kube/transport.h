// One HTTP exchange with the API server, as values. The only door to the network: the real one is
// transport_cpprest, tests use fake_apiserver or a scripted one.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kube {

struct Request {
  std::string method = "GET";
  std::string path;          // with query, percent-encoded: "/api/v1/pods?limit=500"
  std::string content_type;  // of the body; empty = none
  std::string body;
  std::string user_agent;  // empty = "trainyard"
  // Of somebody on whose behalf this is asked, in place of the transport's own credentials. Only
  // for a transport WithoutCredentials: a client certificate would count before it.
  std::string bearer_token;
  // Call: until the whole answer is there. Stream: the longest silence between two pieces.
  absl::Duration timeout = absl::Seconds(30);
};

struct Response {
  int code = 0;  // HTTP status
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case
};

// Thread-safe. Any HTTP answer is OK, 4xx and 5xx too. Errors: kUnavailable (no connection, or it
// broke), kDeadlineExceeded, kCancelled (stop requested), kUnauthenticated (no credentials to
// send).
class Transport {
 public:
  virtual ~Transport() = default;

  // Blocks until the answer is complete.
  virtual absl::StatusOr<Response> Call(const Request& request, std::stop_token stop) = 0;

  // Blocks while the server sends; `on_data` gets the pieces of a 200 answer's body as they come,
  // on the calling thread or another, never two at once; it returns false to end the stream. The
  // body of any other answer is in the result. OK when the server or on_data has ended the stream.
  virtual absl::StatusOr<Response> Stream(const Request& request,
                                          const std::function<bool(std::string_view)>& on_data,
                                          std::stop_token stop) = 0;
};

}  // namespace kube
