// YAML text to JSON in which every scalar is a string: what kubeconfig files need, where `1` and
// "1" mean the same. The only user of the YAML library in this room.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kube {

// `file` stands at the front of errors: kInvalidArgument "FILE:LINE: what is wrong". null stays
// null, an empty text is null. Bounded: 4 MiB, 20,000 values (aliases expanded), 32 levels.
absl::StatusOr<nlohmann::json> ReadYamlStrings(const std::string& file, std::string_view text);

}  // namespace kube
