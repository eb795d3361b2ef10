#include "operator/cli/cluster/list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/json_read.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/output.h"

namespace tfjob {
namespace {

std::pair<std::string, std::string> Key(const Json& job) {
  const Json& metadata = base::At(job, "metadata");
  return {base::StringAt(metadata, "namespace"), base::StringAt(metadata, "name")};
}

}  // namespace

std::vector<std::vector<std::string>> JobTable(std::vector<Json> jobs, bool all_namespaces,
                                               bool wide, absl::Time now) {
  std::sort(jobs.begin(), jobs.end(), [](const Json& a, const Json& b) { return Key(a) < Key(b); });
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& ns, std::vector<std::string> row,
                       std::vector<std::string> more) {
    if (all_namespaces) row.insert(row.begin(), ns);
    if (wide) row.insert(row.end(), more.begin(), more.end());
    rows.push_back(std::move(row));
  };
  add("NAMESPACE", {"NAME", "STATE", "PROGRESS", "REPLICAS", "RESTARTS", "AGE"},
      {"STARTED", "FINISHED", "REASON"});
  for (const Json& job : jobs) {
    const Json& status = base::At(job, "status");
    const auto age = [&](const Json& object, const char* key) { return AgeText(object, key, now); };
    add(Key(job).first,
        {ObjectName(job), StateOf(job), ProgressOf(job), ReplicasText(job),
         absl::StrCat(RestartsOf(job)), age(base::At(job, "metadata"), "creationTimestamp")},
        {age(status, "startTime"), age(status, "completionTime"), ReasonOf(job)});
  }
  return rows;
}

int ListJobs(const Cluster& cluster, std::ostream& out, std::ostream& err) {
  absl::StatusOr<std::vector<Json>> jobs = ListAll(cluster, kube::kTfJobs, cluster.ns);
  if (!jobs.ok()) return Fail(cluster, jobs.status(), err);
  if (IsStructured(cluster)) {
    PrintObject(cluster, ListOfJobs(*std::move(jobs)), out);
    return base::kExitOk;
  }
  if (jobs->empty()) {
    err << "no TFJobs in " << (cluster.ns.empty() ? "any namespace" : "namespace " + cluster.ns)
        << "\n";
    return base::kExitOk;
  }
  PrintTable(
      JobTable(*std::move(jobs), cluster.ns.empty(), cluster.output == "wide", cluster.now()), out);
  return base::kExitOk;
}

}  // namespace tfjob
