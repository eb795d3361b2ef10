// Which task of which cluster this process is: flags over TF_CONFIG over "this machine alone".
// PURE.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cluster_spec.h"
#include "trainer/ps/task_tls.h"
#include "trainer/train/options.h"

namespace trainer {

enum class Strategy { kLocal, kAsync, kSync, kAllreduce };

struct Role {
  base::ClusterSpec cluster;  // empty = this machine alone
  base::Task task;            // {"worker", 0} when alone
  bool chief = true;          // chief:0 (master:0), else worker:0
  Strategy strategy = Strategy::kLocal;
  std::vector<std::string> ps_addresses;
  // Tasks that train, in rank order: chief (or master) first, then the workers.
  std::vector<base::Task> trainers;
  int rank = 0;                        // of this task among `trainers`; 0 when it does not train
  std::shared_ptr<const TaskTls> tls;  // how tasks talk to each other; null = plain text
  std::string address;                 // this task's own "host:port"; "" when alone
  std::vector<std::string> warnings;   // flags that overrode TF_CONFIG
};

// Resolves the role. `tf_config` is the variable's value, "" if unset. kInvalidArgument names the
// flag or JSON path: unknown job, index out of range, bad or duplicate address, no ps for a ps
// strategy. `client`: a process that no flag or TF_CONFIG names is {"client", 0} outside the
// cluster
// (`trainer check`) and not its first worker.
absl::StatusOr<Role> ResolveRole(const Options& options, std::string_view tf_config,
                                 bool client = false);

// The address to listen on: the loopback host itself when `address` is a loopback one, every
// interface otherwise ("tf-worker-0.ns.svc:2222" → "[::]:2222").
std::string ListenAddress(std::string_view address);

}  // namespace trainer
