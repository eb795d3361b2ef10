// JSON as block-style YAML, keys sorted; what is read back is the same JSON. PURE.
#pragma once

#include <string>

#include "operator/api/tfjob.h"

namespace tfjob {

// Ends with a newline.
std::string ToYaml(const Json& value);

}  // namespace tfjob
