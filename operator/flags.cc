#include "operator/flags.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "operator/api/names.h"
#include "operator/runtime/listen_address.h"

namespace tfjob {
namespace {

// One flag. `set` gets the value as written; flags of kind kSwitch may stand without one.
struct Flag {
  enum class Kind { kValue, kSwitch };
  Kind kind = Kind::kValue;
  std::string help;
  std::function<absl::Status(const std::string&)> set;
};
using Flags = std::map<std::string, Flag>;

// What is judged only when all flags are known.
struct Pending {
  std::vector<std::string> schemes;
  std::optional<bool> enable_gangs;
};

absl::Status Bad(const std::string& value, const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat("\"", value, "\": must be ", wanted));
}

absl::StatusOr<bool> ToBool(const std::string& value) {
  static const std::set<std::string> kYes = {"", "1", "t", "T", "true", "TRUE", "True"};
  static const std::set<std::string> kNo = {"0", "f", "F", "false", "FALSE", "False"};
  if (kYes.contains(value)) return true;
  if (kNo.contains(value)) return false;
  return Bad(value, "true or false");
}

Flag Text(std::string* out, std::string help) {
  return {Flag::Kind::kValue, std::move(help), [out](const std::string& value) {
            *out = value;
            return absl::OkStatus();
          }};
}

Flag Switch(bool* out, std::string help) {
  return {Flag::Kind::kSwitch, std::move(help), [out](const std::string& value) {
            ASSIGN_OR_RETURN(*out, ToBool(value));
            return absl::OkStatus();
          }};
}

Flag Count(int* out, int max, std::string help) {
  return {Flag::Kind::kValue, std::move(help), [out, max](const std::string& value) {
            int count = 0;
            if (!absl::SimpleAtoi(value, &count) || count < 1 || count > max) {
              return Bad(value, absl::StrCat("a whole number from 1 to ", max));
            }
            *out = count;
            return absl::OkStatus();
          }};
}

Flag Time(absl::Duration* out, std::string help) {
  return {Flag::Kind::kValue, std::move(help), [out](const std::string& value) {
            absl::Duration duration;
            if (!absl::ParseDuration(value, &duration) || duration < absl::ZeroDuration()) {
              return Bad(value, "a duration such as 500ms or 15s");
            }
            *out = duration;
            return absl::OkStatus();
          }};
}

// Accepted, without effect; `why` says what is done instead.
Flag Ignored(OperatorOptions* options, const char* name, Flag::Kind kind, const char* why) {
  return {kind, absl::StrCat("no effect: ", why), [=](const std::string&) {
            options->notes.push_back(absl::StrCat("--", name, " has no effect: ", why));
            return absl::OkStatus();
          }};
}

absl::Status AddNamespaces(const std::string& value, std::vector<std::string>& out) {
  for (const absl::string_view part : absl::StrSplit(value, ',')) {
    const std::string ns(absl::StripAsciiWhitespace(part));
    if (ns.empty()) continue;
    const bool is_label = ns.size() <= 63 && std::all_of(ns.begin(), ns.end(), [](char c) {
                            return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
                          });
    if (!is_label) return Bad(ns, "the name of a namespace");
    if (std::find(out.begin(), out.end(), ns) == out.end()) out.push_back(ns);
  }
  return absl::OkStatus();
}

// ":8080", "127.0.0.1:8080", or "0" for none.
Flag Address(std::string* out, std::string help) {
  return {Flag::Kind::kValue, std::move(help), [out](const std::string& value) {
            if (value.empty() || !runtime::ParseListenAddress(value).ok()) {
              return Bad(value, "an address such as :8080 or 127.0.0.1:8080, or 0");
            }
            *out = value;
            return absl::OkStatus();
          }};
}

Flag LogFormatFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue, "text or json", [o](const std::string& value) {
            if (value != "text" && value != "json") return Bad(value, "text or json");
            o->log_format = value == "json" ? base::LogFormat::kJson : base::LogFormat::kText;
            return absl::OkStatus();
          }};
}

Flag LogLevelFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue, "debug, info, warning or error", [o](const std::string& value) {
            static const std::map<std::string, base::LogLevel> kLevels = {
                {"debug", base::LogLevel::kDebug},     {"info", base::LogLevel::kInfo},
                {"warning", base::LogLevel::kWarning}, {"warn", base::LogLevel::kWarning},
                {"error", base::LogLevel::kError},     {"panic", base::LogLevel::kError}};
            int verbosity = 0;
            if (const auto it = kLevels.find(absl::AsciiStrToLower(value)); it != kLevels.end()) {
              o->log_level = it->second;
            } else if (absl::SimpleAtoi(value, &verbosity) && verbosity > 0) {
              o->log_level = base::LogLevel::kDebug;
            } else {
              return Bad(value, "debug, info, warning, error or a number above 0");
            }
            return absl::OkStatus();
          }};
}

// K7: names in any case, each job kind that training-operator knows; of them TFJob is ours.
Flag SchemeFlag(std::vector<std::string>* out) {
  return {Flag::Kind::kValue, "job kind to serve (repeatable); TFJob is the one there is",
          [out](const std::string& value) {
            static const std::vector<std::string> kKinds = {"TFJob",  "PyTorchJob", "XGBoostJob",
                                                            "MPIJob", "PaddleJob",  "JAXJob"};
            for (const absl::string_view part : absl::StrSplit(value, ',', absl::SkipEmpty())) {
              const auto known = std::find_if(
                  kKinds.begin(), kKinds.end(),
                  [&](const std::string& kind) { return absl::EqualsIgnoreCase(kind, part); });
              if (known == kKinds.end()) {
                return Bad(std::string(part),
                           "TFJob, PyTorchJob, XGBoostJob, MPIJob, PaddleJob or JAXJob");
              }
              out->push_back(*known);
            }
            return absl::OkStatus();
          }};
}

Flag GangFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue,
          "scheduler that places each job as a whole, by a PodGroup: volcano, or one of "
          "scheduler-plugins; empty or none: each pod on its own",
          [o](const std::string& value) {
            const bool is_name = std::all_of(value.begin(), value.end(), [](char c) {
              return absl::ascii_isalnum(c) || c == '-' || c == '.';
            });
            if (!is_name) return Bad(value, "the name of a scheduler such as volcano");
            o->gang_scheduler = absl::EqualsIgnoreCase(value, "none") ? "" : value;
            return absl::OkStatus();
          }};
}

Flag TaskTlsFlag(OperatorOptions* o) {
  return {
      Flag::Kind::kValue,
      absl::StrCat("repositories of images whose jobs speak TLS between their tasks; empty: only "
                   "jobs with the annotation ",
                   kAnnotationTaskTls),
      [o](const std::string& value) {
        o->task_tls_images = absl::StrSplit(value, ',', absl::SkipEmpty());
        for (const std::string& image : o->task_tls_images) {
          if (IsImageOf(image, {image})) continue;
          return Bad(image, "a repository without tag, such as trainyard/trainer");
        }
        return absl::OkStatus();
      }};
}

// tf-operator's switch; its default for the name was volcano.
Flag EnableGangFlag(std::optional<bool>* enable) {
  return {Flag::Kind::kSwitch,
          "as --gang-scheduler-name=volcano unless that names another; false: no gangs at all",
          [enable](const std::string& value) {
            ASSIGN_OR_RETURN(*enable, ToBool(value));
            return absl::OkStatus();
          }};
}

// Until v1.4 training-operator took these for passing trouble: SIGINT, SIGKILL, SIGUSR1 ("retry
// me"), SIGTERM; all others for permanent.
const std::set<int>& RetryableUntilV14() {
  static const std::set<int> kCodes = {130, 137, 138, 143};
  return kCodes;
}

Flag RetryableExitCodesFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue,
          "exit codes after which policy ExitCode restarts a pod, e.g. 130,137,143; v1.4: those of "
          "training-operator up to v1.4 (130,137,138,143); empty: all from 128 on",
          [o](const std::string& value) {
            o->retryable_exit_codes.clear();
            if (value == "v1.4") {
              o->retryable_exit_codes = RetryableUntilV14();
              return absl::OkStatus();
            }
            if (value.empty()) return absl::OkStatus();
            for (const absl::string_view part : absl::StrSplit(value, ',')) {
              int code = 0;
              if (!absl::SimpleAtoi(part, &code) || code < 1 || code > 255) {
                return Bad(value, "v1.4, or exit codes from 1 to 255 with commas");
              }
              o->retryable_exit_codes.insert(code);
            }
            return absl::OkStatus();
          }};
}

Flag SidecarsFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue,
          absl::StrCat("containers that never end by themselves; a pod is judged by all others: it "
                       "has ended when they have. Default: ",
                       absl::StrJoin(o->sidecar_containers, ","), "; empty: none"),
          [o](const std::string& value) {
            o->sidecar_containers.clear();
            for (const absl::string_view name : absl::StrSplit(value, ',', absl::SkipEmpty())) {
              if (name == kContainerName) {
                return Bad(value,
                           "names of containers beside tensorflow, by which pods are judged");
              }
              o->sidecar_containers.emplace(name);
            }
            return absl::OkStatus();
          }};
}

Flag CompatFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue, "v1.9: behave as training-operator v1.9, even where that hurts",
          [o](const std::string& value) {
            if (value != "v1.9" && value != "none") return Bad(value, "v1.9 or none");
            o->compat_v19 = value == "v1.9";
            return absl::OkStatus();
          }};
}

Flag CleanPolicyFlag(OperatorOptions* o) {
  return {Flag::Kind::kValue, "cleanPodPolicy of jobs that name none: None, Running or All",
          [o](const std::string& value) {
            if (value != kCleanNone && value != kCleanRunning && value != kCleanAll) {
              return Bad(value, "None, Running or All");
            }
            o->default_clean_pod_policy = value;
            return absl::OkStatus();
          }};
}

void AddOwnFlags(OperatorOptions* o, Pending* pending, Flags& flags) {
  flags["kubeconfig"] =
      Text(&o->kubeconfig, "path of a kubeconfig; empty: as kubectl, or the pod's");
  flags["context"] = Text(&o->context, "context of the kubeconfig; empty: its current one");
  flags["master"] = Text(&o->master, "URL of the API server, instead of the configured one");
  flags["namespace"] = {Flag::Kind::kValue,
                        "namespace to serve (repeatable, or with commas); none: all",
                        [o](const std::string& v) { return AddNamespaces(v, o->namespaces); }};
  flags["metrics-bind-address"] =
      Address(&o->metrics_address, "address of /metrics and /debug/jobs; 0: none");
  flags["health-probe-bind-address"] =
      Address(&o->health_address, "address of /healthz and /readyz; 0: none");
  flags["page-bind-address"] = Address(
      &o->page_address,
      "address of a read-only page that shows jobs to whoever may list them; 0, the default: none");
  flags["leader-elect"] = Switch(&o->leader_elect, "only one operator at a time, by a Lease");
  flags["leader-election-id"] = Text(&o->leader_id, "name of the Lease");
  flags["leader-election-namespace"] =
      Text(&o->leader_namespace, "namespace of the Lease; empty: the pod's own");
  flags["leader-election-lease-duration"] = Time(&o->lease_duration, "when others may take over");
  flags["leader-election-renew-deadline"] =
      Time(&o->renew_deadline, "when the leader gives up if it cannot renew");
  flags["leader-election-retry-period"] = Time(&o->retry_period, "between two tries");
  flags["controller-threads"] = Count(&o->threads, 256, "jobs that are looked at side by side");
  flags["calls-per-job"] = Count(&o->calls_per_job, 256, "API calls of one job side by side");
  flags["status-delay"] =
      Time(&o->status_delay, "how long a status that differs only in counters may wait for more");
  flags["compat"] = CompatFlag(o);
  flags["default-clean-pod-policy"] = CleanPolicyFlag(o);
  flags["cluster-domain"] = Text(&o->cluster_domain,
                                 "appended to service names in TF_CONFIG; "
                                 "default: $CUSTOM_CLUSTER_DOMAIN");
  flags["evaluator-in-cluster"] =
      Switch(&o->evaluator_in_cluster, "list evaluators in TF_CONFIG's cluster, as v1.9 does");
  flags["lost-pod-timeout"] = Time(
      &o->lost_pod_timeout,
      "pods of lost nodes are deleted by force when they should have been gone for so long, so "
      "that others take their place; 0: never");
  flags["legacy-labels"] = Switch(
      &o->legacy_labels,
      "pods and services also get the labels of tf-operator and of training-operator up to v1.5: "
      "group-name, [tf-]job-name, [tf-]replica-type, [tf-]replica-index, [tf-]job-role");
  flags["retryable-exit-codes"] = RetryableExitCodesFlag(o);
  flags["sidecar-containers"] = SidecarsFlag(o);
  flags["log-format"] = LogFormatFlag(o);
  flags["log-level"] = LogLevelFlag(o);
  flags["gang-scheduler-name"] = GangFlag(o);
  flags["task-tls-images"] = TaskTlsFlag(o);
  flags["enable-scheme"] = SchemeFlag(&pending->schemes);
  flags["check"] =
      Switch(&o->check,
             "look, with the other flags, whether TFJobs are served, all rights are granted and "
             "somebody leads; print it and exit, with 1 where something is missing");
  flags["version"] = Switch(&o->show_version, "print the version and exit");
  flags["help"] = Switch(&o->show_help, "print this and exit");
}

// Of training-operator v1.9 and tf-operator.
void AddOldFlags(OperatorOptions* o, Pending* pending, Flags& flags) {
  constexpr Flag::Kind kValue = Flag::Kind::kValue;
  constexpr Flag::Kind kSwitch = Flag::Kind::kSwitch;
  const auto ignore = [&](const char* name, const char* why, Flag::Kind kind = Flag::Kind::kValue) {
    flags[name] = Ignored(o, name, kind, why);
  };
  flags["enable-gang-scheduling"] = EnableGangFlag(&pending->enable_gangs);
  flags["threadiness"] = flags["controller-threads"];
  flags["monitoring-port"] = {kValue, "port of /metrics", [o](const std::string& value) {
                                int port = 0;
                                if (!absl::SimpleAtoi(value, &port) || port < 0 || port > 65535) {
                                  return Bad(value, "a port number");
                                }
                                o->metrics_address = absl::StrCat(":", port);
                                return absl::OkStatus();
                              }};
  flags["json-log-format"] = {kSwitch, "logs as JSON", [o](const std::string& value) {
                                ASSIGN_OR_RETURN(const bool json, ToBool(value));
                                o->log_format =
                                    json ? base::LogFormat::kJson : base::LogFormat::kText;
                                return absl::OkStatus();
                              }};
  flags["zap-encoder"] = {kValue, "json or console", [o](const std::string& value) {
                            if (value != "json" && value != "console") {
                              return Bad(value, "json or console");
                            }
                            o->log_format =
                                value == "json" ? base::LogFormat::kJson : base::LogFormat::kText;
                            return absl::OkStatus();
                          }};
  flags["zap-log-level"] = LogLevelFlag(o);
  ignore("zap-devel", "logs have one form", kSwitch);
  ignore("zap-stacktrace-level", "logs carry no stack traces");
  ignore("zap-time-encoding", "times are written as RFC 3339");
  for (const char* name : {"kube-api-qps", "kube-api-burst", "qps", "burst"}) {
    ignore(name, "requests are not throttled here; the API server's priority and fairness does it");
  }
  for (const char* name : {"resyc-period", "resync-period"}) {
    ignore(name, "watches are complete, nothing needs to be looked at again in turn");
  }
  for (const char* name : {"webhook-server-port", "webhook-service-name", "webhook-secret-name"}) {
    ignore(name, "there is no webhook; the CRD and the operator validate");
  }
  for (const char* name : {"pytorch-init-container-image", "pytorch-init-container-template-file",
                           "pytorch-init-container-max-tries", "mpi-kubectl-delivery-image"}) {
    ignore(name, "only TFJobs are served");
  }
}

Flags AllFlags(OperatorOptions* options, Pending* pending) {
  Flags flags;
  AddOwnFlags(options, pending, flags);
  AddOldFlags(options, pending, flags);
  return flags;
}

absl::Status Unknown(const std::string& name, const Flags& flags) {
  std::vector<std::string> names;
  for (const auto& [known, flag] : flags) names.push_back(known);
  const std::string nearest = base::Nearest(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "no flag --", name,
      nearest.empty() ? "; --help lists them" : absl::StrCat("; did you mean --", nearest, "?")));
}

// Go's conventions: one or two dashes, "--flag=value" or "--flag value", switches without value.
absl::Status ParseAll(const std::vector<std::string>& arguments, const Flags& flags) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
    if (dashes < 1 || dashes > 2 || dashes == argument.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument, "\": only flags are taken, such as --namespace=ml"));
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(dashes, equals - dashes);
    const auto flag = flags.find(name == "h" ? "help" : name);
    if (flag == flags.end()) return Unknown(name, flags);
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (flag->second.kind == Flag::Kind::kValue) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      }
      value = arguments[++i];
    }
    if (const absl::Status set = flag->second.set(value); !set.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, "=", set.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTogether(const OperatorOptions& options,
                           const std::vector<std::string>& schemes) {
  if (!schemes.empty() && std::find(schemes.begin(), schemes.end(), "TFJob") == schemes.end()) {
    return absl::InvalidArgumentError(
        "--enable-scheme names no TFJob, and this operator serves nothing else");
  }
  if (options.leader_elect && !(options.retry_period < options.renew_deadline &&
                                options.renew_deadline < options.lease_duration)) {
    return absl::InvalidArgumentError(
        "leader election needs retry period < renew deadline < lease duration");
  }
  if (options.leader_elect && options.leader_id.empty()) {
    return absl::InvalidArgumentError("--leader-election-id must not be empty");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OperatorOptions> ParseFlags(
    const std::vector<std::string>& arguments,
    const std::function<std::string(const char*)>& environment) {
  OperatorOptions options;
  options.cluster_domain = environment("CUSTOM_CLUSTER_DOMAIN");
  options.leader_namespace = environment("MY_POD_NAMESPACE");
  Pending pending;
  RETURN_IF_ERROR(ParseAll(arguments, AllFlags(&options, &pending)));
  if (pending.enable_gangs == false) options.gang_scheduler.clear();
  if (pending.enable_gangs == true && options.gang_scheduler.empty()) {
    options.gang_scheduler = kVolcano;
  }
  for (const std::string& scheme : pending.schemes) {
    if (scheme != "TFJob") {
      options.notes.push_back(
          absl::StrCat("--enable-scheme=", scheme, " has no effect: only TFJobs are served"));
    }
  }
  if (options.namespaces.empty()) {
    if (const absl::Status added =
            AddNamespaces(environment("KUBEFLOW_NAMESPACE"), options.namespaces);
        !added.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("$KUBEFLOW_NAMESPACE: ", added.message()));
    }
  }
  RETURN_IF_ERROR(CheckTogether(options, pending.schemes));
  return options;
}

std::string FlagsHelp() {
  OperatorOptions options;
  Pending pending;
  std::string out = "trainyard-operator: runs kubeflow.org/v1 TFJobs on a Kubernetes cluster.\n\n";
  for (const auto& [name, flag] : AllFlags(&options, &pending)) {
    absl::StrAppend(&out, "  --", name, flag.kind == Flag::Kind::kValue ? "=VALUE" : "", "\n      ",
                    flag.help, "\n");
  }
  return out;
}

}  // namespace tfjob
