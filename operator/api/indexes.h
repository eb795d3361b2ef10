// Sets of indexes as text, in the form of a Job's completedIndexes: "0,2-4". PURE.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace tfjob {

// "0,2-4" → {0,2,3,4}; "" → {}; nullopt when malformed, or one is a million or more.
std::optional<std::set<int>> ParseIndexes(const std::string& text);
// {0,2,3,4} → "0,2-4".
std::string IndexRanges(const std::set<int>& indexes);

}  // namespace tfjob
