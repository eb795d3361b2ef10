// What callers may see, and what it costs the API server to find out.
#include "operator/page/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/page/test_api.h"
#include "operator/page/token_digest.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() { api_->rights = {{"all", {"tfjobs/", "tfjobs/a"}}, {"a", {"tfjobs/a"}}}; }
  absl::Status Ask(const std::string& token, const std::string& ns) {
    return access_.MayList(token, kube::kTfJobs, ns);
  }
  size_t Calls() const { return api_->calls().size(); }

  std::shared_ptr<TestApi> api_ = std::make_shared<TestApi>();
  base::FakeClock clock_{absl::FromUnixSeconds(1'700'000'000)};
  Access access_{api_, {.clock = &clock_, .max_answers = 4, .strangers_per_second = 1, .burst = 8}};
};

TEST_F(AccessTest, AsksTheApiServerWithTheCallersToken) {
  EXPECT_TRUE(Ask("all", "").ok());
  ASSERT_EQ(Calls(), 1U);
  const kube::Request request = api_->calls()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
  EXPECT_EQ(request.bearer_token, "all");
  EXPECT_EQ(request.timeout, absl::Seconds(5));
  EXPECT_THAT(request.body,
              HasSubstr(R"("group":"kubeflow.org","name":"","namespace":"","resource":"tfjobs")"));
}

TEST_F(AccessTest, OneNamespaceIsNotAll) {
  EXPECT_TRUE(Ask("a", "a").ok());
  const absl::Status all = Ask("a", "");
  EXPECT_TRUE(absl::IsPermissionDenied(all)) << all;
  EXPECT_THAT(std::string(all.message()), HasSubstr("may not list tfjobs in all namespaces"));
  EXPECT_THAT(std::string(Ask("a", "b").message()), HasSubstr("in namespace b"));
}

TEST_F(AccessTest, AWrongTokenIsToldSoWithoutBeingNamed) {
  const absl::Status status = Ask("secret", "");
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST_F(AccessTest, AnswersCountForThirtySeconds) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Ask("a", "a").ok());
    EXPECT_FALSE(Ask("a", "").ok());
    EXPECT_FALSE(Ask("wrong", "").ok());
  }
  EXPECT_EQ(Calls(), 3U);
  api_->rights["a"].clear();
  clock_.Advance(absl::Seconds(29));
  EXPECT_TRUE(Ask("a", "a").ok());
  clock_.Advance(absl::Seconds(2));
  EXPECT_FALSE(Ask("a", "a").ok());
  EXPECT_EQ(Calls(), 4U);
}

TEST_F(AccessTest, AServerThatCannotBeAskedIsAskedAgain) {
  api_->broken_code = 500;
  EXPECT_TRUE(absl::IsUnavailable(Ask("all", "")));
  api_->broken_code = 0;
  EXPECT_TRUE(Ask("all", "").ok());
}

TEST_F(AccessTest, AFloodOfWrongTokensIsCutOffAndFriendsAreNot) {
  EXPECT_TRUE(Ask("all", "").ok());
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    refused += absl::IsResourceExhausted(Ask(absl::StrCat("wrong", i), ""));
  }
  EXPECT_EQ(Calls(), 8U);
  EXPECT_EQ(refused, 93);
  EXPECT_TRUE(Ask("all", "").ok());  // still known, though few answers are kept
  EXPECT_EQ(Calls(), 8U);
  clock_.Advance(absl::Milliseconds(900));
  EXPECT_TRUE(absl::IsResourceExhausted(Ask("other", "")));
  clock_.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(absl::IsUnauthenticated(Ask("other", "")));
  clock_.Advance(absl::Seconds(30));
  for (int i = 0; i < 100; ++i) (void)Ask(absl::StrCat("wrong", i), "");
  const size_t calls = Calls();
  EXPECT_TRUE(Ask("all", "").ok());  // asked anew, out of turn
  EXPECT_EQ(Calls(), calls + 1);
}

TEST(TokenDigest, IsSha256) {
  const std::string digest = TokenDigest("abc");
  ASSERT_EQ(digest.size(), 32U);
  EXPECT_EQ(digest.substr(0, 4), "\xba\x78\x16\xbf");
  EXPECT_NE(digest, TokenDigest("abd"));
}

}  // namespace
}  // namespace tfjob
