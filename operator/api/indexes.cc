#include "operator/api/indexes.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tfjob {
namespace {

constexpr int kMaxIndexes = 1'000'000;  // bounds what a manifest may ask us to hold

}  // namespace

std::optional<std::set<int>> ParseIndexes(const std::string& text) {
  std::set<int> indexes;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!absl::SimpleAtoi(range.first, &first)) return std::nullopt;
    last = first;
    if (!range.second.empty() && !absl::SimpleAtoi(range.second, &last)) return std::nullopt;
    if (first < 0 || last < first || last >= kMaxIndexes) return std::nullopt;
    for (int i = first; i <= last; ++i) indexes.insert(indexes.end(), i);
  }
  return indexes;
}

std::string IndexRanges(const std::set<int>& indexes) {
  std::vector<std::string> parts;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const int first = *it;
    int last = first;
    while (++it != indexes.end() && *it == last + 1) last = *it;
    parts.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
  }
  return absl::StrJoin(parts, ",");
}

}  // namespace tfjob
