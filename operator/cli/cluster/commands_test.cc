// The commands against an API server in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "base/exit_codes.h"
#include "operator/cli/cluster/change.h"
#include "operator/cli/cluster/cluster_names.h"
#include "operator/cli/cluster/describe.h"
#include "operator/cli/cluster/findings.h"
#include "operator/cli/cluster/list.h"
#include "operator/cli/cluster/top.h"
#include "operator/cli/cluster/wait.h"
#include "operator/kube/fake_apiserver.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Json True(const std::string& type, const std::string& message = "") {
  return {{"type", type}, {"status", "True"}, {"reason", "TFJob" + type}, {"message", message}};
}

Json Job(const std::string& name, const std::string& ns = "default") {
  return {
      {"apiVersion", "kubeflow.org/v1"},
      {"kind", "TFJob"},
      {"metadata",
       {{"name", name}, {"namespace", ns}, {"creationTimestamp", "2026-01-01T00:00:00Z"}}},
      {"spec", {{"tfReplicaSpecs", {{"PS", {{"replicas", 1}}}, {"worker", {{"replicas", 2}}}}}}}};
}

// Worker 0 of the job "mine", which has ended with 2.
Json FailedPod() {
  return {{"metadata",
           {{"name", "mine-worker-0"},
            {"namespace", "default"},
            {"labels", {{"training.kubeflow.org/job-name", "mine"}}}}},
          {"status",
           {{"phase", "Failed"},
            {"containerStatuses",
             {{{"name", "tensorflow"},
               {"state", {{"terminated", {{"exitCode", 2}, {"reason", "Error"}}}}}}}}}}};
}

// A cluster with fake time: a pause takes it on, and does what the test says.
class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    cluster_.client = kube::Client::Create(server_, {.max_retries = 0});
    cluster_.ns = "default";
    cluster_.where = "https://fake";
    cluster_.now = [this] { return now_; };
    cluster_.pause = [this](absl::Duration time) {
      now_ += time;
      if (++pauses_ == act_at_ && act_) act_();
      return true;
    };
  }

  // No Json: of one in braces, compilers differ whether it is a list.
  void SetConditions(const std::string& name, std::vector<Json> conditions) {
    server_->SetStatus(kube::kTfJobs, "default", name, {{"conditions", std::move(conditions)}});
  }
  Json Find(const std::string& name) {
    return server_->Find(kube::kTfJobs, "default", name).value_or(Json());
  }

  std::shared_ptr<kube::FakeApiServer> server_ = std::make_shared<kube::FakeApiServer>();
  Cluster cluster_;
  absl::Time now_ = absl::FromUnixSeconds(1767225600 + 3600);
  int pauses_ = 0;
  int act_at_ = 3;
  std::function<void()> act_;
  std::ostringstream out_, err_;
};

TEST_F(ClusterTest, ListsStateProgressReplicasRestartsAndAge) {
  Json job = Job("mine");
  job["status"] = {
      {"conditions", {True("Created"), True("Running", "TFJob default/mine is running.")}},
      {"progress", {{"summary", "500/2000"}}},
      {"replicaStatuses",
       {{"PS", {{"active", 1}}}, {"Worker", {{"active", 1}, {"succeeded", 1}, {"restarts", 3}}}}}};
  server_->Put(kube::kTfJobs, job);
  server_->Put(kube::kTfJobs, Job("other", "far"));
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  EXPECT_EQ(out_.str(),
            "NAME   STATE     PROGRESS   REPLICAS            RESTARTS   AGE\n"
            "mine   Running   500/2000   ps 1/1 worker 2/2   3          60m\n");
  out_.str("");
  cluster_.ns = "";
  cluster_.output = "wide";
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("NAMESPACE"), HasSubstr("far         other   New"),
                                HasSubstr("TFJob default/mine is running.")));
}

TEST_F(ClusterTest, ListsAsJsonAndYaml) {
  server_->Put(kube::kTfJobs, Job("mine"));
  cluster_.output = "json";
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  const Json list = Json::parse(out_.str());
  EXPECT_EQ(list["items"][0]["metadata"]["name"], "mine");
  EXPECT_EQ(list["items"][0]["kind"], "TFJob");
  out_.str("");
  cluster_.output = "yaml";
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("kind: List"));
}

TEST_F(ClusterTest, TopShowsChangesAndBearsAnOutage) {
  server_->Put(kube::kTfJobs, Job("mine"));
  act_at_ = 1;
  act_ = [&] {
    SetConditions("mine", {True("Running")});
    act_at_ = 2;
    act_ = [&] {
      server_->SetFaults([](const kube::FakeCall&) { return kube::FakeFault{.cut_before = true}; });
    };
  };
  EXPECT_EQ(WatchJobs(cluster_, {}, out_, err_), base::kExitCluster);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("1 TFJobs"), HasSubstr("mine   New"),
                                HasSubstr("mine   Running"), HasSubstr("no answer for 60 s")));
  EXPECT_EQ(WatchJobs(cluster_, {.interval_seconds = 0}, out_, err_), base::kExitUsage);
}

TEST_F(ClusterTest, ListsMoreThanAPage) {
  for (int i = 0; i < 1200; ++i) server_->Put(kube::kTfJobs, Job(absl::StrCat("j", i)));
  cluster_.output = "json";
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  EXPECT_EQ(Json::parse(out_.str())["items"].size(), 1200u);
}

TEST_F(ClusterTest, SaysThatThereIsNoneAndWhichIsMeant) {
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitOk);
  EXPECT_THAT(err_.str(), HasSubstr("no TFJobs in namespace default"));
  server_->Put(kube::kTfJobs, Job("mnist"));
  EXPECT_EQ(DescribeJob(cluster_, "mnits", out_, err_), base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean mnist?"));
}

TEST_F(ClusterTest, SaysWhichServerDoesNotAnswer) {
  server_->SetFaults([](const kube::FakeCall&) { return kube::FakeFault{.cut_before = true}; });
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitCluster);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("does not answer (https://fake)"), HasSubstr("to do:")));
}

TEST_F(ClusterTest, SaysThatItMayNot) {
  server_->SetFaults([](const kube::FakeCall&) {
    return kube::FakeFault{.code = 403, .reason = "Forbidden", .message = "tfjobs is forbidden"};
  });
  EXPECT_EQ(ListJobs(cluster_, out_, err_), base::kExitFailure);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("tfjobs is forbidden"), HasSubstr("kubectl auth can-i")));
}

TEST_F(ClusterTest, DescribesWithEventsClaimsAndLogs) {
  server_->Put(kube::kTfJobs, Job("mine"));
  SetConditions("mine", {True("Created"), True("Restarting")});
  server_->Put(kube::kPods, FailedPod());
  server_->logs().Add("default", "mine-worker-0", "--learing_rate: no such flag");
  server_->logs().End("default", "mine-worker-0");
  EXPECT_EQ(DescribeJob(cluster_, "mine", out_, err_), base::kExitOk);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("BadArguments: pod mine-worker-0"),
                                HasSubstr("      --learing_rate: no such flag")));
}

TEST_F(ClusterTest, DescribesWithoutTheRightToReadEvents) {
  server_->Put(kube::kTfJobs, Job("mine"));
  SetConditions("mine", {True("Suspended", "TFJob mine is suspended.")});
  server_->SetFaults([](const kube::FakeCall& call) {
    return call.plural == "events" ? kube::FakeFault{.code = 403} : kube::FakeFault{};
  });
  EXPECT_EQ(DescribeJob(cluster_, "mine", out_, err_), base::kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("Suspended: TFJob mine is suspended"));
}

TEST_F(ClusterTest, WaitsUntilItSucceeds) {
  server_->Put(kube::kTfJobs, Job("mine"));
  act_at_ = 12;
  act_ = [&] { SetConditions("mine", {True("Succeeded")}); };
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitOk);
  EXPECT_EQ(pauses_, 12);
  EXPECT_THAT(err_.str(), HasSubstr("waiting for TFJob mine to be Succeeded, 10 s: New"));
  EXPECT_THAT(out_.str(), HasSubstr("TFJob mine: Succeeded"));
}

TEST_F(ClusterTest, WaitsAndSaysHowItEnded) {
  const struct {
    const char* end;
    const char* awaited;
    int code;
  } cases[] = {
      {"Failed", "Succeeded", base::kExitFailure}, {"Failed", "Failed", base::kExitOk},
      {"Failed", "finished", base::kExitFailure},  {"Failed", "Running", base::kExitFailure},
      {"Succeeded", "Failed", base::kExitFailure}, {"Succeeded", "finished", base::kExitOk},
      {"Succeeded", "Running", base::kExitOk},     {"Running", "Running", base::kExitOk},
      {"Running", "Succeeded", kExitTimeout},      {"Suspended", "Running", kExitTimeout},
  };
  for (const auto& c : cases) {
    server_->Put(kube::kTfJobs, Job("mine"));
    SetConditions("mine", {True(c.end)});
    EXPECT_EQ(WaitForJob(cluster_, "mine", {.awaited = c.awaited, .timeout = "5s"}, out_, err_),
              c.code)
        << c.end << " while waiting for " << c.awaited;
  }
}

TEST_F(ClusterTest, WaitEndsWithTheJob) {
  server_->Put(kube::kTfJobs, Job("mine"));
  act_ = [&] { server_->Remove(kube::kTfJobs, "default", "mine"); };
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("was deleted"));
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("there is no TFJob mine"));
}

TEST_F(ClusterTest, WaitBearsAnOutageOfAMinute) {
  server_->Put(kube::kTfJobs, Job("mine"));
  const auto down = [](const kube::FakeCall&) { return kube::FakeFault{.cut_before = true}; };
  act_ = [&] {
    server_->SetFaults(down);
    act_at_ = pauses_ + 30;
    act_ = [&] {
      server_->SetFaults({});
      SetConditions("mine", {True("Succeeded")});
    };
  };
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitOk);
  server_->SetFaults(down);
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitCluster);
  server_->SetFaults({});
  SetConditions("mine", {True("Running")});
  act_at_ = pauses_ + 2;
  act_ = [&] { server_->SetFaults(down); };
  EXPECT_EQ(WaitForJob(cluster_, "mine", {}, out_, err_), base::kExitCluster);
}

TEST_F(ClusterTest, AnswersProgramsWithObjectsAndPeopleBeside) {
  server_->Put(kube::kTfJobs, Job("mine"));
  SetConditions("mine", {True("Created"), True("Running")});
  server_->Put(kube::kPods, FailedPod());
  cluster_.output = "json";
  const auto answer = [&](int code) {
    EXPECT_EQ(code, base::kExitOk) << err_.str();
    const Json object = Json::parse(out_.str(), nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(object.is_discarded()) << out_.str();
    out_.str("");
    return object;
  };
  const Json description = answer(DescribeJob(cluster_, "mine", out_, err_));
  EXPECT_EQ(description["state"], "Running");
  EXPECT_EQ(description["replicas"][1]["type"], "Worker");
  EXPECT_EQ(description["replicas"][1]["wanted"], 2);
  ASSERT_EQ(description["findings"].size(), 1u) << description;
  EXPECT_EQ(description["findings"][0]["cause"], "BadArguments");
  EXPECT_EQ(description["findings"][0]["objects"][0], "pod mine-worker-0");
  EXPECT_EQ(description["pods"][0]["phase"], "Failed");
  EXPECT_EQ(description["job"]["kind"], "TFJob");
  EXPECT_EQ(answer(WatchJobs(cluster_, {.rounds = 1}, out_, err_))["kind"], "List");
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(answer(WaitForJob(cluster_, "mine", {.awaited = "Running"}, out_, err_))["kind"],
            "TFJob");
  EXPECT_THAT(err_.str(), HasSubstr("TFJob mine: Running"));
  EXPECT_EQ(answer(SuspendJob(cluster_, "mine", true, out_, err_))["spec"]["runPolicy"]["suspend"],
            true);
  const Json scaled = answer(ScaleJob(cluster_, "mine", {.type = "PS", .replicas = 2}, out_, err_));
  EXPECT_EQ(scaled["spec"]["tfReplicaSpecs"]["PS"]["replicas"], 2);
  EXPECT_EQ(answer(RemoveJob(cluster_, "mine", {}, out_, err_))["metadata"]["name"], "mine");
  EXPECT_THAT(err_.str(), HasSubstr("is deleted"));
}

TEST_F(ClusterTest, NamesWhatAShellMayOffer) {
  server_->Put(kube::kTfJobs, Job("b"));
  server_->Put(kube::kTfJobs, Job("a"));
  server_->Put(kube::kTfJobs, Job("far", "other"));
  server_->Put(kube::kNamespaces, {{"metadata", {{"name", "other"}}}});
  server_->Put(kube::kPods, {{"metadata",
                              {{"name", "a-ps-0"},
                               {"namespace", "default"},
                               {"labels", {{"training.kubeflow.org/job-name", "a"}}}}}});
  EXPECT_THAT(ClusterNames(cluster_, NameKind::kJob, {}), ElementsAre("a", "b"));
  EXPECT_THAT(ClusterNames(cluster_, NameKind::kNamespace, {}), ElementsAre("other"));
  EXPECT_THAT(ClusterNames(cluster_, NameKind::kPod, {{"job", "a"}}), ElementsAre("a-ps-0"));
  EXPECT_THAT(ClusterNames(cluster_, NameKind::kPod, {{"job", "b"}}), ElementsAre());
  server_->SetFaults([](const kube::FakeCall&) { return kube::FakeFault{.cut_before = true}; });
  EXPECT_THAT(ClusterNames(cluster_, NameKind::kJob, {}), ElementsAre());
  const ConnectionFlags flags =
      ConnectionOf({{"kubeconfig", "k"}, {"context", "c"}, {"namespace", "n"}});
  EXPECT_EQ(flags.kubeconfig + flags.context + flags.ns, "kcn");
  EXPECT_LT(flags.call_timeout, kCallTimeout);
}

TEST_F(ClusterTest, BadTimeoutsAreUsageErrors) {
  for (const char* text : {"x", "-1s", "0", ""}) {
    EXPECT_FALSE(ParseTimeout("--timeout", text).ok()) << text;
  }
  EXPECT_EQ(*ParseTimeout("--timeout", "90"), absl::Seconds(90));
  EXPECT_EQ(*ParseTimeout("--timeout", "1h30m"), absl::Minutes(90));
  EXPECT_EQ(WaitForJob(cluster_, "mine", {.timeout = "soon"}, out_, err_), base::kExitUsage);
}

TEST_F(ClusterTest, SuspendsAndResumes) {
  server_->Put(kube::kTfJobs, Job("mine"));
  EXPECT_EQ(SuspendJob(cluster_, "mine", true, out_, err_), base::kExitOk);
  EXPECT_EQ(Find("mine")["spec"]["runPolicy"]["suspend"], true);
  EXPECT_EQ(SuspendJob(cluster_, "mine", true, out_, err_), base::kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("suspended already"));
  EXPECT_EQ(SuspendJob(cluster_, "mine", false, out_, err_), base::kExitOk);
  EXPECT_EQ(Find("mine")["spec"]["runPolicy"]["suspend"], false);
  SetConditions("mine", {True("Succeeded")});
  EXPECT_EQ(SuspendJob(cluster_, "mine", true, out_, err_), base::kExitFailure);
  EXPECT_THAT(err_.str(), HasSubstr("has succeeded"));
}

TEST_F(ClusterTest, TriesAgainWhereSomebodyWasFaster) {
  server_->Put(kube::kTfJobs, Job("mine"));
  int conflicts = 2;
  server_->SetFaults([&](const kube::FakeCall& call) {
    if (call.verb != "patch" || conflicts-- <= 0) return kube::FakeFault{};
    return kube::FakeFault{.code = 409, .reason = "Conflict", .message = "the object was modified"};
  });
  EXPECT_EQ(SuspendJob(cluster_, "mine", true, out_, err_), base::kExitOk);
  EXPECT_EQ(Find("mine")["spec"]["runPolicy"]["suspend"], true);
}

TEST_F(ClusterTest, ScalesTheTypeAsTheManifestSpellsIt) {
  server_->Put(kube::kTfJobs, Job("mine"));
  EXPECT_EQ(ScaleJob(cluster_, "mine", {.type = "Worker", .replicas = 4}, out_, err_),
            base::kExitOk);
  EXPECT_EQ(Find("mine")["spec"]["tfReplicaSpecs"]["worker"]["replicas"], 4);
  EXPECT_THAT(out_.str(), HasSubstr("worker 2 -> 4"));
  EXPECT_EQ(ScaleJob(cluster_, "mine", {.type = "Chief", .replicas = 1}, out_, err_),
            base::kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("it has PS, worker"));
  EXPECT_EQ(ScaleJob(cluster_, "mine", {.replicas = -2}, out_, err_), base::kExitUsage);
}

TEST_F(ClusterTest, DeletesAndWaitsForThePods) {
  const Json job = server_->Put(kube::kTfJobs, Job("mine"));
  const std::string uid = job["metadata"]["uid"];
  server_->Put(kube::kPods,
               {{"metadata",
                 {{"name", "mine-ps-0"},
                  {"namespace", "default"},
                  {"labels", {{"training.kubeflow.org/job-name", "mine"}}},
                  {"finalizers", {"test/stays"}},
                  {"ownerReferences", {{{"uid", uid}, {"kind", "TFJob"}, {"name", "mine"}}}}}}});
  act_at_ = 15;
  act_ = [&] { server_->Remove(kube::kPods, "default", "mine-ps-0"); };
  EXPECT_EQ(RemoveJob(cluster_, "mine", {.wait = true}, out_, err_), base::kExitOk);
  EXPECT_THAT(err_.str(), HasSubstr("its pods are still there: 1 pods, mine-ps-0"));
  EXPECT_EQ(Find("mine"), Json());
  EXPECT_EQ(RemoveJob(cluster_, "mine", {}, out_, err_), base::kExitFailure);
}

}  // namespace
}  // namespace tfjob
