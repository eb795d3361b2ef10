// What a local run needs to know and to ask of this machine: its size, its terminal, its signals,
// and a work folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/cli/container_env.h"
#include "operator/cli/process.h"

namespace tfjob {

// Cores that this process may use.
int Cores();
// Bytes of main memory, 0 if unknown.
int64_t MemoryBytes();
std::string NodeName();
// Columns of the terminal at standard output, 80 if unknown.
int TerminalWidth();
// NAME=value entries as a map; others are dropped.
Environment ToMap(const std::vector<std::string>& environment);
// The path made absolute, without . and .. in it.
absl::StatusOr<std::string> AbsolutePath(const std::string& path);
// Makes the folder with its parts (logs, root, volumes, pods) and removes the logs of the run
// before. kInvalidArgument if that is not possible.
absl::Status MakeWorkFolder(const std::string& folder);

// Signals of this process as something to poll: SIGINT, SIGTERM, SIGHUP, SIGCHLD and SIGWINCH are
// blocked from here on, also in threads that start later. SIGPIPE is ignored.
class Signals {
 public:
  Signals();
  int fd() const { return fd_.get(); }
  // The numbers that have come since the last call.
  std::vector<int> Take();

 private:
  Fd fd_;
};

}  // namespace tfjob
