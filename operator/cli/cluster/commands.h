// The commands of `trainyard` that talk to a cluster, as they stand on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "operator/cli/cluster/change.h"
#include "operator/cli/cluster/connection.h"
#include "operator/cli/cluster/list.h"
#include "operator/cli/cluster/logs.h"
#include "operator/cli/cluster/top.h"
#include "operator/cli/cluster/wait.h"

namespace tfjob {

// Not copyable: the app holds pointers into it.
class ClusterCommands {
 public:
  ClusterCommands() = default;
  ClusterCommands(const ClusterCommands&) = delete;
  ClusterCommands& operator=(const ClusterCommands&) = delete;

  // Adds them to the app. REQUIRES: this outlives it; called once.
  void AddTo(CLI::App& app);
  // Runs the one that was parsed: its exit code; nullopt if it is none of these.
  std::optional<int> Run() const;

 private:
  using Body = std::function<int(const Cluster&)>;
  void AddOutput(CLI::App* command);
  // `job`: takes the name of one, and not --all-namespaces.
  CLI::App* Add(CLI::App& app, const char* name, const char* help, bool job, Body body);

  ConnectionFlags connection_;
  std::string job_;
  LogsFlags logs_;
  TopFlags top_;
  WaitFlags wait_;
  ScaleFlags scale_;
  DeleteFlags delete_;
  std::map<const CLI::App*, Body> commands_;
};

}  // namespace tfjob
