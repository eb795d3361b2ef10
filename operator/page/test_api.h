// For tests: an API server that knows tokens and what their owners may list. Events are always
// there.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/kube/client.h"
#include "operator/kube/transport.h"

namespace tfjob {

// Thread-safe, but for `rights`, which is set before.
class TestApi : public kube::Transport {
 public:
  // Token → "tfjobs/ns", "pods/" …
  std::map<std::string, std::set<std::string>> rights;
  int broken_code = 0;  // that is answered to everything

  absl::StatusOr<kube::Response> Call(const kube::Request& request, std::stop_token) override {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(request);
    }
    if (broken_code != 0) return Answer(broken_code, "broken");
    const auto caller = rights.find(request.bearer_token);
    if (caller == rights.end()) return Answer(401, "Unauthorized");
    if (request.method == "GET") return List(request, caller->second);
    const kube::Json asked =
        base::At(kube::Json::parse(request.body), "spec", "resourceAttributes");
    const bool allowed =
        base::StringAt(asked, "verb") == "list" &&
        caller->second.contains(absl::StrCat(base::StringAt(asked, "resource"), "/",
                                             base::StringAt(asked, "namespace")));
    return kube::Response{201, kube::Json{{"status", {{"allowed", allowed}}}}.dump(), {}};
  }
  absl::StatusOr<kube::Response> Stream(const kube::Request&,
                                        const std::function<bool(std::string_view)>&,
                                        std::stop_token) override {
    return absl::UnimplementedError("nobody follows anything with a caller's token");
  }

  std::vector<kube::Request> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  static kube::Response Answer(int code, const std::string& message) {
    return {code, kube::Json{{"kind", "Status"}, {"code", code}, {"message", message}}.dump(), {}};
  }
  static kube::Response List(const kube::Request& request, const std::set<std::string>& granted) {
    if (!granted.contains("events/")) return Answer(403, "events is forbidden");
    const kube::Json event = {{"type", "Warning"},
                              {"reason", "Odd"},
                              {"message", "of " + request.path},
                              {"lastTimestamp", "2026-01-01T00:00:00Z"}};
    kube::Json older = event;
    older["lastTimestamp"] = "2025-01-01T00:00:00Z";
    return {200, kube::Json{{"items", {older, event}}, {"kind", "EventList"}}.dump(), {}};
  }

  mutable std::mutex mutex_;
  std::vector<kube::Request> calls_;
};

}  // namespace tfjob
