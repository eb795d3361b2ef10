#include "operator/cli/cluster/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "operator/api/names.h"
#include "operator/cli/cluster/findings.h"
#include "operator/kube/config.h"

namespace tfjob {
namespace {

constexpr size_t kMaxNames = 10;

// A job that is not there is mostly one with another name, or in another namespace.
absl::Status NoSuchJob(const Cluster& cluster, const std::string& name) {
  std::string message = absl::StrCat("there is no TFJob ", name, " in namespace ", cluster.ns);
  const absl::StatusOr<std::vector<Json>> jobs = ListAll(cluster, kube::kTfJobs, cluster.ns);
  if (!jobs.ok()) return absl::NotFoundError(message);
  std::vector<std::string> names;
  for (const Json& job : *jobs) names.push_back(ObjectName(job));
  const std::string nearest = base::Nearest(name, names);
  if (names.empty()) {
    absl::StrAppend(&message, ", and no other; -n NAMESPACE names another (trainyard list -A)");
  } else if (!nearest.empty()) {
    absl::StrAppend(&message, "; did you mean ", nearest, "?");
  } else {
    const size_t shown = std::min(names.size(), kMaxNames);
    absl::StrAppend(&message, "; there are ",
                    absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                    shown < names.size() ? " and others" : "");
  }
  return absl::NotFoundError(message);
}

}  // namespace

absl::StatusOr<Cluster> Connect(const ConnectionFlags& flags) {
  ASSIGN_OR_RETURN(kube::Config config,
                   kube::LoadConfig({.kubeconfig = flags.kubeconfig, .context = flags.context}));
  Cluster cluster;
  cluster.output = flags.output;
  cluster.where = absl::StrCat(config.server, ", ", config.origin);
  if (!flags.all_namespaces) {
    cluster.ns = !flags.ns.empty() ? flags.ns : !config.ns.empty() ? config.ns : "default";
  }
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeTransport(std::move(config)));
  cluster.client = kube::Client::Create(
      std::move(transport), {.call_timeout = flags.call_timeout, .max_retries = flags.max_retries});
  cluster.pause = [](absl::Duration duration) { return base::PauseFor(duration, {}); };
  return cluster;
}

int Fail(const Cluster& cluster, const absl::Status& status, std::ostream& err) {
  const int code = base::ExitCodeFor(status);
  err << "trainyard: " << std::string(status.message()) << "\n";
  const bool reached = !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
  if (!reached || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    const Finding finding = DiagnoseCall(status, "");
    err << "  " << finding.what << " (" << cluster.where << ")\n  to do: " << finding.todo << "\n";
  }
  return code;
}

absl::StatusOr<std::vector<Json>> ListAll(const Cluster& cluster, const kube::Resource& resource,
                                          const std::string& ns,
                                          const std::string& label_selector) {
  std::vector<Json> out;
  kube::ListOptions options{.label_selector = label_selector};
  do {
    ASSIGN_OR_RETURN(kube::ListPage page, cluster.client->List(resource, ns, options));
    for (Json& item : page.items) out.push_back(std::move(item));
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  return out;
}

absl::StatusOr<Json> GetJob(const Cluster& cluster, const std::string& name) {
  absl::StatusOr<Json> job = cluster.client->Get(kube::kTfJobs, cluster.ns, name);
  if (!absl::IsNotFound(job.status())) return job;
  // Without the CRD the message is another one.
  const std::string message(job.status().message());
  if (message.find("\"" + name + "\"") == std::string::npos) {
    return absl::NotFoundError(absl::StrCat(
        message, ": the cluster knows no TFJobs; install the operator (docs/install.md)"));
  }
  return NoSuchJob(cluster, name);
}

absl::StatusOr<std::vector<Json>> PodsOfJob(const Cluster& cluster, const std::string& name) {
  return ListAll(cluster, kube::kPods, cluster.ns, absl::StrCat(kLabelJobName, "=", name));
}

}  // namespace tfjob
