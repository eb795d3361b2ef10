// Kubernetes quantities: "2", "500m", "1.5Gi", "1e3".
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace tfjob {

// The value in base units (1.5Gi → 1610612736). kInvalidArgument when it is no quantity.
absl::StatusOr<double> ParseQuantity(std::string_view text);

}  // namespace tfjob
