// Total readers of JSON that others wrote: a missing field or one of another type reads as empty.
// Validation reports such fields where they matter; these only keep us from failing on them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace base {

using Json = nlohmann::json;

// object[key], or a null.
const Json& At(const Json& object, std::string_view key);
// object[a][b], or a null.
const Json& At(const Json& object, std::string_view a, std::string_view b);
// object[key] if it is an array, else an empty array.
const Json& ArrayAt(const Json& object, std::string_view key);
std::string StringAt(const Json& object, std::string_view key);
bool BoolAt(const Json& object, std::string_view key);
// A time as Kubernetes writes it (RFC 3339); nullopt for any other text.
std::optional<absl::Time> TimeAt(const Json& object, std::string_view key);
// A string as it is, other scalars as JSON writes them ("2", "true"), null as "".
std::string Scalar(const Json& value);

}  // namespace base
