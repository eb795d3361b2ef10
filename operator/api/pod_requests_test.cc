#include "operator/api/pod_requests.h"

#include <gtest/gtest.h>

namespace tfjob {
namespace {

Json Asking(const Json& requests, const Json& limits = Json::object()) {
  return {{"resources", {{"requests", requests}, {"limits", limits}}}};
}

TEST(PodRequests, OfContainersAddUpAndLimitsStandInForRequests) {
  Json pod;
  pod["spec"]["containers"] = Json::array(
      {Asking({{"cpu", "500m"}}, {{"cpu", 4}, {"nvidia.com/gpu", 1}}), Asking({{"cpu", 2}})});
  EXPECT_EQ(RequestsOfPod(pod), Amounts({{"cpu", 2.5}, {"nvidia.com/gpu", 1}}));
}

TEST(PodRequests, AnInitContainerRunsAloneAndASidecarBesideAllThatComeAfter) {
  Json pod;
  pod["spec"]["containers"] = Json::array({Asking({{"cpu", 2}})});
  Json& inits = pod["spec"]["initContainers"];
  inits = Json::array({Asking({{"cpu", 3}, {"memory", "1Ki"}})});
  EXPECT_EQ(RequestsOfPod(pod), Amounts({{"cpu", 3}, {"memory", 1024}}));
  inits.push_back(Asking({{"cpu", 1.5}}));
  inits.back()["restartPolicy"] = "Always";
  EXPECT_EQ(RequestsOfPod(pod), Amounts({{"cpu", 3.5}, {"memory", 1024}}));
}

TEST(PodRequests, WhatIsNoQuantityIsLeftOut) {
  EXPECT_EQ(RequestsOfPod(nullptr), Amounts());
  Json pod;
  pod["spec"]["containers"] = Json::array({Asking({{"cpu", "much"}}), Asking("all"), 5});
  EXPECT_EQ(RequestsOfPod(pod), Amounts());
}

}  // namespace
}  // namespace tfjob
