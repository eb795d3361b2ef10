// spec.runPolicy.failurePolicy: rules that say what follows when a pod fails, named as in the
// podFailurePolicy of a Job. PURE.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object_reader.h"
#include "operator/api/tfjob.h"

namespace tfjob {

// The rules of {"rules": […]}; what is wrong with them is noted by the reader.
std::vector<FailureRule> ReadFailurePolicy(ObjectReader policy);
Json FailurePolicyToJson(const std::vector<FailureRule>& rules);

// Every rule does something known about something that can happen.
void CheckFailurePolicy(const TfJobSpec& spec, std::vector<FieldError>& errors);

}  // namespace tfjob
