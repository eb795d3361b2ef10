#include "operator/reconcile/waiting.h"

#include <gtest/gtest.h>

namespace tfjob {
namespace {

PodView Waiting(const std::string& name, const std::string& reason) {
  return {.name = name, .owner_uid = "u", .waiting_reason = reason};
}

TEST(WaitingPods, ComeByReasonWithTheFirstAndTheirNumber) {
  Observed observed;
  observed.job.metadata.uid = "u";
  observed.pods = {Waiting("j-worker-1", "ErrImagePull"), Waiting("j-worker-0", "ErrImagePull"),
                   Waiting("j-worker-2", "ErrImagePull"), Waiting("j-ps-0", "Unschedulable"),
                   Waiting("j-ps-1", "")};
  const auto by_reason = WaitingPods(observed);
  ASSERT_EQ(by_reason.size(), 2u);
  EXPECT_EQ(by_reason.at("ErrImagePull").first->name, "j-worker-0");
  EXPECT_EQ(AndMore(by_reason.at("ErrImagePull")), " (and 2 more pods)");
  EXPECT_EQ(by_reason.at("Unschedulable").first->name, "j-ps-0");
  EXPECT_EQ(AndMore(by_reason.at("Unschedulable")), "");
}

TEST(WaitingPods, AreOursAndWillStay) {
  Observed observed;
  observed.job.metadata.uid = "u";
  observed.pods = {Waiting("j-ps-0", "ErrImagePull"), Waiting("j-ps-1", "ErrImagePull")};
  observed.pods[0].owner_uid = "another";
  observed.pods[1].deletion_time = absl::UnixEpoch();
  EXPECT_TRUE(WaitingPods(observed).empty());
}

}  // namespace
}  // namespace tfjob
