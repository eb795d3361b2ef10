// `--check`: what it asks, and what it says where something is missing.
#include "operator/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "operator/kube/fake_apiserver.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kReviews[] = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

// An API server with an authoriser: grants all but what is named "verb group/resource[/sub] ns".
class Server : public kube::Transport {
 public:
  absl::StatusOr<kube::Response> Call(const kube::Request& request, std::stop_token stop) override {
    if (down_) return absl::UnavailableError("connection refused");
    if (request.path != kReviews) return fake.Call(request, std::move(stop));
    const kube::Json asked = kube::Json::parse(request.body)["spec"]["resourceAttributes"];
    const auto field = [&](const char* name) { return asked[name].get<std::string>(); };
    std::string right = absl::StrCat(field("verb"), " ", field("group"), "/", field("resource"));
    if (!field("subresource").empty()) absl::StrAppend(&right, "/", field("subresource"));
    absl::StrAppend(&right, " ", field("namespace"));
    const bool allowed = !lacks.contains(right);
    return kube::Response{.code = 201,
                          .body = kube::Json({{"status", {{"allowed", allowed}}}}).dump()};
  }
  absl::StatusOr<kube::Response> Stream(const kube::Request& request,
                                        const std::function<bool(std::string_view)>& on_data,
                                        std::stop_token stop) override {
    return fake.Stream(request, on_data, std::move(stop));
  }
  void GoDown() { down_ = true; }

  kube::FakeApiServer fake;
  std::set<std::string> lacks;

 private:
  bool down_ = false;
};

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    options_.leader_elect = false;
    options_.leader_namespace = "system";
    options_.leader_id = "lease";
    options_.lease_duration = absl::Milliseconds(200);
    options_.retry_period = absl::Milliseconds(20);
  }
  std::string Text() {
    const std::vector<Finding> findings =
        CheckInstallation(options_, {.transport = server_, .server = "https://fake"}, {});
    holds_ = AllHold(findings);
    return ToText(findings);
  }
  void PutLease(const std::string& holder, int renewals) {
    server_->fake.Put(kube::kLeases,
                      {{"apiVersion", "coordination.k8s.io/v1"},
                       {"kind", "Lease"},
                       {"metadata", {{"name", "lease"}, {"namespace", "system"}}},
                       {"spec", {{"holderIdentity", holder}, {"renewTime", renewals}}}});
  }

  const std::shared_ptr<Server> server_ = std::make_shared<Server>();
  OperatorOptions options_;
  bool holds_ = false;
};

TEST_F(CheckTest, HoldsWhereAllIsThere) {
  options_.gang_scheduler = "volcano";
  const std::string text = Text();
  EXPECT_TRUE(holds_) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("ok    TFJobs are served by https://fake\n"),
                          HasSubstr("ok    tfjobs/status in all namespaces: update\n"),
                          HasSubstr("ok    podgroups in all namespaces: get, list"),
                          Not(HasSubstr("leases")), Not(HasSubstr("FAIL"))));
}

TEST_F(CheckTest, NamesEachRightThatIsMissingInEachNamespace) {
  options_.namespaces = {"a", "b"};
  server_->lacks = {"create /pods b", "delete /pods b", "update kubeflow.org/tfjobs/status a"};
  const std::string text = Text();
  EXPECT_FALSE(holds_);
  EXPECT_THAT(text, AllOf(HasSubstr("ok    pods in a:"), HasSubstr("FAIL  pods in b:"),
                          HasSubstr("not allowed: create, delete;"),
                          HasSubstr("FAIL  tfjobs/status in a: update"),
                          HasSubstr("ok    tfjobs/status in b: update")));
}

TEST_F(CheckTest, SaysHowToMakeTheResource) {
  server_->fake.SetFaults([](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.plural == "tfjobs") fault.code = 404;
    return fault;
  });
  EXPECT_THAT(Text(), AllOf(HasSubstr("FAIL  TFJobs are served"), HasSubstr("kubectl apply")));
  EXPECT_FALSE(holds_);
}

TEST_F(CheckTest, AsksNoMoreOfAServerThatDoesNotAnswer) {
  server_->GoDown();
  const std::string text = Text();
  EXPECT_FALSE(holds_);
  EXPECT_THAT(text, AllOf(HasSubstr("connection refused"), Not(HasSubstr("pods"))));
}

TEST_F(CheckTest, WantsALeaseThatIsRenewed) {
  options_.leader_elect = true;
  EXPECT_THAT(Text(), HasSubstr("FAIL  somebody renews the Lease system/lease — nobody has made"));
  PutLease("", 1);
  EXPECT_THAT(Text(), HasSubstr("nobody holds it"));
  PutLease("old", 1);
  EXPECT_THAT(Text(), HasSubstr("old held it and does not renew it"));
  EXPECT_FALSE(holds_);
}

TEST_F(CheckTest, NamesWhoLeads) {
  options_.leader_elect = true;
  options_.lease_duration = absl::Minutes(1);
  int renewals = 0;
  server_->fake.SetFaults([&](const kube::FakeCall& call) {
    if (call.plural == "leases") PutLease("me", ++renewals);
    return kube::FakeFault();
  });
  EXPECT_THAT(Text(), HasSubstr("ok    me renews the Lease system/lease\n"));
  EXPECT_TRUE(holds_);
}

TEST_F(CheckTest, NeedsTheRightsOnTheLease) {
  options_.leader_elect = true;
  server_->lacks = {"update coordination.k8s.io/leases system"};
  EXPECT_THAT(Text(), HasSubstr("FAIL  leases lease in system: get, update — not allowed: update"));
}

}  // namespace
}  // namespace tfjob
