// The logs of containers, as the fake API server gives them: lines that a test adds, streams that
// follow, restarts, connections that break. Line n of a run is stamped n seconds after its start.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "operator/kube/transport.h"

namespace kube {

// Thread-safe.
class FakeLogs {
 public:
  // The container's first run starts with its first line.
  void Add(const std::string& ns, const std::string& pod, const std::string& line);
  void End(const std::string& ns, const std::string& pod);      // of the run
  void Restart(const std::string& ns, const std::string& pod);  // a new run begins
  void Cut();                                                   // all streams that follow break

  // GET …/pods/POD/log with this query.
  absl::StatusOr<Response> Serve(const std::string& ns, const std::string& pod,
                                 const std::map<std::string, std::string>& query,
                                 const Request& request,
                                 const std::function<bool(std::string_view)>& on_data,
                                 const std::stop_token& stop);

 private:
  struct Log {
    std::vector<std::string> lines, previous;
    bool ended = false;
    int run = 0;
  };

  absl::Mutex mutex_;
  std::map<std::string, Log> logs_ ABSL_GUARDED_BY(mutex_);  // by "namespace/pod"
  int cuts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kube
