// The cluster that a command talks to: found as kubectl finds it, with short deadlines.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/client.h"

namespace tfjob {

// How long one call may take.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);
// Commands that wait: how often they look, how often they say that they wait, and how long they
// bear a cluster that does not answer.
inline constexpr absl::Duration kLook = absl::Seconds(1);
inline constexpr absl::Duration kSay = absl::Seconds(10);
inline constexpr absl::Duration kPatience = absl::Minutes(1);

struct ConnectionFlags {
  std::string kubeconfig;  // empty: $KUBECONFIG, the pod's service account, ~/.kube/config
  std::string context;     // empty: current-context
  std::string ns;          // empty: the context's, else default
  bool all_namespaces = false;
  absl::Duration call_timeout = kCallTimeout;
  int max_retries = 3;
  std::string output;  // how answers are written; empty: as text for people
};

// What commands need of a cluster. Thread-safe where the client is.
struct Cluster {
  std::unique_ptr<kube::Client> client;
  std::string ns;      // "" = all
  std::string where;   // "https://10.0.0.1:6443, kubeconfig FILE", for messages
  std::string output;  // "" (text), wide (only `list`), json, yaml
  // Waits; for tests. False: stop was requested.
  std::function<bool(absl::Duration)> pause;
  std::function<absl::Time()> now = absl::Now;
};

// Makes no call. kInvalidArgument: the kubeconfig, by file and field.
absl::StatusOr<Cluster> Connect(const ConnectionFlags& flags);

// Says what went wrong, at which server, and what to do; returns the exit code: 138 where the
// cluster does not answer, 2 for wrong usage, else 1.
int Fail(const Cluster& cluster, const absl::Status& status, std::ostream& err);

// All objects of all pages.
absl::StatusOr<std::vector<kube::Json>> ListAll(const Cluster& cluster,
                                                const kube::Resource& resource,
                                                const std::string& ns,
                                                const std::string& label_selector = "");

// The TFJob of that name. kNotFound names the jobs that there are.
absl::StatusOr<kube::Json> GetJob(const Cluster& cluster, const std::string& name);
absl::StatusOr<std::vector<kube::Json>> PodsOfJob(const Cluster& cluster, const std::string& name);

}  // namespace tfjob
