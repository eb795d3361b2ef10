// The operator's command line: its own flags and every flag of training-operator v1.9 and of
// tf-operator, so that old deployments start with it. PURE.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"

namespace tfjob {

struct OperatorOptions {
  // Empty: $KUBECONFIG, the service account of the pod, ~/.kube/config, in this order.
  std::string kubeconfig;
  std::string context;
  std::string master;  // URL of the API server, instead of the configured one

  std::vector<std::string> namespaces;  // empty = all

  std::string metrics_address = ":8080";  // /metrics and /debug/jobs; "0" = none
  std::string health_address = ":8081";   // /healthz and /readyz; "0" = none
  std::string page_address = "0";         // the read-only page; "0" = none

  bool leader_elect = true;
  std::string leader_id = "1ca428e5.training-operator.kubeflow.org";  // name of the Lease
  std::string leader_namespace;  // empty: the pod's own, else the configuration's, else default
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);

  int threads = 8;                                 // jobs that are looked at side by side
  int calls_per_job = 8;                           // API calls of one job side by side
  absl::Duration status_delay = absl::Seconds(1);  // for a status that differs only in counters

  bool compat_v19 = false;  // behave as training-operator v1.9, even where that hurts users
  std::string default_clean_pod_policy = "None";
  std::string cluster_domain;        // appended to service names in TF_CONFIG
  absl::Duration lost_pod_timeout;   // of pods of lost nodes, until they are deleted by force
  bool evaluator_in_cluster = true;  // list evaluators in TF_CONFIG's cluster
  // Jobs are gangs of this scheduler: "volcano", or one that reads the PodGroups of
  // scheduler-plugins. Empty: each pod is placed on its own.
  std::string gang_scheduler;

  // Pods and services also get the labels of tf-operator and of training-operator up to v1.5.
  bool legacy_labels = false;
  // The exit codes after which policy ExitCode restarts a pod; empty: all from 128 on.
  std::set<int> retryable_exit_codes;
  // Containers without which pods are judged; see PodViewOf. Not with compat_v19.
  std::set<std::string> sidecar_containers{kKnownSidecars.begin(), kKnownSidecars.end()};

  // Repositories of images whose jobs speak TLS between their tasks unless an annotation says
  // otherwise. Empty: only jobs whose annotation asks for it.
  std::vector<std::string> task_tls_images = TrainerImages();

  base::LogFormat log_format = base::LogFormat::kText;
  base::LogLevel log_level = base::LogLevel::kInfo;

  bool check = false;  // look whether all that the operator needs is there, and end
  bool show_version = false;
  bool show_help = false;
  // Flags that were accepted for the sake of old deployments, and what becomes of them.
  std::vector<std::string> notes;
};

// `environment` returns a variable's value, "" if it is not set. Errors (kInvalidArgument) name the
// flag, and for an unknown one the nearest known one.
absl::StatusOr<OperatorOptions> ParseFlags(
    const std::vector<std::string>& arguments,
    const std::function<std::string(const char*)>& environment);

// The text of --help.
std::string FlagsHelp();

}  // namespace tfjob
