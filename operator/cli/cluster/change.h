// `trainyard suspend`, `resume`, `scale` and `delete`: one write each, after a look at the job.
#pragma once

#include <ostream>
#include <string>

#include "operator/cli/cluster/connection.h"

namespace tfjob {

struct ScaleFlags {
  std::string type = "Worker";
  int replicas = -1;
};
struct DeleteFlags {
  bool wait = false;
  std::string timeout = "5m";  // of the wait
};

// Exit codes for main. A job that is as wanted already is no error; a finished one that cannot
// become so is (1).
int SuspendJob(const Cluster& cluster, const std::string& name, bool suspend, std::ostream& out,
               std::ostream& err);
int ScaleJob(const Cluster& cluster, const std::string& name, const ScaleFlags& flags,
             std::ostream& out, std::ostream& err);
int RemoveJob(const Cluster& cluster, const std::string& name, const DeleteFlags& flags,
              std::ostream& out, std::ostream& err);

}  // namespace tfjob
