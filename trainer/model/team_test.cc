#include "trainer/model/team.h"

#include <gtest/gtest.h>

#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

namespace trainer {
namespace {

TEST(TeamTest, EveryThreadRunsItsPartOnceARound) {
  for (const int size : {1, 2, 5}) {
    Team team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> counts(size);
    for (int round = 0; round < 1000; ++round) team.Run([&](int i) { ++counts[i]; });
    EXPECT_EQ(counts, std::vector<int>(size, 1000));
  }
}

TEST(TeamTest, ARoundSeesWhatTheOneBeforeWrote) {
  Team team(3);
  std::vector<int> values(3, 1);
  std::vector<int> sums(3);
  for (int round = 0; round < 500; ++round) {
    team.Run([&](int i) { sums[i] = std::accumulate(values.begin(), values.end(), 0); });
    team.Run([&](int i) { values[i] = sums[(i + 1) % 3] % 1000; });
  }
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[1], values[2]);
}

TEST(TeamTest, TheCallerDoesPartZero) {
  Team team(4);
  std::thread::id id;
  team.Run([&](int i) {
    if (i == 0) id = std::this_thread::get_id();
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

// Two parts that wait for each other can only end if they run at the same time.
TEST(TeamTest, PartsRunSideBySide) {
  Team team(2);
  std::barrier meeting(2);
  for (int round = 0; round < 20; ++round) team.Run([&](int) { meeting.arrive_and_wait(); });
}

TEST(TeamTest, EndsWithoutHavingRun) { Team team(8); }

}  // namespace
}  // namespace trainer
