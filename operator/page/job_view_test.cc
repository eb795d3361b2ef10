#include "operator/page/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Condition True(const char* type, const std::string& message = "") {
  return {.type = type, .status = kTrue, .message = message};
}

Observed Running() {
  Observed out;
  out.job.metadata = {.name = "j", .namespace_name = "ns", .uid = "u"};
  out.job.spec.replicas = {{"Worker", {.replicas = 3}}, {"PS", {}}};
  out.job.status.conditions = {True(kCreated), True(kRunning, "it runs")};
  out.job.status.replica_statuses = {{"Worker", {.active = 2, .restarts = 4}},
                                     {"PS", {.active = 1}}};
  for (const int index : {10, 2, 0}) {
    out.pods.push_back({.name = "j-worker-" + std::to_string(index),
                        .owner_uid = "u",
                        .type = "worker",
                        .index = index,
                        .phase = PodPhase::kRunning});
  }
  out.pods.push_back({.name = "j-ps-0", .owner_uid = "u", .type = "ps", .index = 0});
  return out;
}

std::vector<std::string> Waits(const Observed& observed, const JobParts& parts = {}) {
  return JobDetail(observed, parts)["waits"].get<std::vector<std::string>>();
}

TEST(JobView, TheStateIsWhatMattersMost) {
  EXPECT_EQ(StateOf({}), "New");
  EXPECT_EQ(StateOf({True(kCreated), True(kRunning)}), "Running");
  EXPECT_EQ(StateOf({True(kCreated), True(kRunning), True(kStalled)}), "Stalled");
  EXPECT_EQ(StateOf({True(kRunning), True(kFailed)}), "Failed");
  EXPECT_EQ(StateOf({{.type = kRunning, .status = kFalse}, True(kCreated)}), "Created");
  EXPECT_LT(RankOf("Blocked"), RankOf("Running"));
  EXPECT_LT(RankOf("New"), RankOf("Succeeded"));
}

TEST(JobView, ARowSaysHowFarItIs) {
  Observed job = Running();
  job.job.status.progress = {.read = {.global_step = 5, .last_step = 10, .loss = 0.25}};
  const Json row = JobRow(job.job);
  EXPECT_EQ(row["state"], "Running");
  EXPECT_EQ(row["message"], "it runs");
  EXPECT_EQ(row["restarts"], 4);
  EXPECT_EQ(row["progress"]["summary"], "5/10 50%");
  EXPECT_EQ(row["replicas"][0]["type"], "PS");
  EXPECT_EQ(row["replicas"][0]["wanted"], 1);
  EXPECT_EQ(row["replicas"][1]["running"], 2);
  EXPECT_FALSE(row.contains("deleting"));
}

TEST(JobView, PodsComeByTypeAndIndexWithoutThoseOfOthers) {
  Observed job = Running();
  job.pods.push_back({.name = "foreign", .owner_uid = "v", .type = "worker"});
  const Json pods = JobDetail(job, {})["pods"];
  EXPECT_EQ(pods["total"], 4);
  std::vector<std::string> names;
  for (const Json& pod : pods["rows"]) names.push_back(pod["name"]);
  EXPECT_THAT(names, ElementsAre("j-ps-0", "j-worker-0", "j-worker-2", "j-worker-10"));
}

TEST(JobView, ManyPodsAreCutOff) {
  Observed job = Running();
  for (int i = 0; i < 1000; ++i) job.pods.push_back({.name = std::to_string(i), .owner_uid = "u"});
  const Json pods = JobDetail(job, {})["pods"];
  EXPECT_EQ(pods["total"], 1004);
  EXPECT_EQ(pods["rows"].size(), 500U);
}

TEST(JobView, SaysWhyItWaits) {
  Observed job = Running();
  EXPECT_THAT(Waits(job), ElementsAre("not running yet: 1 of 3 worker"));
  for (PodView& pod : job.pods) {
    if (pod.index < 2) continue;
    pod.waiting_reason = "ImagePullBackOff";
    pod.waiting_message = "no such image";
  }
  job.job.status.conditions.push_back(True(kBlocked, "the quota is used up"));
  EXPECT_THAT(Waits(job, {.waits_for = "its PodGroup"}),
              ElementsAre("Blocked: the quota is used up", "its PodGroup",
                          "pod j-worker-10: ImagePullBackOff: no such image (and 1 more pods)",
                          "not running yet: 1 of 3 worker"));
  job.job.status.conditions.push_back(True(kSucceeded));
  EXPECT_THAT(Waits(job), IsEmpty());
}

TEST(JobView, WhatSomebodyElseManagesIsNotJudged) {
  Observed job = Running();
  job.job.spec.run_policy.managed_by = kManagedByMultiKueue;
  EXPECT_THAT(Waits(job), ElementsAre(::testing::HasSubstr("kueue.x-k8s.io/multikueue manages")));
}

TEST(JobView, WhoMayNotListPodsReadsNothingOfThem) {
  Observed job = Running();
  job.pods[0].waiting_reason = "secret";
  const Json detail = JobDetail(job, {.pods_refused = "this token may not"});
  EXPECT_FALSE(detail.contains("pods"));
  EXPECT_EQ(detail["podsRefused"], "this token may not");
  EXPECT_EQ(detail.dump().find("secret"), std::string::npos);
  EXPECT_EQ(detail.dump().find("j-worker-0"), std::string::npos);
}

TEST(JobView, ACurveHasNullsWhereNothingWasTold) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const Json detail = JobDetail(Running(), {.curve = {{100, 1, 0.5, none}, {110, 2, none, 3}}});
  EXPECT_EQ(detail["curve"].dump(), "[[100,1,0.5,null],[110,2,null,3.0]]");
}

TEST(JobView, ReadsEventsOfBothKinds) {
  EXPECT_EQ(EventRow({{"type", "Normal"}, {"count", 3}, {"lastTimestamp", "t"}})["count"], 3);
  const Json row = EventRow({{"eventTime", "e"},
                             {"lastTimestamp", nullptr},
                             {"series", {{"count", 5}, {"lastObservedTime", "s"}}}});
  EXPECT_EQ(row["last"], "s");
  EXPECT_EQ(row["count"], 5);
  EXPECT_EQ(EventRow({{"eventTime", "e"}})["last"], "e");
  EXPECT_EQ(EventRow(Json())["count"], 1);
}

}  // namespace
}  // namespace tfjob
