// spec.runPolicy.successPolicy: rules that say when the job has succeeded, named as in the
// successPolicy of a Job. PURE.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/object_reader.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// The rules of {"rules": […]}; what is wrong with them is noted by the reader.
std::vector<SuccessRule> ReadSuccessPolicy(ObjectReader policy);
Json SuccessPolicyToJson(const std::vector<SuccessRule>& rules);

// Every rule speaks of types of this job and can hold.
void CheckSuccessPolicy(const TfJobSpec& spec, std::vector<FieldError>& errors);
// Rules that ask for more replicas than there are.
void LintSuccessPolicy(const TfJobSpec& spec, std::vector<FieldError>& warnings);

// Whether a rule holds where these indexes of a type have succeeded. `count`: of its replicas.
bool Holds(const SuccessRule& rule, const std::set<int>& succeeded, int count);

}  // namespace tfjob
