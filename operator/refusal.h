// What a refused write means for a job: whether the next try may go through, and who has to do
// what. PURE.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tfjob {

// Nobody has to do anything about it: no connection, overload, conflict.
bool MayPass(const absl::Status& error);

// What a user or an administrator has to do about it; "" if that is not known.
std::string AdviceFor(const absl::Status& error);

// The refusal of a creation in one sentence, with `advice`, or AdviceFor it where that is "".
std::string ErrorCreating(const absl::Status& error, std::string advice = "");

}  // namespace tfjob
