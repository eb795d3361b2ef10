// TLS between tasks: who gets it, and that the pods of one job never differ in it.
#include "operator/reconcile/task_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/task_tls.h"
#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kSecret[] = "j-tls-job-uid";

JobBuilder Training(int workers = 2) {
  return MakeJob("j").Ps(1).Workers(workers, kRestartExitCode);
}
PlanOptions ForTrainers() { return {.task_tls_images = {"i"}}; }  // as TestTemplate has it

int TlsPods(const Plan& plan) {
  int count = 0;
  for (const Action& action : plan.actions) {
    const auto* pod = std::get_if<CreatePod>(&action);
    if (pod != nullptr && HasTaskTls(pod->object)) ++count;
  }
  return count;
}

TEST(TaskTls, SecretComesBeforeServicesAndPods) {
  World world(Training(), ForTrainers());
  const Plan plan = world.Look();
  ASSERT_EQ(plan.actions.size(), 7u);
  const auto* secret = std::get_if<CreateSecret>(&plan.actions[0]);
  ASSERT_NE(secret, nullptr);
  EXPECT_EQ(secret->name, kSecret);
  EXPECT_EQ(secret->object.dump(),
            R"({"apiVersion":"v1","immutable":true,"kind":"Secret","metadata":{"labels":)"
            R"({"training.kubeflow.org/job-name":"j",)"
            R"("training.kubeflow.org/operator-name":"tfjob-controller"},"name":"j-tls-job-uid",)"
            R"("namespace":"ns","ownerReferences":[{"apiVersion":"kubeflow.org/v1",)"
            R"("blockOwnerDeletion":true,"controller":true,"kind":"TFJob","name":"j",)"
            R"("uid":"job-uid"}]},"type":"kubernetes.io/tls"})");
  EXPECT_EQ(TlsPods(plan), 3);
  EXPECT_TRUE(plan.status.task_tls);
}

TEST(TaskTls, ForeignImagesGetNothing) {
  const Plan plan = World(Training(), {.task_tls_images = {"trainyard/trainer"}}).Look();
  EXPECT_EQ(plan, World(Training()).Look());
  EXPECT_THAT(NamesOf<CreateSecret>(plan), IsEmpty());
  EXPECT_EQ(TlsPods(plan), 0);
}

TEST(TaskTls, IsUnknownToCompatV19) {
  PlanOptions options = ForTrainers();
  options.compat_v19 = true;
  EXPECT_EQ(TlsPods(World(Training(), options).Look()), 0);
}

TEST(TaskTls, AReplacedPodIsAsTheOthersAndNeedsNoCallForItsSecret) {
  World world(Training(), ForTrainers());
  world.Settle();
  EXPECT_EQ(world.secrets, 1);
  world.options.task_tls_images.clear();  // another operator
  world.observed.job.metadata.annotations[kAnnotationTaskTls] = "false";
  world.RemovePod(kWorker, 1);
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-worker-1"));
  EXPECT_EQ(TlsPods(plan), 1);
  EXPECT_THAT(NamesOf<CreateSecret>(plan), IsEmpty());
}

// Of v1.9, or of an operator before this one.
TEST(TaskTls, AJobThatRunsWithoutGoesOnWithout) {
  World world(Training());
  world.Settle();
  world.options = ForTrainers();
  EXPECT_THAT(world.Look().actions, IsEmpty());
  world.observed.job.metadata.annotations[kAnnotationTaskTls] = "true";
  world.RemovePod(kPs, 0);
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-ps-0"));
  EXPECT_EQ(TlsPods(plan), 0);
  world.observed.pods.clear();  // a list that shows nothing yet
  EXPECT_EQ(TlsPods(world.Look()), 0);
}

// The CRD of training-operator keeps no status of ours.
TEST(TaskTls, IsSeenOnPodsWhereTheStatusLostIt) {
  World world(Training(), ForTrainers());
  world.Settle();
  world.observed.job.status.task_tls = false;
  world.options.task_tls_images.clear();
  world.RemovePod(kWorker, 0);
  const Plan plan = world.Look();
  EXPECT_EQ(TlsPods(plan), 1);
  EXPECT_TRUE(plan.status.task_tls);
}

TEST(TaskTls, OutlivesASuspension) {
  World world(Training(), ForTrainers());
  world.Settle();
  world.observed.job.spec.run_policy.suspend = true;
  world.Settle();
  ASSERT_THAT(world.observed.pods, IsEmpty());
  world.options.task_tls_images.clear();
  world.observed.job.spec.run_policy.suspend = false;
  const Plan plan = world.Look();
  EXPECT_EQ(TlsPods(plan), 3);
  // Somebody may have deleted it meanwhile.
  EXPECT_THAT(NamesOf<CreateSecret>(plan), ElementsAre(kSecret));
}

TEST(TaskTls, WaitsWithTheGang) {
  PlanOptions options = ForTrainers();
  options.gang_scheduler = kVolcano;
  World world(Training(), options);
  EXPECT_FALSE(world.Step().status.task_tls);
  world.Admit("Inqueue");
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreateSecret>(plan), ElementsAre(kSecret));
  EXPECT_EQ(TlsPods(plan), 3);
}

TEST(TaskTls, AWrongAnnotationFailsANewJobButNoneThatRuns) {
  JobBuilder builder = Training();
  builder.job.metadata.annotations[kAnnotationTaskTls] = "on";
  EXPECT_TRUE(HasCondition(World(builder, ForTrainers()).Look().status, kFailed));
  World running(Training(), ForTrainers());
  running.Settle();
  running.observed.job.metadata.annotations[kAnnotationTaskTls] = "on";
  EXPECT_FALSE(HasCondition(running.Look().status, kFailed));
}

}  // namespace
}  // namespace tfjob
