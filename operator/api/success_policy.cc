#include "operator/api/success_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "operator/api/find_replica.h"
#include "operator/api/indexes.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

constexpr char kSuccessRules[] = "spec.runPolicy.successPolicy.rules";

SuccessRule ReadSuccessRule(ObjectReader& rule) {
  SuccessRule out;
  for (const std::string& type : rule.Strings("replicaTypes")) out.types.insert(type);
  const std::optional<std::set<int>> indexes = ParseIndexes(rule.String("succeededIndexes"));
  if (indexes) {
    out.indexes = *indexes;
  } else {
    rule.Error("succeededIndexes", "Invalid value", "must be indexes like 0,2-4");
  }
  out.count = rule.Int32("succeededCount");
  rule.WarnUnknown();
  return out;
}

}  // namespace

std::vector<SuccessRule> ReadSuccessPolicy(ObjectReader policy) {
  std::vector<SuccessRule> rules;
  for (ObjectReader& rule : policy.Objects("rules")) rules.push_back(ReadSuccessRule(rule));
  policy.WarnUnknown();
  return rules;
}

Json SuccessPolicyToJson(const std::vector<SuccessRule>& rules) {
  Json out = Json::array();
  for (const SuccessRule& rule : rules) {
    Json entry = {{"replicaTypes", rule.types}};
    if (!rule.indexes.empty()) entry["succeededIndexes"] = IndexRanges(rule.indexes);
    if (rule.count) entry["succeededCount"] = *rule.count;
    out.push_back(std::move(entry));
  }
  return {{"rules", std::move(out)}};
}

void CheckSuccessPolicy(const TfJobSpec& spec, std::vector<FieldError>& errors) {
  for (size_t i = 0; i < spec.run_policy.success_rules.size(); ++i) {
    const SuccessRule& rule = spec.run_policy.success_rules[i];
    const std::string path = absl::StrCat(kSuccessRules, "[", i, "]");
    if (rule.types.empty()) {
      errors.push_back(
          {path + ".replicaTypes", "whose success is meant, e.g. [Worker]", "Required value"});
    }
    if (rule.indexes.empty() && !rule.count) {
      errors.push_back(
          {path, "must have succeededIndexes, succeededCount or both", "Required value"});
    }
    if (rule.count && *rule.count < 1) {
      errors.push_back({path + ".succeededCount", absl::StrCat(*rule.count, ": must be 1 or more"),
                        "Invalid value"});
    }
    if (rule.count && !rule.indexes.empty() &&
        *rule.count > static_cast<int>(rule.indexes.size())) {
      errors.push_back(
          {path + ".succeededCount",
           absl::StrCat(*rule.count, ": succeededIndexes has only ", rule.indexes.size()),
           "Invalid value"});
    }
    if (!spec.replicas) continue;
    for (const std::string& type : rule.types) {
      FindReplicaOfRule(spec, type, path, errors);
    }
  }
}

void LintSuccessPolicy(const TfJobSpec& spec, std::vector<FieldError>& warnings) {
  if (!spec.run_policy.success_rules.empty() && !spec.success_policy.empty()) {
    warnings.push_back(
        {"spec.successPolicy", absl::StrCat("has no effect beside ", kSuccessRules), "Warning"});
  }
  for (size_t i = 0; i < spec.run_policy.success_rules.size(); ++i) {
    const SuccessRule& rule = spec.run_policy.success_rules[i];
    for (const std::string& type : rule.types) {
      const ReplicaSpec* replica = FindReplica(spec, type);
      if (replica == nullptr) continue;
      const int count = replica->replicas.value_or(1);
      std::set<int> all;
      for (int index = 0; index < std::min(count, kMaxReplicas); ++index) all.insert(index);
      if (Holds(rule, all, count)) continue;
      warnings.push_back({absl::StrCat(kSuccessRules, "[", i, "]"),
                          absl::StrCat("asks for more than the ", count, " replicas of ", type,
                                       ": it never holds"),
                          "Warning"});
    }
  }
}

bool Holds(const SuccessRule& rule, const std::set<int>& succeeded, int count) {
  const auto counts = [&](int index) {
    return rule.indexes.empty() || rule.indexes.contains(index);
  };
  const auto done = std::count_if(succeeded.begin(), succeeded.end(), counts);
  const size_t all = rule.indexes.empty() ? count : rule.indexes.size();
  return done >= rule.count.value_or(static_cast<int>(all));
}

}  // namespace tfjob
