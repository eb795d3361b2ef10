#include "operator/api/shown.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tfjob {
namespace {

std::string StateWith(const std::set<std::string>& conditions) {
  return ShownState([&](const char* type) { return conditions.contains(type); });
}

TEST(Shown, TheStateIsTheConditionThatMattersMost) {
  EXPECT_EQ(StateWith({}), "New");
  EXPECT_EQ(StateWith({kCreated}), kCreated);
  EXPECT_EQ(StateWith({kCreated, kRunning, kStalled}), kStalled);
  EXPECT_EQ(StateWith({kCreated, kRunning, kRestarting}), kRestarting);
  EXPECT_EQ(StateWith({kCreated, kQueued, kBlocked}), kBlocked);
  EXPECT_EQ(StateWith({kRunning, kSucceeded, kFailed}), kFailed) << "success is taken back";
}

TEST(Shown, TypesComeInOneOrderWithThoseOfOnesOwnLast) {
  EXPECT_LT(TypeRank(kChief), TypeRank(kMaster));
  EXPECT_LT(TypeRank(kMaster), TypeRank(kPs));
  EXPECT_LT(TypeRank(kPs), TypeRank(kWorker));
  EXPECT_LT(TypeRank(kWorker), TypeRank(kEvaluator));
  EXPECT_LT(TypeRank(kEvaluator), TypeRank("Reader"));
}

}  // namespace
}  // namespace tfjob
