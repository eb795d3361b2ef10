// Gangs: what their PodGroup asks for, what ties pods to it, and that pods wait for it.
#include "operator/reconcile/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/resources.h"

namespace tfjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const PlanOptions kOfVolcano = {.gang_scheduler = "volcano"};
const PlanOptions kOfPlugins = {.gang_scheduler = "coscheduler"};

Json& Container(JobBuilder& builder, const std::string& type) {
  return builder.job.spec.replicas->at(type).pod_template["spec"]["containers"][0];
}

// PS: 500m and 1Gi, Workers: 2 and one GPU.
JobBuilder Demanding() {
  JobBuilder builder = MakeJob("j").Ps(2).Workers(3);
  Container(builder, kPs)["resources"]["requests"] = {{"cpu", "500m"}, {"memory", "1Gi"}};
  Container(builder, kWorker)["resources"] = {{"requests", {{"cpu", 2}}},
                                              {"limits", {{"cpu", "4"}, {"nvidia.com/gpu", 1}}}};
  return builder;
}

TEST(Resources, AreThoseOfTheFirstPodsToBeMade) {
  const TfJob job = WithDefaults(Demanding().job);
  EXPECT_EQ(RequestsOf(job, 1), Resources({{"cpu", "500m"}, {"memory", "1073741824"}}));
  EXPECT_EQ(RequestsOf(job, 3),
            Resources({{"cpu", "3"}, {"memory", "2147483648"}, {"nvidia.com/gpu", "1"}}));
  const Resources all = {{"cpu", "7"}, {"memory", "2147483648"}, {"nvidia.com/gpu", "3"}};
  EXPECT_EQ(RequestsOf(job, 5), all);
  EXPECT_EQ(RequestsOf(job, 100), all);
  EXPECT_EQ(RequestsOf(job, 0), Resources());
}

TEST(Resources, OfInitContainersCountAsTheSchedulerCountsThem) {
  const auto asking = [](const char* cpu) { return Json{{"requests", {{"cpu", cpu}}}}; };
  JobBuilder builder = MakeJob("j").Workers(1);
  Container(builder, kWorker)["resources"] = asking("1");
  Json& inits = builder.job.spec.replicas->at(kWorker).pod_template["spec"]["initContainers"];
  inits = Json::array({{{"name", "copy"}, {"resources", asking("1500m")}}});
  EXPECT_EQ(RequestsOf(WithDefaults(builder.job), 1), Resources({{"cpu", "1500m"}}));
  inits.push_back({{"name", "mesh"}, {"restartPolicy", "Always"}, {"resources", asking("700m")}});
  EXPECT_EQ(RequestsOf(WithDefaults(builder.job), 1), Resources({{"cpu", "1700m"}}));
  inits.push_back({{"name", "check"}, {"resources", asking("1200m")}});
  EXPECT_EQ(RequestsOf(WithDefaults(builder.job), 1), Resources({{"cpu", "1900m"}}));
}

TEST(Resources, OfFractionsAddUpExactly) {
  JobBuilder builder = MakeJob("j").Workers(30);
  Container(builder, kWorker)["resources"]["requests"] = {{"cpu", "100m"}, {"memory", "0.1Gi"}};
  EXPECT_EQ(RequestsOf(WithDefaults(builder.job), 30),
            Resources({{"cpu", "3"}, {"memory", "3221225472"}}));
  EXPECT_EQ(RequestsOf(WithDefaults(builder.job), 1).at("cpu"), "100m");
}

TEST(Resources, AreTheSameHoweverTheyAreWritten) {
  EXPECT_TRUE(SameResources({{"cpu", "1"}, {"m", "1Gi"}}, {{"cpu", "1000m"}, {"m", "1073741824"}}));
  EXPECT_FALSE(SameResources({{"cpu", "1"}}, {{"cpu", "1001m"}}));
  EXPECT_FALSE(SameResources({{"cpu", "1"}}, {{"cpu", "1"}, {"m", "1"}}));
  EXPECT_FALSE(SameResources({{"cpu", "x"}}, {{"cpu", "y"}}));
}

TEST(PodGroup, IsOfTheWholeJobUnlessThePolicySaysLess) {
  EXPECT_EQ(PodGroupSpecOf(WithDefaults(Demanding().job), kOfVolcano).min_member, 5);
  EXPECT_EQ(PodGroupSpecOf(WithDefaults(Demanding().job), kOfVolcano).queue, "default");
  JobBuilder builder = Demanding().MinAvailable(2);
  SchedulingPolicy& policy = *builder.job.spec.run_policy.scheduling_policy;
  EXPECT_EQ(PodGroupSpecOf(WithDefaults(builder.job), kOfVolcano).min_resources.at("cpu"), "1");
  policy.queue = "q";
  policy.priority_class = "high";
  policy.min_resources = {{"cpu", "9"}};
  policy.schedule_timeout_seconds = 30;
  EXPECT_EQ(PodGroupSpecOf(WithDefaults(builder.job), kOfVolcano),
            (PodGroupSpec{2, "q", "high", {{"cpu", "9"}}, std::nullopt}));
  EXPECT_EQ(PodGroupSpecOf(WithDefaults(builder.job), kOfPlugins),
            (PodGroupSpec{2, "", "", {{"cpu", "9"}}, 30}));
}

TEST(PodGroup, IsChangedOnlyWhereItDiffersAndKeepsItsQueue) {
  const PodGroupSpec wanted = {3, "mine", "high", {{"cpu", "2"}}, std::nullopt};
  const auto patch = [&](const PodGroupSpec& current, const PodGroupSpec& to) {
    return PodGroupPatch(current, to, kOfVolcano).dump();
  };
  EXPECT_EQ(patch(wanted, wanted), "{}");
  EXPECT_EQ(patch({3, "theirs", "high", {{"cpu", "2000m"}}, {}}, wanted), "{}");
  EXPECT_EQ(patch({5, "", "", {{"gpu", "1"}}, {}}, wanted),
            R"({"minMember":3,"minResources":{"cpu":"2","gpu":null},"priorityClassName":"high",)"
            R"("queue":"mine"})");
  EXPECT_EQ(patch(wanted, {3, "mine", "", {}, {}}),
            R"({"minResources":null,"priorityClassName":null})");
  EXPECT_EQ(PodGroupPatch({.schedule_timeout_seconds = 5}, {}, kOfPlugins).dump(),
            R"({"scheduleTimeoutSeconds":null})");
}

TEST(OtherSchedulers, AreFoundInNoneAllOrOneOfTheTemplates) {  // K2
  const auto set = [](JobBuilder& builder, const char* type, const char* name) {
    builder.job.spec.replicas->at(type).pod_template["spec"]["schedulerName"] = name;
  };
  JobBuilder builder = MakeJob("j").Ps(1).Workers(1);
  EXPECT_THAT(TypesOfOtherSchedulers(builder.job, kOfVolcano), IsEmpty());
  EXPECT_THAT(World(builder, kOfVolcano).Look().events, testing::SizeIs(1));  // it is queued
  set(builder, kWorker, "volcano");
  EXPECT_THAT(TypesOfOtherSchedulers(builder.job, kOfVolcano), IsEmpty());
  set(builder, kWorker, "mine");
  EXPECT_THAT(TypesOfOtherSchedulers(builder.job, kOfVolcano), ElementsAre("Worker (mine)"));
  set(builder, kPs, "yours");
  EXPECT_THAT(TypesOfOtherSchedulers(builder.job, kOfVolcano),
              ElementsAre("PS (yours)", "Worker (mine)"));
  World world(builder, kOfVolcano);
  EXPECT_THAT(world.Step().events,
              Contains(Event{"Warning", "SetPodTemplateSchedulerName",
                             "Another scheduler is specified when gang-scheduling is enabled and "
                             "it will not be overwritten: PS (yours), Worker (mine)"}));
  const Plan plan = world.Admit("Inqueue").Look();
  EXPECT_THAT(plan.events, IsEmpty());  // told once
  for (const Action& action : plan.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod == nullptr) continue;
    EXPECT_EQ(pod->object["spec"]["schedulerName"], pod->type == "ps" ? "yours" : "mine");
  }
}

TEST(Gang, OfVolcanoWaitsForItsAdmissionAndSaysSo) {  // K1
  World world(MakeJob("j").Workers(1).MinAvailable(10), kOfVolcano);
  Plan plan = world.Step();
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_THAT(NamesOf<CreatePodGroup>(plan), ElementsAre("j"));
  EXPECT_THAT(plan.events, ElementsAre(Event{"Normal", "PodGroupPending",
                                             "TFJob ns/j is queued: its pods are made once volcano "
                                             "admits its PodGroup."}));
  for (const char* phase : {"", "Pending"}) {
    plan = world.Admit(phase, "10/1 tasks in gang").Step();
    EXPECT_THAT(plan.actions, IsEmpty()) << phase;
    EXPECT_THAT(plan.events, IsEmpty()) << phase;
    EXPECT_THAT(plan.waits_for, HasSubstr("PodGroup ns/j (minMember 10)")) << phase;
    EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Queued")) << phase;
    EXPECT_FALSE(world.status().start_time.has_value()) << phase;
  }
  EXPECT_THAT(plan.waits_for, HasSubstr("10/1 tasks in gang"));
  world.observed.job.spec.run_policy.scheduling_policy->min_available = 1;
  plan = world.Step();
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(std::get<UpdatePodGroup>(plan.actions[0]).spec, Json({{"minMember", 1}}));
  plan = world.Admit("Inqueue").Step();
  EXPECT_THAT(NamesOf<CreateService>(plan), ElementsAre("j-worker-0"));
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-worker-0"));
  EXPECT_EQ(plan.waits_for, "");
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created"));
  EXPECT_TRUE(world.status().start_time.has_value());
  world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
  plan = world.Step();  // puts its end on record first
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(NamesOf<DeletePodGroup>(world.Step()), ElementsAre("j"));
  EXPECT_THAT(world.Step().actions, IsEmpty());
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Succeeded"));
}

TEST(Gang, OfAnotherSchedulerMakesPodsAtOnceBehindThePodGroup) {
  World world(MakeJob("j").Ps(1).Workers(1), kOfPlugins);
  const Plan plan = world.Step();
  ASSERT_EQ(plan.actions.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<CreatePodGroup>(plan.actions[0]));
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-ps-0", "j-worker-0"));
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created"));
  EXPECT_THAT(world.Step().actions, IsEmpty());
}

TEST(Gang, GoesWithASuspensionAndWaitsForItsOldPodGroupAfterwards) {
  for (const PlanOptions& options : {kOfVolcano, kOfPlugins}) {
    World world(MakeJob("j").Workers(1), options);
    world.Step();
    world.Admit("Running").Settle();
    world.Pod(kWorker, 0, PodPhase::kRunning);
    world.Settle();
    world.observed.job.spec.run_policy.suspend = true;
    Plan plan = world.Look();
    EXPECT_THAT(NamesOf<DeletePodGroup>(plan), ElementsAre("j"));
    world.observed.job.status = plan.status;
    world.observed.pods.clear();
    world.observed.services.clear();
    world.observed.pod_groups[0].deletion_time = world.observed.now;
    EXPECT_THAT(world.Step().actions, IsEmpty());
    world.observed.job.spec.run_policy.suspend = false;
    plan = world.Step();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_THAT(plan.waits_for, HasSubstr("of before to be gone"));
    EXPECT_FALSE(world.status().start_time.has_value());
    world.observed.pod_groups.clear();
    EXPECT_THAT(NamesOf<CreatePodGroup>(world.Step()), ElementsAre("j"));
    world.Admit("Inqueue").Settle();
    EXPECT_EQ(world.observed.pods.size(), 1u);
    EXPECT_EQ(world.status().start_time, world.observed.now);
  }
}

TEST(Gang, ThatRunsIsNotCalledQueued) {
  World world(MakeJob("j").Workers(2, kRestartExitCode), kOfVolcano);
  world.Step();
  world.Admit("Inqueue").Settle();
  world.Pods(kWorker, 2, PodPhase::kRunning);
  world.Settle();
  world.Admit("Pending").Settle();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
  world.RemovePod(kWorker, 1);  // its replacement queues
  world.Settle();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running", "Queued"));
  EXPECT_EQ(world.observed.pods.size(), 1u);
  world.Admit("Running").Settle();
  EXPECT_EQ(world.observed.pods.size(), 2u);
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created", "Running"));
}

TEST(Gang, GrowsWithItsJob) {
  World world(MakeJob("j").Workers(2), kOfPlugins);
  world.Settle();
  world.observed.job.spec.replicas->at(kWorker).replicas = 3;
  const Plan plan = world.Step();
  ASSERT_EQ(plan.actions.size(), 3u);
  EXPECT_EQ(std::get<UpdatePodGroup>(plan.actions[0]).spec, Json({{"minMember", 3}}));
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-worker-2"));
}

TEST(Gang, LeavesThePodGroupOfAnotherOwnerAlone) {
  World world(MakeJob("j").Workers(1), kOfVolcano);
  world.observed.pod_groups.push_back(
      {.name = "j", .uid = "x", .owner_uid = "other", .phase = "Running"});
  EXPECT_THAT(NamesOf<CreatePodGroup>(world.Look()), ElementsAre("j"));  // and will be told
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), IsEmpty());
  world.observed.job.spec.run_policy.suspend = true;
  EXPECT_THAT(world.Look().actions, IsEmpty());
}

TEST(Gang, AsV19HasNoConditionOfItsOwn) {
  World world(MakeJob("j").Workers(1), {.compat_v19 = true, .gang_scheduler = "volcano"});
  world.Settle();
  EXPECT_THAT(ConditionsOf(world.status()), ElementsAre("Created"));
  EXPECT_THAT(world.observed.pods, IsEmpty());
  EXPECT_THAT(world.Look().waits_for, HasSubstr("PodGroup ns/j"));
}

TEST(Gang, DoesNotSpendItsDeadlineInTheQueue) {
  World world(MakeJob("j").Workers(1).Deadline(60), kOfVolcano);
  world.Step();
  world.observed.now += absl::Hours(1);
  world.Step();
  EXPECT_FALSE(world.Has(kFailed));
  world.Admit("Inqueue").Step();
  EXPECT_EQ(world.observed.pods.size(), 1u);
  EXPECT_EQ(world.Look().requeue_after, absl::Seconds(60));
}

}  // namespace
}  // namespace tfjob
