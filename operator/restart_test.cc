// The operator is killed after each single write of a scripted life, its last answer lost or not,
// and started again: what remains at the end is what an undisturbed run leaves.
#include <gtest/gtest.h>

#include <functional>

#include "operator/api/names.h"
#include "operator/life_harness.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

struct EndState {
  Json status;
  std::vector<std::string> pods, services, claims, jobs;
  int pods_created = 0;
  int pods_deleted = 0;  // one by one
  int sweeps = 0;        // calls for all pods
  int pod_groups_created = 0;
  int pod_groups_deleted = 0;
  std::map<std::string, double> metrics;
};

// Where jobs are gangs: the scheduler sees the PodGroup and admits it.
void Admit(Life& life) {
  if (life.pod_groups().plural.empty()) return;
  for (const char* phase : {"Pending", "Inqueue"}) {
    life.SetPodGroup("j", phase);
    life.Settle();
  }
}

void Edit(Life& life, const std::function<void(Json&)>& change) {
  Json job = life.Job("j");
  change(job["spec"]);
  life.server().Put(kube::kTfJobs, job);
  life.Settle();
}

// One service for all, a claim for each worker; a scale-up, a restart, a scale-down, success.
void PlayShaped(Life& life) {
  life.Submit("j", {{"PS", 1}, {"Worker", 2}}, {{"network", {{"subdomain", "net"}}}});
  Edit(life, [](Json& spec) {
    Json& workers = spec["tfReplicaSpecs"]["Worker"];
    workers["volumeClaimTemplates"] =
        Json::array({{{"metadata", {{"name", "own"}}}, {"spec", Json::object()}}});
    workers["persistentVolumeClaimRetentionPolicy"] = {{"whenScaled", kDelete}};
  });
  life.SetAll("Running");
  Edit(life, [](Json& spec) { spec["tfReplicaSpecs"]["Worker"]["replicas"] = 3; });
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-1", "Failed", 137);
  life.Settle();
  life.SetAll("Running");
  Edit(life, [](Json& spec) { spec["tfReplicaSpecs"]["Worker"]["replicas"] = 2; });
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Settle();
}

// Two restarts, a scale-up, a suspension, success, clean-up.
void PlayScript(Life& life) {
  life.Submit("j", {{"PS", 1}, {"Worker", 2}},
              {{"runPolicy", {{"cleanPodPolicy", "All"}, {"backoffLimit", 3}}}});
  life.Settle();
  Admit(life);
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-1", "Failed", 137);
  life.Settle();
  life.SetAll("Running");
  life.SetPod("j-ps-0", "Failed", 143);
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  Edit(life, [](Json& spec) { spec["tfReplicaSpecs"]["Worker"]["replicas"] = 3; });
  Edit(life, [](Json& spec) { spec["runPolicy"]["suspend"] = true; });
  Edit(life, [](Json& spec) { spec["runPolicy"]["suspend"] = false; });
  Admit(life);
  life.SetAll("Running");
  life.Settle();
  life.SetPod("j-worker-2", "Succeeded", 0);
  life.Settle();
  life.SetPod("j-worker-0", "Succeeded", 0);
  life.Settle();
}

// Times differ with the moments of death, and so do uids.
Json WithoutTimes(Json status) {
  for (const char* key : {"startTime", "completionTime"}) status.erase(key);
  for (Json& failure : status["failures"]) failure.erase("uid");
  for (Json& condition : status["conditions"]) {
    condition.erase("lastUpdateTime");
    condition.erase("lastTransitionTime");
  }
  return status;
}

EndState EndOf(Life& life) {
  EndState end;
  end.status = WithoutTimes(life.Job("j")["status"]);
  end.pods = life.Names(kube::kPods);
  end.services = life.Names(kube::kServices);
  end.claims = life.Names(kube::kClaims);
  end.jobs = life.Names(kube::kTfJobs);
  for (const kube::FakeCall& call : life.server().Calls()) {
    if (call.plural == "podgroups" && call.code < 300) {
      end.pod_groups_created += call.verb == "create";
      end.pod_groups_deleted += call.verb == "delete";
    }
    if (call.plural != "pods" || call.code >= 300) continue;
    end.pods_created += call.verb == "create";
    end.pods_deleted += call.verb == "delete";
    end.sweeps += call.verb == "deletecollection";
  }
  for (const char* metric : {"created", "successful", "failed", "restarted"}) {
    end.metrics[metric] = life.Metric(metric);
  }
  return end;
}

void ExpectSame(const EndState& end, const EndState& wanted, bool counts_may_be_lost) {
  EXPECT_EQ(end.status.dump(1), wanted.status.dump(1));
  EXPECT_EQ(end.pods, wanted.pods);
  EXPECT_EQ(end.services, wanted.services);
  EXPECT_EQ(end.claims, wanted.claims);
  EXPECT_EQ(end.jobs, wanted.jobs);
  EXPECT_EQ(end.pods_created, wanted.pods_created);
  EXPECT_EQ(end.pods_deleted, wanted.pods_deleted);
  EXPECT_EQ(end.sweeps, wanted.sweeps);
  EXPECT_EQ(end.pod_groups_created, wanted.pod_groups_created);
  EXPECT_EQ(end.pod_groups_deleted, wanted.pod_groups_deleted);
  for (const auto& [name, count] : wanted.metrics) {
    if (counts_may_be_lost) {
      EXPECT_LE(end.metrics.at(name), count) << name;
    } else {
      EXPECT_EQ(end.metrics.at(name), count) << name;
    }
  }
}

// No gang scheduler, in peace and in a burst of other jobs, and one of each kind.
class Restart : public ::testing::TestWithParam<LifeOptions> {};
INSTANTIATE_TEST_SUITE_P(Lives, Restart,
                         ::testing::Values(LifeOptions{}, LifeOptions{.busy = true},
                                           LifeOptions{.gang_scheduler = "volcano"},
                                           LifeOptions{.gang_scheduler = "coscheduler"}));

// Plays the script once in peace, then with a death after each write. The end in peace.
EndState DieAtAnyWrite(const LifeOptions& options, const std::function<void(Life&)>& script) {
  EndState wanted;
  int writes = 0;
  {
    Life life(options);
    script(life);
    wanted = EndOf(life);
    writes = life.transport().writes();
    EXPECT_TRUE(life.Names(life.pod_groups()).empty());
  }
  EXPECT_GT(writes, 15);
  for (int n = 1; n <= writes; ++n) {
    for (const bool lose_answer : {false, true}) {
      SCOPED_TRACE(testing::Message() << "killed after write " << n << " of " << writes
                                      << (lose_answer ? ", answer lost" : ""));
      Life life(options);
      life.transport().DieAfterWrite(n, lose_answer);
      script(life);
      ExpectSame(EndOf(life), wanted, /*counts_may_be_lost=*/lose_answer);
      if (testing::Test::HasFailure()) return wanted;
    }
  }
  return wanted;
}

TEST_P(Restart, AtAnyWriteLeavesTheSameEndAndTheSameCounts) {
  const EndState wanted = DieAtAnyWrite(GetParam(), PlayScript);
  EXPECT_EQ(wanted.pod_groups_created, GetParam().gang_scheduler.empty() ? 0 : 2);
  EXPECT_EQ(wanted.pod_groups_deleted, wanted.pod_groups_created);
  EXPECT_EQ(wanted.metrics.at("restarted"), 2);
}

TEST(RestartOfShapedJobs, AtAnyWriteLeavesTheSameServicesAndClaims) {
  const EndState wanted = DieAtAnyWrite({}, PlayShaped);
  EXPECT_EQ(wanted.services, std::vector<std::string>{"net"}) << "worker 1 runs on";
  EXPECT_EQ(wanted.claims, (std::vector<std::string>{"own-j-worker-0", "own-j-worker-1"}));
}

}  // namespace
}  // namespace tfjob
