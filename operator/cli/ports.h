// Loopback ports for the tasks of a job: chosen at the start, held until the task that owns one
// begins.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/cli/process.h"

namespace tfjob {

// Not thread-safe.
class PortReserver {
 public:
  // The port of this key, reserved at the first call. Outside the kernel's range for outgoing
  // connections, so that no client (or a task that calls a peer too early) is given it meanwhile.
  // kUnavailable when no port is free.
  absl::StatusOr<int> Reserve(const std::string& key);
  // Lets go of it: the task is about to bind it. The number stays the key's.
  void Release(const std::string& key);

 private:
  struct Port {
    int number = 0;
    Fd holder;
  };
  std::map<std::string, Port> ports_;
  int next_ = 0;  // where to look first
};

}  // namespace tfjob
