// Which ps holds which part of which variable. PURE.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/model.h"

namespace trainer {

enum class Placement { kRoundRobin, kBalanced, kPartitioned };
// "round_robin", "balanced", "partitioned"; kInvalidArgument names the choices otherwise.
absl::StatusOr<Placement> ParsePlacement(std::string_view name);

// A contiguous run of one variable's elements: whole, or a block of rows (first axis) of it.
struct Segment {
  int variable = 0;          // index into Model::variables()
  int64_t flat_offset = 0;   // in the model's flat buffer
  int64_t shard_offset = 0;  // in the shard's own flat buffer
  int64_t length = 0;        // elements
  bool operator==(const Segment&) const = default;
};

struct Shard {
  std::vector<Segment> segments;
  int64_t size = 0;  // elements
};

// Places `variables` on ps_count shards; every element lands in exactly one. round_robin: variable
// i on ps i mod n, as the classic device setter does; balanced: biggest first on the emptiest;
// partitioned: variables of 64 Ki elements or more are split by rows over all ps, the rest
// balanced. A shard may be empty. Deterministic.
std::vector<Shard> PlaceVariables(std::span<const Variable> variables, int ps_count,
                                  Placement placement);

}  // namespace trainer
