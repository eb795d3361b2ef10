#include "operator/api/failure_policy.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "operator/api/find_replica.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

using Errors = std::vector<FieldError>;

constexpr char kFailureRules[] = "spec.runPolicy.failurePolicy.rules";
constexpr std::array<const char*, 4> kActions = {kFailJob, kRestartReplica, kRestartJob, kIgnore};

FailureRule ReadFailureRule(ObjectReader& rule) {
  FailureRule out;
  out.action = rule.String("action");
  for (const std::string& type : rule.Strings("replicaTypes")) out.types.insert(type);
  if (ObjectReader codes = rule.Object("onExitCodes"); !codes.absent()) {
    const std::string in = codes.String("operator");
    if (in != kIn && in != kNotIn) {
      codes.Error("operator", "Unsupported value",
                  absl::StrCat("\"", in, "\": must be one of In, NotIn"));
    }
    out.exit_codes = {.in = in != kNotIn};
    for (const int64_t code : codes.Integers("values", 0, 255)) {
      out.exit_codes->values.insert(static_cast<int>(code));
    }
    codes.WarnUnknown();
  }
  for (ObjectReader& condition : rule.Objects("onPodConditions")) {
    const std::string type = condition.String("type");
    const std::string status = condition.String("status");
    if (type.empty()) condition.Error("type", "Required value", "e.g. DisruptionTarget");
    out.pod_conditions[type] = status.empty() ? kTrue : status;
    condition.WarnUnknown();
  }
  if (ObjectReader pending = rule.Object("onPodPending"); !pending.absent()) {
    out.pending_seconds = pending.Int32("timeoutSeconds");
    if (!out.pending_seconds) {
      pending.Error("timeoutSeconds", "Required value", "how long a pod may be Pending, e.g. 300");
    }
    pending.WarnUnknown();
  }
  constexpr char kCounts[] = "countTowardsBackoffLimit";
  out.counts = rule.Raw(kCounts) == nullptr || rule.Bool(kCounts);
  rule.WarnUnknown();
  return out;
}

void CheckExitCodes(const std::string& path, const ExitCodeSet& codes, Errors& errors) {
  if (codes.values.empty()) {
    errors.push_back({path + ".values", "must have at least one exit code", "Required value"});
  }
  if (codes.in && codes.values.contains(0)) {
    errors.push_back({path + ".values", "0 is the exit code of success", "Invalid value"});
  }
}

void CheckPending(const std::string& path, const FailureRule& rule, Errors& errors) {
  if (*rule.pending_seconds < 1) {
    errors.push_back({path + ".onPodPending.timeoutSeconds",
                      absl::StrCat(*rule.pending_seconds, ": must be 1 or more"), "Invalid value"});
  }
  if (rule.action == kIgnore) {
    errors.push_back({path + ".action",
                      "Ignore means nothing for a pod that has not failed; leave the rule out",
                      "Forbidden"});
  }
}

// The kubelet restarts the containers of such pods itself, so they never end with an exit code.
bool IsRestartedByKubelet(const ReplicaSpec& replica) {
  return replica.restart_policy == kRestartAlways || replica.restart_policy == kRestartOnFailure;
}

void CheckTypes(const std::string& path, const FailureRule& rule, const TfJobSpec& spec,
                Errors& errors) {
  for (const std::string& type : rule.types) {
    const ReplicaSpec* const replica = FindReplicaOfRule(spec, type, path, errors);
    if (replica != nullptr && rule.exit_codes && IsRestartedByKubelet(*replica)) {
      errors.push_back(
          {path + ".onExitCodes",
           absl::StrCat("never matches a pod of ", type, ", whose restartPolicy ",
                        replica->restart_policy,
                        " restarts its containers in place; use ExitCode or Never there"),
           "Invalid value"});
    }
  }
}

}  // namespace

std::vector<FailureRule> ReadFailurePolicy(ObjectReader policy) {
  std::vector<FailureRule> rules;
  for (ObjectReader& rule : policy.Objects("rules")) rules.push_back(ReadFailureRule(rule));
  policy.WarnUnknown();
  return rules;
}

Json FailurePolicyToJson(const std::vector<FailureRule>& rules) {
  Json out = Json::array();
  for (const FailureRule& rule : rules) {
    Json entry = {{"action", rule.action}};
    if (!rule.types.empty()) entry["replicaTypes"] = rule.types;
    if (rule.exit_codes) {
      entry["onExitCodes"] = {{"operator", rule.exit_codes->in ? kIn : kNotIn},
                              {"values", rule.exit_codes->values}};
    }
    for (const auto& [type, status] : rule.pod_conditions) {
      entry["onPodConditions"].push_back({{"type", type}, {"status", status}});
    }
    if (rule.pending_seconds) entry["onPodPending"]["timeoutSeconds"] = *rule.pending_seconds;
    if (!rule.counts) entry["countTowardsBackoffLimit"] = false;
    out.push_back(std::move(entry));
  }
  return {{"rules", std::move(out)}};
}

void CheckFailurePolicy(const TfJobSpec& spec, Errors& errors) {
  for (size_t i = 0; i < spec.run_policy.failure_rules.size(); ++i) {
    const FailureRule& rule = spec.run_policy.failure_rules[i];
    const std::string path = absl::StrCat(kFailureRules, "[", i, "]");
    if (std::find(kActions.begin(), kActions.end(), rule.action) == kActions.end()) {
      errors.push_back(
          {path + ".action",
           absl::StrCat("\"", rule.action, "\": must be one of ", absl::StrJoin(kActions, ", ")),
           "Unsupported value"});
    }
    if (rule.exit_codes) CheckExitCodes(path + ".onExitCodes", *rule.exit_codes, errors);
    const int kinds = (rule.exit_codes ? 1 : 0) + (rule.pod_conditions.empty() ? 0 : 1) +
                      (rule.pending_seconds ? 1 : 0);
    if (kinds > 1) {
      errors.push_back({path,
                        "must have one of onExitCodes, onPodConditions and onPodPending; make it "
                        "several rules",
                        "Forbidden"});
    }
    if (rule.pending_seconds) CheckPending(path, rule, errors);
    if (!rule.counts && rule.action != kRestartReplica && rule.action != kRestartJob) {
      errors.push_back({path + ".countTowardsBackoffLimit",
                        absl::StrCat("means nothing for ", rule.action,
                                     ", which restarts nothing "
                                     "that counts"),
                        "Forbidden"});
    }
    if (spec.replicas) CheckTypes(path, rule, spec, errors);
  }
}

}  // namespace tfjob
