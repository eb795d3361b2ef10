// What a plain (unquoted) YAML scalar means to Kubernetes, whose reader follows YAML 1.1: yes and
// on are true, 0x1F and 017 are integers, dates stay strings. PURE.
#pragma once

#include <optional>
#include <string_view>

#include "operator/api/tfjob.h"

namespace tfjob {

// Null, boolean, integer, number or string. nullopt for .inf and .nan, which JSON cannot hold.
std::optional<Json> ResolveScalar(std::string_view text);

}  // namespace tfjob
