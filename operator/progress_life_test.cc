// Progress in the status of jobs, over their lives: what is written, how often, and whom the
// operator would ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/life_harness.h"

namespace tfjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

// Answers at once what the test says.
class FakeWatch : public ProgressWatch {
 public:
  void Start() override {}
  void Stop() override {}
  void Follow(const std::string& key, const std::optional<ProgressTarget>& target,
              absl::Time) override {
    if (!target) answers.erase(key);
    if (target) {
      targets[key] = *target;
    } else {
      targets.erase(key);
    }
  }
  std::optional<Progress> Latest(const std::string& key) const override {
    const auto found = answers.find(key);
    return found == answers.end() ? std::nullopt : std::optional(found->second);
  }
  std::map<std::string, Progress> All() const override { return answers; }
  ProgressCounters counters() const override { return {}; }

  std::map<std::string, ProgressTarget> targets;
  std::map<std::string, Progress> answers;
};

class ProgressLife : public ::testing::Test {
 protected:
  void Begin(const Json& spec = {{"progress", {{"port", 9100}}}}) {
    life_.Submit("j", {{"PS", 1}, {"Worker", 2}}, spec);
    life_.Settle();
    life_.SetAll("Running");
    SetIp("j-worker-0");
    life_.Settle();
    life_.server().ClearCalls();
  }
  void SetIp(const std::string& pod) {
    life_.server().SetStatus(kube::kPods, "ns", pod, {{"phase", "Running"}, {"podIP", "10.0.0.7"}});
  }
  // The chief says this; the pass that comes of it.
  runtime::Outcome Tell(int64_t step) {
    watch_.answers["ns/j"] = {.global_step = step, .last_step = 1000};
    return life_.Pass().at("ns/j");
  }
  int Writes() { return life_.server().Count("status", "tfjobs"); }
  Json ProgressOf() { return life_.Job("j")["status"].value("progress", Json()); }

  FakeWatch watch_;
  Life life_{{.progress = &watch_}};
};

TEST_F(ProgressLife, IsWrittenOnceForEachNews) {
  Begin();
  ASSERT_TRUE(watch_.targets.contains("ns/j"));
  EXPECT_EQ(watch_.targets["ns/j"].ip, "10.0.0.7");
  EXPECT_EQ(watch_.targets["ns/j"].port, 9100);
  life_.clock().Advance(absl::Minutes(1));
  const std::string now = base::TimeText(life_.clock().Now());
  EXPECT_EQ(Tell(500).kind, runtime::Outcome::Kind::kDone);
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(ProgressOf(), Json({{"summary", "500/1000 50%"},
                                {"globalStep", 500},
                                {"lastStep", 1000},
                                {"lastUpdateTime", now},
                                {"lastStepTime", now}}));
  life_.clock().Advance(absl::Minutes(1));
  Tell(500);
  life_.Settle();
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(ProgressOf()["lastUpdateTime"], now);
  EXPECT_EQ(life_.CallsMade(), 1);  // and no event, no action
  Tell(600);
  EXPECT_EQ(Writes(), 2);
}

TEST_F(ProgressLife, GoesWithOtherWritesForFree) {
  Begin();
  watch_.answers["ns/j"] = {.global_step = 900, .last_step = 1000};
  life_.SetPod("j-worker-1", "Succeeded", 0);
  life_.Settle();
  EXPECT_EQ(ProgressOf()["globalStep"], 900);
  EXPECT_EQ(Writes(), 1);
}

TEST_F(ProgressLife, StaysAsItWasLastReadWhenTheJobEnds) {
  Begin();
  Tell(990);
  watch_.answers["ns/j"] = {.global_step = 995, .last_step = 1000};
  life_.SetPod("j-worker-0", "Succeeded", 0);
  life_.Settle();
  EXPECT_THAT(life_.Conditions("j"), Contains("Succeeded"));
  EXPECT_EQ(ProgressOf()["summary"], "995/1000 99%");
  EXPECT_FALSE(watch_.targets.contains("ns/j"));
  const int writes = Writes();
  watch_.answers["ns/j"] = {.global_step = 1000, .last_step = 1000};  // too late
  life_.Settle();
  EXPECT_EQ(Writes(), writes);
}

TEST_F(ProgressLife, StaysWhileTheJobIsSuspended) {
  Begin();
  Tell(500);
  Json job = life_.Job("j");
  job["spec"]["runPolicy"]["suspend"] = true;
  life_.server().Put(kube::kTfJobs, job);
  life_.Settle();
  EXPECT_FALSE(watch_.targets.contains("ns/j"));
  EXPECT_EQ(ProgressOf()["globalStep"], 500);
  job = life_.Job("j");
  job["spec"]["runPolicy"]["suspend"] = false;
  life_.server().Put(kube::kTfJobs, job);
  life_.Settle();
  life_.SetAll("Running");
  SetIp("j-worker-0");
  life_.Settle();
  ASSERT_TRUE(watch_.targets.contains("ns/j"));
  EXPECT_EQ(ProgressOf()["globalStep"], 500);
  Tell(400);  // from its checkpoint
  EXPECT_EQ(ProgressOf()["globalStep"], 400);
}

TEST_F(ProgressLife, SurvivesARestartOfTheOperator) {
  Begin();
  Tell(500);
  const int writes = Writes();
  watch_.answers.clear();
  watch_.targets.clear();
  life_.StartOperator();
  life_.Settle();
  EXPECT_TRUE(watch_.targets.contains("ns/j"));
  EXPECT_EQ(ProgressOf()["globalStep"], 500);
  Tell(500);
  EXPECT_EQ(Writes(), writes);
}

TEST_F(ProgressLife, IsToldOnceToStallAndToGoOn) {
  Begin({{"progress", {{"port", 9100}, {"stallSeconds", 60}}}});
  EXPECT_EQ(Tell(500).after, absl::Minutes(1));
  life_.Settle(absl::Minutes(1));
  EXPECT_THAT(life_.Conditions("j"), ElementsAre("Created", "Running", "Stalled"));
  EXPECT_EQ(Writes(), 2);
  life_.clock().Advance(absl::Hours(1));
  life_.Settle();
  EXPECT_EQ(Writes(), 2);
  EXPECT_EQ(life_.server().Count("create", "events") + life_.server().Count("patch", "events"), 1);
  EXPECT_EQ(life_.server().Count("delete", "pods"), 0);
  Tell(501);
  EXPECT_THAT(life_.Conditions("j"), ElementsAre("Created", "Running"));
  EXPECT_EQ(Writes(), 3);
}

TEST_F(ProgressLife, NobodyIsAskedOnItsNodesNetworkOrForADeletedJob) {
  Begin();
  Json pod = *life_.server().Find(kube::kPods, "ns", "j-worker-0");
  pod["spec"]["hostNetwork"] = true;
  life_.server().Put(kube::kPods, pod);
  life_.Settle();
  EXPECT_FALSE(watch_.targets.contains("ns/j"));
  pod["spec"].erase("hostNetwork");
  life_.server().Put(kube::kPods, pod);
  life_.Settle();
  EXPECT_TRUE(watch_.targets.contains("ns/j"));
  life_.server().Remove(kube::kTfJobs, "ns", "j");
  life_.Sync();
  life_.controller().Reconcile("ns/j", {});
  EXPECT_FALSE(watch_.targets.contains("ns/j"));
}

TEST_F(ProgressLife, CostsNothingWhereItIsNotAskedFor) {
  Begin(Json::object());
  EXPECT_TRUE(watch_.targets.empty());
  life_.Settle();
  EXPECT_EQ(life_.CallsMade(), 0);
  EXPECT_TRUE(ProgressOf().is_null());
}

}  // namespace
}  // namespace tfjob
