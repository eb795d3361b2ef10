// `trainyard top`: the table of `list` again and again, where the screen shows it.
#pragma once

#include <ostream>

#include "operator/cli/cluster/connection.h"

namespace tfjob {

struct TopFlags {
  double interval_seconds = 2;
  int rounds = 0;  // 0 = until it is ended
};

// Exit code for main. A cluster that stops answering for a minute ends it.
int WatchJobs(const Cluster& cluster, const TopFlags& flags, std::ostream& out, std::ostream& err);

}  // namespace tfjob
