#include "trainer/ps/partition.h"

#include <algorithm>
#include <numeric>

#include "base/exit_codes.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

// Smaller variables are not worth a second message: 64 Ki elements are 256 KiB.
constexpr int64_t kSplitThreshold = 64 * 1024;

Segment Whole(std::span<const Variable> variables, int index) {
  return {index, variables[index].offset, 0, variables[index].size};
}

void Append(Shard& shard, Segment segment) {
  shard.segments.push_back(segment);
  shard.size += segment.length;
}

// Biggest first on the emptiest shard; ties go to the lower index, so that the result is stable.
void Balance(std::span<const Variable> variables, std::vector<int> indexes,
             std::vector<Shard>& shards) {
  std::stable_sort(indexes.begin(), indexes.end(),
                   [&](int a, int b) { return variables[a].size > variables[b].size; });
  for (int index : indexes) {
    auto emptiest =
        std::min_element(shards.begin(), shards.end(),
                         [](const Shard& a, const Shard& b) { return a.size < b.size; });
    Append(*emptiest, Whole(variables, index));
  }
}

// Gives shard j the rows [rows·j/n, rows·(j+1)/n).
void Split(std::span<const Variable> variables, int index, std::vector<Shard>& shards) {
  const Variable& variable = variables[index];
  const int64_t rows = variable.shape.empty() ? 1 : variable.shape.front();
  const int64_t row_size = variable.size / rows;
  const int64_t n = static_cast<int64_t>(shards.size());
  for (int64_t j = 0; j < n; ++j) {
    const int64_t first = rows * j / n;
    const int64_t count = rows * (j + 1) / n - first;
    if (count == 0) continue;
    Append(shards[j], {index, variable.offset + first * row_size, 0, count * row_size});
  }
}

// Orders a shard as the flat buffer is and hands out its own offsets.
void LayOut(Shard& shard) {
  std::sort(shard.segments.begin(), shard.segments.end(),
            [](const Segment& a, const Segment& b) { return a.flat_offset < b.flat_offset; });
  int64_t offset = 0;
  for (Segment& segment : shard.segments) {
    segment.shard_offset = offset;
    offset += segment.length;
  }
}

}  // namespace

absl::StatusOr<Placement> ParsePlacement(std::string_view name) {
  if (name == "round_robin") return Placement::kRoundRobin;
  if (name == "balanced") return Placement::kBalanced;
  if (name == "partitioned") return Placement::kPartitioned;
  return base::UsageError(
      base::StrCat("unknown placement '", name, "'; choose round_robin, balanced or partitioned"));
}

std::vector<Shard> PlaceVariables(std::span<const Variable> variables, int ps_count,
                                  Placement placement) {
  std::vector<Shard> shards(std::max(ps_count, 1));
  std::vector<int> indexes(variables.size());
  std::iota(indexes.begin(), indexes.end(), 0);
  if (placement == Placement::kRoundRobin) {
    for (int index : indexes) Append(shards[index % shards.size()], Whole(variables, index));
  } else if (placement == Placement::kBalanced) {
    Balance(variables, indexes, shards);
  } else {
    auto big = std::stable_partition(indexes.begin(), indexes.end(), [&](int index) {
      return variables[index].size < kSplitThreshold;
    });
    for (auto it = big; it != indexes.end(); ++it) Split(variables, *it, shards);
    indexes.erase(big, indexes.end());
    Balance(variables, indexes, shards);
  }
  for (Shard& shard : shards) LayOut(shard);
  return shards;
}

}  // namespace trainer
