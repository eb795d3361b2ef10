#include "trainer/ps/partition.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/ps/test_cluster.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::vector<int64_t>> kMlp = {{784, 500}, {500}, {500, 10}, {10}};

std::vector<int> VariablesOf(const Shard& shard) {
  std::vector<int> variables;
  for (const Segment& segment : shard.segments) variables.push_back(segment.variable);
  return variables;
}

TEST(Partition, RoundRobinGoesByIndexAsTheClassicDeviceSetterDoes) {
  const auto shards = PlaceVariables(MakeVariables(kMlp), 2, Placement::kRoundRobin);
  EXPECT_THAT(VariablesOf(shards[0]), ElementsAre(0, 2));
  EXPECT_THAT(VariablesOf(shards[1]), ElementsAre(1, 3));
  EXPECT_EQ(shards[0].size, 784 * 500 + 500 * 10);
  EXPECT_EQ(shards[0].segments[1], (Segment{2, 392500, 392000, 5000}));
}

TEST(Partition, BalancedPutsTheBiggestOnTheEmptiest) {
  const auto shards = PlaceVariables(MakeVariables({{4}, {9}, {3}, {6}}), 2, Placement::kBalanced);
  EXPECT_THAT(VariablesOf(shards[0]), ElementsAre(1, 2));
  EXPECT_THAT(VariablesOf(shards[1]), ElementsAre(0, 3));
}

TEST(Partition, PartitionedSplitsLargeVariablesByRows) {
  const auto shards = PlaceVariables(MakeVariables(kMlp), 3, Placement::kPartitioned);
  EXPECT_EQ(shards[0].segments[0], (Segment{0, 0, 0, 261 * 500}));
  EXPECT_EQ(shards[1].segments[0], (Segment{0, 261 * 500, 0, 261 * 500}));
  EXPECT_EQ(shards[2].segments[0], (Segment{0, 522 * 500, 0, 262 * 500}));
}

TEST(Partition, SplitsNoFinerThanRows) {
  const auto shards = PlaceVariables(MakeVariables({{2, 100000}}), 3, Placement::kPartitioned);
  EXPECT_EQ(shards[0].size, 0);
  EXPECT_EQ(shards[1].size, 100000);
  EXPECT_EQ(shards[2].size, 100000);
}

TEST(Partition, EveryElementLandsInExactlyOneShard) {
  const auto variables =
      MakeVariables({{}, {300, 300}, {7}, {70000}, {2, 3, 5}, {1, 80000}, {0, 4}});
  for (const Placement placement :
       {Placement::kRoundRobin, Placement::kBalanced, Placement::kPartitioned}) {
    for (int n = 1; n <= 9; ++n) {
      std::vector<int> owners(variables.back().offset + variables.back().size);
      for (const Shard& shard : PlaceVariables(variables, n, placement)) {
        int64_t next = 0;
        for (const Segment& segment : shard.segments) {
          EXPECT_EQ(segment.shard_offset, next);
          next += segment.length;
          for (int64_t i = 0; i < segment.length; ++i) ++owners[segment.flat_offset + i];
        }
        EXPECT_EQ(shard.size, next);
      }
      EXPECT_TRUE(std::ranges::all_of(owners, [](int owner) { return owner == 1; })) << n << " ps";
    }
  }
}

TEST(Partition, NamesTheChoicesForAnUnknownPlacement) {
  EXPECT_EQ(*ParsePlacement("balanced"), Placement::kBalanced);
  EXPECT_EQ(*ParsePlacement("round_robin"), Placement::kRoundRobin);
  EXPECT_EQ(*ParsePlacement("partitioned"), Placement::kPartitioned);
  const auto wrong = ParsePlacement("roundrobin");
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.status()));
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("choose round_robin, balanced or partitioned"));
}

}  // namespace
}  // namespace trainer
