// The replica type that a rule of the job names. PURE.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// However the job spells it; null: it has none. Takes a job that has replicas.
inline const ReplicaSpec* FindReplica(const TfJobSpec& spec, const std::string& type) {
  for (const auto& [key, replica] : *spec.replicas) {
    if (CanonicalReplicaType(key) == CanonicalReplicaType(type)) return &replica;
  }
  return nullptr;
}

// The same, with an error about the field replicaTypes of the rule at `path` where there is none.
inline const ReplicaSpec* FindReplicaOfRule(const TfJobSpec& spec, const std::string& type,
                                            const std::string& path,
                                            std::vector<FieldError>& errors) {
  const ReplicaSpec* const found = FindReplica(spec, type);
  if (found == nullptr) {
    errors.push_back({path + ".replicaTypes",
                      absl::StrCat("\"", type, "\" is no replica type of this job"),
                      "Invalid value"});
  }
  return found;
}

}  // namespace tfjob
