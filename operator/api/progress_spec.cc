#include "operator/api/progress_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/nearest.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

constexpr int kMaxPort = 65535;
constexpr size_t kMaxPortName = 15;
constexpr char kProgressPath[] = "spec.progress";

// As Kubernetes names ports (RFC 6335).
bool IsPortName(const std::string& name) {
  const auto is_allowed = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  return !name.empty() && name.size() <= kMaxPortName && name.front() != '-' &&
         name.back() != '-' && name.find("--") == std::string::npos &&
         std::all_of(name.begin(), name.end(), is_allowed) &&
         std::any_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_islower(c); });
}

bool IsPort(const Json& number) {
  return number.is_number_integer() && number >= 1 && number <= kMaxPort;
}

// The ports of the container `tensorflow` of the replica that reports.
const Json& PortsOfReporter(const TfJobSpec& spec) {
  const std::string type = ReporterType(spec);
  if (type.empty()) return base::ArrayAt(Json(), "");
  const Json& pod_template = spec.replicas->at(type).pod_template;
  const std::optional<size_t> container = TensorflowContainer(pod_template);
  if (!container) return base::ArrayAt(Json(), "");
  return base::ArrayAt(base::At(pod_template, "spec", "containers")[*container], "ports");
}

std::string NameToLookFor(const TfJobSpec& spec) {
  return spec.progress && !spec.progress->port_name.empty() ? spec.progress->port_name
                                                            : kProgressPortName;
}

}  // namespace

std::string ReporterType(const TfJobSpec& spec) {
  std::string reporter;
  if (!spec.replicas) return reporter;
  for (const auto& [key, replica] : *spec.replicas) {
    if (replica.replicas.value_or(1) < 1) continue;
    const std::string type = CanonicalReplicaType(key);
    if (IsChiefLike(type)) return key;
    if (type == kWorker) reporter = key;
  }
  return reporter;
}

std::optional<int> ProgressPort(const TfJobSpec& spec) {
  if (spec.progress && spec.progress->port) return spec.progress->port;
  const std::string name = NameToLookFor(spec);
  for (const Json& port : PortsOfReporter(spec)) {
    const Json& number = base::At(port, "containerPort");
    if (base::StringAt(port, "name") == name && IsPort(number)) return number.get<int>();
  }
  return std::nullopt;
}

std::optional<ProgressSpec> ReadProgressSpec(ObjectReader progress) {
  if (progress.absent()) return std::nullopt;
  ProgressSpec out;
  if (const Json* port = progress.Raw("port"); port != nullptr && port->is_string()) {
    out.port_name = port->get<std::string>();
    if (out.port_name.empty()) {
      progress.Error("port", "Invalid value", "\"\": must be a port number or a port's name");
    }
  } else if (port != nullptr) {
    const std::optional<int64_t> number = progress.Integer("port", 1, kMaxPort);
    if (number) out.port = static_cast<int>(*number);
  }
  out.interval_seconds = progress.Int32("intervalSeconds");
  out.stall_seconds = progress.Int32("stallSeconds");
  out.stall_action = progress.String("stallAction");
  progress.WarnUnknown();
  return out;
}

Json ProgressSpecToJson(const ProgressSpec& progress) {
  Json out = Json::object();
  if (progress.port) out["port"] = *progress.port;
  if (!progress.port_name.empty()) out["port"] = progress.port_name;
  if (progress.interval_seconds) out["intervalSeconds"] = *progress.interval_seconds;
  if (progress.stall_seconds) out["stallSeconds"] = *progress.stall_seconds;
  if (!progress.stall_action.empty()) out["stallAction"] = progress.stall_action;
  return out;
}

void CheckProgressSpec(const ProgressSpec& progress, std::vector<FieldError>& errors) {
  if (!progress.port_name.empty() && !IsPortName(progress.port_name)) {
    errors.push_back({absl::StrCat(kProgressPath, ".port"),
                      absl::StrCat("\"", progress.port_name,
                                   "\": must be a port number without quotes, or the name of a "
                                   "container port: at most ",
                                   kMaxPortName, " lower case letters, digits and '-'"),
                      "Invalid value"});
  }
  if (progress.interval_seconds && *progress.interval_seconds < kMinProgressSeconds) {
    errors.push_back(
        {absl::StrCat(kProgressPath, ".intervalSeconds"),
         absl::StrCat(*progress.interval_seconds, ": must be ", kMinProgressSeconds, " or more"),
         "Invalid value"});
  }
  if (!progress.stall_action.empty() && progress.stall_action != kRestartJob &&
      progress.stall_action != kFailJob) {
    errors.push_back({absl::StrCat(kProgressPath, ".stallAction"),
                      absl::StrCat("\"", progress.stall_action, "\": must be one of ", kRestartJob,
                                   ", ", kFailJob),
                      "Unsupported value"});
  }
  if (!progress.stall_seconds && !progress.stall_action.empty()) {
    errors.push_back({absl::StrCat(kProgressPath, ".stallSeconds"),
                      "must be given where stallAction is: without it nothing is stalled",
                      "Required value"});
  }
  if (!progress.stall_seconds) return;
  const int64_t twice = int64_t{2} * progress.interval_seconds.value_or(kDefaultProgressSeconds);
  if (*progress.stall_seconds < std::max<int64_t>(kMinStallSeconds, twice)) {
    errors.push_back({absl::StrCat(kProgressPath, ".stallSeconds"),
                      absl::StrCat(*progress.stall_seconds, ": must be ", kMinStallSeconds,
                                   " or more, and at least twice intervalSeconds"),
                      "Invalid value"});
  }
}

std::string WhyNoProgressPort(const TfJobSpec& spec) {
  if (!spec.progress || ProgressPort(spec)) return "";
  const std::string type = ReporterType(spec);
  if (type.empty()) return "nobody is asked: the job has no Chief, Master or Worker";
  const std::string name = NameToLookFor(spec);
  std::vector<std::string> names;
  for (const Json& port : PortsOfReporter(spec)) names.push_back(base::StringAt(port, "name"));
  const std::string nearest = base::Nearest(name, names);
  return absl::StrCat("nobody is asked: the container ", kContainerName, " of ", type,
                      " has no port named \"", name, "\"",
                      nearest.empty() ? "; name one so, or give port a number"
                                      : absl::StrCat("; did you mean \"", nearest, "\"?"));
}

}  // namespace tfjob
