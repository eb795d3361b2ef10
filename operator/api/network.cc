#include "operator/api/network.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

constexpr size_t kMaxLabel = 63;
constexpr int kLastPort = 65535;
constexpr char kNetworkPath[] = "spec.network";

bool HasHostPorts(const TfJobSpec& spec) {
  return spec.network.min_host_port && spec.network.max_host_port;
}

// FNV-1a: the same in every build, which std::hash need not be.
// http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Replicas stand in rows of one of each type, so that none moves when a type is scaled.
int64_t PortsNeeded(const TfJobSpec& spec) {
  int64_t rows = 0;
  for (const auto& [type, replica] : *spec.replicas) {
    rows = std::max<int64_t>(rows, replica.replicas.value_or(1));
  }
  return rows * static_cast<int64_t>(spec.replicas->size());
}

void CheckHostPorts(const TfJobSpec& spec, std::vector<FieldError>& errors) {
  const std::string path = absl::StrCat(kNetworkPath, ".hostPorts");
  const int min = spec.network.min_host_port.value_or(0);
  const int max = spec.network.max_host_port.value_or(0);
  if (!HasHostPorts(spec)) {
    errors.push_back({path, "needs min and max, e.g. {min: 20000, max: 29999}", "Required value"});
    return;
  }
  if (min < 1 || max > kLastPort || min > max) {
    errors.push_back({path,
                      absl::StrCat(min, " to ", max, ": must be from 1 to ", kLastPort,
                                   ", and min not above max"),
                      "Invalid value"});
    return;
  }
  if (!spec.replicas) return;
  const int64_t needed = PortsNeeded(spec);
  if (needed <= max - min + 1) return;
  errors.push_back({path,
                    absl::StrCat("too few ports: the largest type times the number of types is ",
                                 needed, ", and there are ", max - min + 1),
                    "Invalid value"});
}

}  // namespace

NetworkSpec ReadNetworkSpec(ObjectReader network) {
  NetworkSpec out;
  out.subdomain = network.String("subdomain");
  if (ObjectReader ports = network.Object("hostPorts"); !ports.absent()) {
    out.min_host_port = ports.Int32("min").value_or(0);
    out.max_host_port = ports.Int32("max").value_or(0);
    ports.WarnUnknown();
  }
  network.WarnUnknown();
  return out;
}

Json NetworkSpecToJson(const NetworkSpec& network) {
  Json out = Json::object();
  if (!network.subdomain.empty()) out["subdomain"] = network.subdomain;
  if (network.min_host_port) out["hostPorts"]["min"] = *network.min_host_port;
  if (network.max_host_port) out["hostPorts"]["max"] = *network.max_host_port;
  return out;
}

void CheckNetworkSpec(const TfJobSpec& spec, std::vector<FieldError>& errors) {
  const NetworkSpec& network = spec.network;
  if (!network.subdomain.empty() && !IsDns1035Label(network.subdomain)) {
    errors.push_back({absl::StrCat(kNetworkPath, ".subdomain"),
                      absl::StrCat("\"", network.subdomain,
                                   "\": should match: a DNS-1035 label must consist of lower case "
                                   "letters, digits and '-', begin with a letter, not end with '-' "
                                   "and have at most ",
                                   kMaxLabel, " characters"),
                      "Invalid value"});
  }
  if (network.min_host_port || network.max_host_port) CheckHostPorts(spec, errors);
}

void LintNetwork(const TfJobSpec& spec, std::vector<FieldError>& warnings) {
  bool on_host = false;
  for (const auto& [key, replica] : *spec.replicas) {
    const Json& pod = base::At(replica.pod_template, "spec");
    const std::string path = absl::StrCat("spec.tfReplicaSpecs[", key, "].template.spec");
    if (IsOnHostNetwork(replica)) {
      on_host = true;
      const std::string policy = base::StringAt(pod, "dnsPolicy");
      if (policy.empty() || policy == "ClusterFirst") {
        warnings.push_back({path + ".hostNetwork",
                            "without dnsPolicy: ClusterFirstWithHostNet its pods ask the node's "
                            "name server, which does not know the names in TF_CONFIG",
                            "Warning"});
      }
    }
    for (const char* field : {"hostname", "subdomain"}) {
      if (spec.network.subdomain.empty() || base::StringAt(pod, field).empty()) continue;
      warnings.push_back({absl::StrCat(path, ".", field),
                          absl::StrCat("is overwritten because of ", kNetworkPath, ".subdomain"),
                          "Warning"});
    }
  }
  if (on_host || !HasHostPorts(spec)) return;
  warnings.push_back({absl::StrCat(kNetworkPath, ".hostPorts"),
                      "no template has hostNetwork: true, so none is given out", "Warning"});
}

bool IsDns1035Label(const std::string& name) {
  const auto is_allowed = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  return !name.empty() && name.size() <= kMaxLabel &&
         absl::ascii_islower(static_cast<unsigned char>(name.front())) && name.back() != '-' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

bool IsOnHostNetwork(const ReplicaSpec& replica) {
  return base::BoolAt(base::At(replica.pod_template, "spec"), "hostNetwork");
}

std::optional<int> HostPortOf(const TfJob& job, const std::string& type, int index) {
  if (!HasHostPorts(job.spec)) return std::nullopt;
  const auto place = job.spec.replicas->find(type);
  if (place == job.spec.replicas->end() || !IsOnHostNetwork(place->second)) return std::nullopt;
  const uint64_t rank = std::distance(job.spec.replicas->begin(), place);
  const uint64_t slot = static_cast<uint64_t>(index) * job.spec.replicas->size() + rank;
  const int min = *job.spec.network.min_host_port;
  const uint64_t ports = std::max(1, *job.spec.network.max_host_port - min + 1);
  return min + static_cast<int>((HashOf(job.metadata.uid) % ports + slot) % ports);
}

int TaskPortOf(const TfJob& job, const std::string& type, int index) {
  return HostPortOf(job, type, index).value_or(PortOf(job.spec.replicas->at(type)));
}

std::string HostOf(const TfJob& job, const std::string& type, int index) {
  const std::string& subdomain = job.spec.network.subdomain;
  return absl::StrCat(ReplicaName(job.metadata.name, type, index), subdomain.empty() ? "" : ".",
                      subdomain);
}

}  // namespace tfjob
