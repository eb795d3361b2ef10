#include "operator/check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/kube/access_review.h"
#include "operator/pod_groups.h"

namespace tfjob {
namespace {

struct Rights {
  kube::Resource resource;
  std::string subresource;
  std::vector<std::string> verbs;
  std::string name;  // of the one object that they are about; empty = all
};

// What the operator does with jobs and what they are made of; the test of the chart compares it
// with what the chart grants, and that with what the operator does.
std::vector<Rights> RightsOnJobs(const OperatorOptions& options) {
  std::vector<Rights> rights = {
      {kube::kTfJobs, "", {"list", "watch", "delete"}, ""},
      {kube::kTfJobs, "status", {"update"}, ""},
      {kube::kPods, "", {"get", "list", "watch", "create", "delete", "deletecollection"}, ""},
      {kube::kServices,
       "",
       {"get", "list", "watch", "create", "patch", "delete", "deletecollection"},
       ""},
      {kube::kSecrets, "", {"get", "create"}, ""},
      {kube::kClaims, "", {"get", "create", "delete"}, ""},
      {kube::kEvents, "", {"get", "create", "patch"}, ""}};
  const kube::Resource pod_groups = PodGroupsOf(options.gang_scheduler);
  if (!pod_groups.plural.empty()) {
    rights.push_back({pod_groups, "", {"get", "list", "watch", "create", "patch", "delete"}, ""});
  }
  return rights;
}

std::vector<Rights> RightsOnLease(const std::string& name) {
  return {{kube::kLeases, "", {"create"}, ""}, {kube::kLeases, "", {"get", "update"}, name}};
}

std::string Where(const std::string& ns) {
  return ns.empty() ? "in all namespaces" : absl::StrCat("in ", ns);
}

bool CannotBeAsked(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnauthenticated(status) || absl::IsCancelled(status);
}

class Check {
 public:
  Check(const OperatorOptions& options, const Surroundings& surroundings, std::stop_token stop)
      : options_(options),
        surroundings_(surroundings),
        client_(kube::Client::Create(surroundings.transport, {.user_agent = "trainyard-operator"})),
        stop_(std::move(stop)) {}

  std::vector<Finding> Run() && {
    const std::vector<std::string> namespaces =
        options_.namespaces.empty() ? std::vector<std::string>{""} : options_.namespaces;
    if (!TfJobsAreServed(namespaces[0])) return std::move(findings_);
    if (!options_.gang_scheduler.empty()) {
      findings_.push_back({absl::StrCat("PodGroups for ", options_.gang_scheduler, " are served"),
                           CheckPodGroupsServed(*client_, options_.gang_scheduler, namespaces[0])});
    }
    for (const std::string& ns : namespaces) {
      for (const Rights& rights : RightsOnJobs(options_)) AreGranted(rights, ns);
    }
    if (options_.leader_elect) {
      const std::string ns = LeaseNamespace(options_, surroundings_);
      for (const Rights& rights : RightsOnLease(options_.leader_id)) AreGranted(rights, ns);
      SomebodyLeads(ns);
    }
    return std::move(findings_);
  }

 private:
  // False: there is no use in asking for more.
  bool TfJobsAreServed(const std::string& ns) {
    const std::string what = absl::StrCat("TFJobs are served by ", surroundings_.server);
    absl::Status status = client_->List(kube::kTfJobs, ns, {.limit = 1}, stop_).status();
    const bool answers = !CannotBeAsked(status);
    if (absl::IsNotFound(status)) {
      status = absl::NotFoundError(
          "they are not: kubectl apply --server-side -f crds/tfjob.yaml makes the resource");
    }
    if (absl::IsPermissionDenied(status)) status = absl::OkStatus();  // told as a right
    findings_.push_back({what, std::move(status)});
    return answers;
  }

  void AreGranted(const Rights& rights, const std::string& ns) {
    std::string what(rights.resource.plural);
    if (!rights.subresource.empty()) absl::StrAppend(&what, "/", rights.subresource);
    if (!rights.name.empty()) absl::StrAppend(&what, " ", rights.name);
    absl::StrAppend(&what, " ", Where(ns), ": ", absl::StrJoin(rights.verbs, ", "));
    std::vector<std::string> refused;
    for (const std::string& verb : rights.verbs) {
      const absl::StatusOr<bool> granted = IsGranted(rights, verb, ns);
      if (!granted.ok()) return findings_.push_back({what, granted.status()});
      if (!*granted) refused.push_back(verb);
    }
    absl::Status status;
    if (!refused.empty()) {
      status = absl::PermissionDeniedError(
          absl::StrCat("not allowed: ", absl::StrJoin(refused, ", "),
                       "; a role bound to this account has to grant it"));
    }
    findings_.push_back({what, std::move(status)});
  }

  absl::StatusOr<bool> IsGranted(const Rights& rights, const std::string& verb,
                                 const std::string& ns) {
    const kube::Access access{.verb = verb,
                              .resource = rights.resource,
                              .ns = ns,
                              .subresource = rights.subresource,
                              .name = rights.name};
    const absl::StatusOr<kube::Json> answer =
        client_->Create(kube::kAccessReviews, "", kube::AccessReview(access), stop_);
    if (!answer.ok()) return answer.status();
    return kube::IsAllowed(*answer);
  }

  // Clocks of two machines are not compared: what counts is a renewal that is seen.
  void SomebodyLeads(const std::string& ns) {
    const std::string lease = absl::StrCat("the Lease ", ns, "/", options_.leader_id);
    const absl::Time end = absl::Now() + options_.lease_duration + options_.retry_period;
    absl::Status status = absl::UnavailableError("nobody has made it: start the operator");
    kube::Json before;
    while (true) {
      const absl::StatusOr<kube::Json> seen =
          client_->Get(kube::kLeases, ns, options_.leader_id, stop_);
      if (!seen.ok() && !absl::IsNotFound(seen.status())) {
        status = seen.status();
        break;
      }
      if (seen.ok()) {
        const kube::Json spec = base::At(*seen, "spec");
        const std::string holder = base::StringAt(spec, "holderIdentity");
        if (!holder.empty() && !before.is_null() && spec != before) {
          return findings_.push_back({absl::StrCat(holder, " renews ", lease), absl::OkStatus()});
        }
        status = absl::UnavailableError(
            holder.empty()
                ? "nobody holds it: look at the operator's log"
                : absl::StrCat(holder, " held it and does not renew it: look at its log"));
        before = spec;
      }
      if (absl::Now() >= end || !base::PauseFor(options_.retry_period, stop_)) break;
    }
    findings_.push_back({absl::StrCat("somebody renews ", lease), std::move(status)});
  }

  const OperatorOptions& options_;
  const Surroundings& surroundings_;
  const std::unique_ptr<kube::Client> client_;
  const std::stop_token stop_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> CheckInstallation(const OperatorOptions& options,
                                       const Surroundings& surroundings, std::stop_token stop) {
  return Check(options, surroundings, std::move(stop)).Run();
}

std::string ToText(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    if (finding.status.ok()) {
      absl::StrAppend(&out, "ok    ", finding.what, "\n");
    } else {
      absl::StrAppend(&out, "FAIL  ", finding.what, " — ", finding.status.message(), "\n");
    }
  }
  return out;
}

bool AllHold(const std::vector<Finding>& findings) {
  return std::all_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.status.ok(); });
}

}  // namespace tfjob
