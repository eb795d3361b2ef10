#include "operator/kube/access_review.h"

#include <gtest/gtest.h>

namespace kube {
namespace {

TEST(AccessReview, AsksForOneVerbOnOneKindOfObject) {
  const Json review = AccessReview({.verb = "update", .resource = kLeases, .ns = "a", .name = "l"});
  EXPECT_EQ(review["kind"], "SelfSubjectAccessReview");
  const Json& asked = review["spec"]["resourceAttributes"];
  EXPECT_EQ(asked, Json({{"verb", "update"},
                         {"group", "coordination.k8s.io"},
                         {"resource", "leases"},
                         {"subresource", ""},
                         {"namespace", "a"},
                         {"name", "l"}}));
}

TEST(AccessReview, OnlyAClearAnswerAllows) {
  EXPECT_TRUE(IsAllowed({{"status", {{"allowed", true}}}}));
  EXPECT_FALSE(IsAllowed({{"status", {{"allowed", false}}}}));
  EXPECT_FALSE(IsAllowed({{"status", {{"allowed", "true"}}}}));
  EXPECT_FALSE(IsAllowed(nullptr));
}

}  // namespace
}  // namespace kube
