// "Did you mean …?" for mistyped names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace base {

// The candidate with the smallest edit distance to `name` (insertions, deletions, substitutions,
// swapped neighbours), if that distance is at most a third of the name's length rounded up; "" if
// none is near.
std::string Nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace base
