// The read-only page of the operator: three files that anybody may read and that hold no data, and
// the data as JSON, for whoever sends a token that the API server lets list TFJobs. Every replica
// of the operator serves it, leader or not: all of it comes from watches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/job_cache.h"
#include "operator/kube/transport.h"
#include "operator/page/access.h"
#include "operator/page/progress_history.h"

namespace tfjob {

struct PageOptions {
  std::string address;                  // ":8082"
  std::vector<std::string> namespaces;  // that are served; empty = all
  PlanOptions plan;                     // as the controller's
  AccessOptions access;
};

// Thread-safe.
class PageServer {
 public:
  // All outlive it. `nobody`: a transport without credentials of its own.
  struct Parts {
    const JobCache* cache = nullptr;
    const ProgressHistory* history = nullptr;
    std::shared_ptr<kube::Transport> nobody;
    std::function<absl::Status()> ready;  // OK once the cache is complete; empty = always
  };
  // UsageError that names flag and address if it is malformed or cannot be listened on. Null where
  // the address is "0" or "".
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(const Parts& parts,
                                                           const PageOptions& options);
  virtual ~PageServer() = default;  // stops serving

  virtual int port() const = 0;
};

}  // namespace tfjob
