#include "operator/cli/cluster/output.h"

#include <utility>

#include "operator/api/names.h"
#include "operator/cli/to_yaml.h"

namespace tfjob {

bool IsStructured(const Cluster& cluster) {
  return cluster.output == "json" || cluster.output == "yaml";
}

void PrintObject(const Cluster& cluster, const Json& object, std::ostream& out) {
  if (cluster.output == "yaml") {
    out << ToYaml(object);
  } else {
    out << object.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  }
}

Json WholeJob(Json job) {
  job["apiVersion"] = kApiVersion;
  job["kind"] = kKind;
  return job;
}

Json ListOfJobs(std::vector<Json> jobs) {
  Json items = Json::array();
  for (Json& job : jobs) items.push_back(WholeJob(std::move(job)));
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

}  // namespace tfjob
