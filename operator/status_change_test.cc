#include "operator/status_change.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

Condition Holds(const char* type) { return {.type = type, .status = kTrue}; }

// A job of three workers that runs with one of them.
TfJob OneOfThree() {
  TfJob job;
  job.spec.replicas = {{kWorker, {.replicas = 3}}};
  job.status.conditions = {Holds(kCreated), Holds(kRunning)};
  job.status.replica_statuses = {{kWorker, {.active = 1}}};
  return job;
}

TEST(StatusChange, MorePodsThatRunAreOnlyCounters) {
  const TfJob job = OneOfThree();
  TfJobStatus after = job.status;
  after.replica_statuses[kWorker].active = 3;
  EXPECT_TRUE(IsOnlyAboutCounters(job, after, /*is_first=*/false));
  after.replica_statuses[kWorker].restarts = 1;
  EXPECT_FALSE(IsOnlyAboutCounters(job, after, /*is_first=*/false)) << "a restart is more";
}

TEST(StatusChange, AConditionIsNewsButForRunningBeforeAllDo) {
  TfJob job = OneOfThree();
  const TfJobStatus running = job.status;
  job.status.conditions = {Holds(kCreated)};
  EXPECT_TRUE(IsOnlyAboutCounters(job, running, /*is_first=*/false));
  TfJobStatus all = running;
  all.replica_statuses[kWorker].active = 3;
  EXPECT_FALSE(IsOnlyAboutCounters(job, all, /*is_first=*/false)) << "this is the last of it";
  TfJobStatus failed = running;
  failed.conditions.push_back(Holds(kFailed));
  EXPECT_FALSE(IsOnlyAboutCounters(job, failed, /*is_first=*/false));
}

TEST(StatusChange, AFirstStatusMaySayThatItRunsAndNoMore) {
  TfJob job = OneOfThree();
  const TfJobStatus running = job.status;
  job.status = {};
  EXPECT_TRUE(IsOnlyAboutCounters(job, running, /*is_first=*/true));
  EXPECT_FALSE(IsOnlyAboutCounters(job, running, /*is_first=*/false));
  TfJobStatus created = running;
  created.conditions.pop_back();
  EXPECT_FALSE(IsOnlyAboutCounters(job, created, /*is_first=*/true));
}

}  // namespace
}  // namespace tfjob
