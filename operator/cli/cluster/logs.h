// `trainyard logs JOB`: the output of all its replicas as one stream.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "operator/cli/cluster/connection.h"

namespace tfjob {

struct LogsFlags {
  std::string pod;  // "" = all of the job; else one, also without the job's name before it
  bool follow = false;
  std::string type;       // "" = any
  int index = -1;         // -1 = any
  int64_t tail = -1;      // lines of each; -1 = all
  std::string container;  // "" = tensorflow
  std::string color = "auto";
};

// Writes to the descriptor `output`. With `follow` it goes on until the job has ended, over
// restarts and replaced pods; else it shows what there is. Exit code for main: 0; 1 no such job or
// pod; 138 the cluster does not answer.
int ShowLogs(const Cluster& cluster, const std::string& job, const LogsFlags& flags, int output,
             std::ostream& err);

}  // namespace tfjob
