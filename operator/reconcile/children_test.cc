// Identity and contents of pods and services. C, D and E number the conformance table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/reconcile/builders.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/cluster.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Json PodOf(const JobBuilder& builder, const std::string& type, int index,
           const PlanOptions& options = {}) {
  const TfJob job = WithDefaults(builder.job);
  return BuildPod(job, type, index, ClusterOf(job, options), options);
}

// The value of an environment variable of the tensorflow container, nullopt when it has none.
std::optional<std::string> EnvOf(const Json& pod, const std::string& name) {
  std::optional<std::string> value;
  const Json& container = pod["spec"]["containers"][0];
  if (!container.contains("env")) return value;
  for (const Json& entry : container["env"]) {
    if (entry["name"] == name) value = entry["value"];
  }
  return value;
}

TEST(Children, AreNamedByJobTypeAndIndex) {  // C1 E1
  World world(MakeJob("j").Chief().Ps(2).Workers(3).Replicas(kEvaluator, 1));
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreatePod>(plan), ElementsAre("j-ps-0", "j-ps-1", "j-chief-0", "j-worker-0",
                                                    "j-worker-1", "j-worker-2", "j-evaluator-0"));
  EXPECT_EQ(NamesOf<CreateService>(plan), NamesOf<CreatePod>(plan));
}

TEST(Children, ComeAfterAllServices) {
  const Plan plan = World(MakeJob("j").Ps(1).Workers(2)).Look();
  ASSERT_EQ(plan.actions.size(), 6u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::holds_alternative<CreateService>(plan.actions[i]));
}

TEST(Pod, CarriesLabelsAnnotationsAndOwner) {  // C2 C3 C4
  JobBuilder builder = MakeJob("j").Workers(2);
  Json& pod_template = builder.job.spec.replicas->at(kWorker).pod_template;
  pod_template["metadata"] = {{"labels", {{"a", "b"}, {kLabelJobName, "mine"}}},
                              {"annotations", {{"sidecar.istio.io/inject", "false"}}},
                              {"name", "ignored"}};
  const Json meta = PodOf(builder, kWorker, 1)["metadata"];
  EXPECT_EQ(meta["labels"], Json({{"a", "b"},
                                  {kLabelOperatorName, "tfjob-controller"},
                                  {kLabelJobName, "j"},
                                  {kLabelJobUid, "job-uid"},
                                  {kLabelReplicaType, "worker"},
                                  {kLabelReplicaIndex, "1"}}));
  EXPECT_EQ(meta["annotations"]["sidecar.istio.io/inject"], "false");
  EXPECT_EQ(meta["name"], "j-worker-1");
  EXPECT_EQ(meta["namespace"], "ns");
  EXPECT_EQ(meta["ownerReferences"].dump(),
            R"([{"apiVersion":"kubeflow.org/v1","blockOwnerDeletion":true,"controller":true,)"
            R"("kind":"TFJob","name":"j","uid":"job-uid"}])");
}

TEST(Pod, HasTheMasterRoleOnChiefsOrElseWorkerZero) {
  const auto role = [](const JobBuilder& builder, const char* type, int index) {
    return PodOf(builder, type, index)["metadata"]["labels"].value(kLabelJobRole, "");
  };
  EXPECT_EQ(role(MakeJob("j").Chief().Workers(1), kChief, 0), "master");
  EXPECT_EQ(role(MakeJob("j").Chief().Workers(1), kWorker, 0), "");
  EXPECT_EQ(role(MakeJob("j").Workers(2), kWorker, 0), "master");
  EXPECT_EQ(role(MakeJob("j").Workers(2), kWorker, 1), "");
}

TEST(Children, CarryTheLabelsOfBeforeV16OnlyOnRequest) {
  JobBuilder builder = MakeJob("j").Chief().Workers(2);
  builder.job.spec.replicas->at(kChief).pod_template["metadata"] = {
      {"labels", {{"replica-type", "mine"}, {"a", "b"}}}};
  const PlanOptions asked{.legacy_labels = true};
  const Json without = PodOf(builder, kChief, 0)["metadata"]["labels"];
  Json with = without;
  with.update({{"group-name", "kubeflow.org"},
               {"job-name", "j"},
               {"job-role", "master"},
               {"replica-index", "0"},
               {"replica-type", "chief"},
               {"tf-job-name", "j"},
               {"tf-job-role", "master"},
               {"tf-replica-index", "0"},
               {"tf-replica-type", "chief"}});
  EXPECT_EQ(without["replica-type"], "mine");
  EXPECT_EQ(PodOf(builder, kChief, 0, asked)["metadata"]["labels"], with)
      << "a user's own value gives way, as it did then";
  const Json worker = PodOf(builder, kWorker, 1, asked)["metadata"]["labels"];
  EXPECT_EQ(worker["tf-replica-index"], "1");
  EXPECT_FALSE(worker.contains("job-role"));

  const Json plain = BuildService(WithDefaults(builder.job), kWorker, 1, {});
  const Json service = BuildService(WithDefaults(builder.job), kWorker, 1, asked);
  EXPECT_EQ(service["spec"]["selector"], plain["spec"]["selector"]);
  EXPECT_EQ(service["metadata"]["labels"]["tf-job-name"], "j");
  EXPECT_EQ(service["metadata"]["labels"]["group-name"], "kubeflow.org");
}

TEST(Pod, TakesTheReplicasRestartPolicyButNeverForExitCode) {  // C8 C9
  for (const char* policy : {"Always", "OnFailure", "Never"}) {
    EXPECT_EQ(PodOf(MakeJob("j").Workers(1, policy), kWorker, 0)["spec"]["restartPolicy"], policy);
  }
  JobBuilder builder = MakeJob("j").Workers(1, kRestartExitCode);
  builder.job.spec.replicas->at(kWorker).pod_template["spec"]["restartPolicy"] = "Always";
  EXPECT_EQ(PodOf(builder, kWorker, 0)["spec"]["restartPolicy"], "Never");
  const Plan plan = World(builder).Look();
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "SetPodTemplateRestartPolicy");
}

TEST(Pod, PassesEverythingElseThrough) {
  JobBuilder builder = MakeJob("j").Workers(1);
  Json& spec = builder.job.spec.replicas->at(kWorker).pod_template["spec"];
  spec["containers"][0]["resources"] = {{"limits", {{"nvidia.com/gpu", 1}}}};
  spec["tolerations"] = {{{"key", "gpu"}}};
  spec["fieldOfTheFuture"] = {{"x", 1}};
  const Json pod = PodOf(builder, kWorker, 0);
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], 1);
  EXPECT_EQ(pod["spec"]["tolerations"], spec["tolerations"]);
  EXPECT_EQ(pod["spec"]["fieldOfTheFuture"], spec["fieldOfTheFuture"]);
}

TEST(Service, IsHeadlessAndSelectsOneReplica) {  // C5
  const Json service = BuildService(WithDefaults(MakeJob("j").Ps(1).job), kPs, 0, {});
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["spec"]["ports"].dump(), R"([{"name":"tfjob-port","port":2222}])");
  EXPECT_EQ(service["spec"]["selector"].size(), 4u);
  Json labels = service["spec"]["selector"];
  labels[kLabelJobUid] = "job-uid";
  EXPECT_EQ(service["metadata"]["labels"], labels);
  EXPECT_TRUE(service["metadata"].contains("ownerReferences"));
}

TEST(Service, WaitsForReadinessOnlyAsV19) {
  const Json service =
      BuildService(WithDefaults(MakeJob("j").Ps(1).job), kPs, 0, {.compat_v19 = true});
  EXPECT_FALSE(service["spec"].contains("publishNotReadyAddresses"));
  EXPECT_EQ(service["spec"]["selector"], service["metadata"]["labels"]);
}

TEST(Service, NamesEveryPortOnceThereAreTwo) {
  JobBuilder builder = MakeJob("j").Workers(1);
  builder.job.spec.replicas->at(kWorker).pod_template["spec"]["containers"][0]["ports"] = {
      {{"containerPort", 80}}, {{"name", "dns"}, {"containerPort", 53}, {"protocol", "UDP"}}};
  EXPECT_EQ(BuildService(WithDefaults(builder.job), kWorker, 0, {})["spec"]["ports"].dump(),
            R"([{"name":"port-80","port":80},{"name":"dns","port":53,"protocol":"UDP"},)"
            R"({"name":"tfjob-port","port":2222}])");
}

TEST(TfConfig, IsLeftOutForASingleReplica) {  // D1 D4
  EXPECT_EQ(EnvOf(PodOf(MakeJob("j").Workers(1), kWorker, 0), "TF_CONFIG"), std::nullopt);
  EXPECT_EQ(EnvOf(PodOf(MakeJob("j").Ps(1), kPs, 0), "TF_CONFIG"), std::nullopt);
  EXPECT_NE(EnvOf(PodOf(MakeJob("j").Ps(1).Workers(1), kPs, 0), "TF_CONFIG"), std::nullopt);
  EXPECT_NE(EnvOf(PodOf(MakeJob("j").Chief().Workers(1), kChief, 0), "TF_CONFIG"), std::nullopt);
}

TEST(TfConfig, HasTheClusterDomain) {  // D2
  EXPECT_EQ(*EnvOf(PodOf(MakeJob("j").Ps(1).Workers(1), kWorker, 0,
                         {.cluster_domain = "tf.training.org"}),
                   "TF_CONFIG"),
            R"({"cluster":{"ps":["j-ps-0.ns.svc.tf.training.org:2222"],)"
            R"("worker":["j-worker-0.ns.svc.tf.training.org:2222"]},)"
            R"("task":{"type":"worker","index":0},"environment":"cloud"})");
}

TEST(TfConfig, ListsTheEvaluatorUnlessToldOtherwise) {  // D3
  const JobBuilder builder = MakeJob("j").Ps(1).Workers(1).Replicas(kEvaluator, 1);
  EXPECT_EQ(*EnvOf(PodOf(builder, kWorker, 0), "TF_CONFIG"),
            R"({"cluster":{"evaluator":["j-evaluator-0.ns.svc:2222"],"ps":["j-ps-0.ns.svc:2222"],)"
            R"("worker":["j-worker-0.ns.svc:2222"]},"task":{"type":"worker","index":0},)"
            R"("environment":"cloud"})");
  EXPECT_EQ(*EnvOf(PodOf(builder, kEvaluator, 0, {.evaluator_in_cluster = false}), "TF_CONFIG"),
            R"({"cluster":{"ps":["j-ps-0.ns.svc:2222"],"worker":["j-worker-0.ns.svc:2222"]},)"
            R"("task":{"type":"evaluator","index":0},"environment":"cloud"})");
}

TEST(TfConfig, IsSparseForDynamicWorkers) {  // D5
  const JobBuilder builder = MakeJob("j").Ps(2).Workers(2).Dynamic();
  EXPECT_EQ(*EnvOf(PodOf(builder, kWorker, 0), "TF_CONFIG"),
            R"({"cluster":{"worker":{"0":"j-worker-0.ns.svc:2222"},)"
            R"("ps":["j-ps-0.ns.svc:2222","j-ps-1.ns.svc:2222"]},)"
            R"("task":{"type":"worker","index":0}})");
  EXPECT_EQ(
      *EnvOf(PodOf(builder, kPs, 1), "TF_CONFIG"),
      R"({"cluster":{"worker":{},"ps":["j-ps-1.ns.svc:2222"]},"task":{"type":"ps","index":1}})");
}

TEST(TfConfig, TellsASparseChiefThePsAndItself) {
  const JobBuilder builder = MakeJob("j").Chief().Ps(1).Workers(1).Dynamic();
  EXPECT_EQ(*EnvOf(PodOf(builder, kChief, 0), "TF_CONFIG"),
            R"({"cluster":{"chief":["j-chief-0.ns.svc:2222"],"worker":{},)"
            R"("ps":["j-ps-0.ns.svc:2222"]},"task":{"type":"chief","index":0}})");
  EXPECT_EQ(*EnvOf(PodOf(builder, kChief, 0, {.compat_v19 = true}), "TF_CONFIG"),
            R"({"cluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}})");
}

TEST(TfConfig, CanBeReadBackByEveryTask) {  // D6
  for (const bool dynamic : {false, true}) {
    JobBuilder builder = MakeJob("j").Chief().Ps(2).Workers(3).Replicas(kEvaluator, 1);
    builder.job.spec.enable_dynamic_worker = dynamic;
    const Plan plan = World(builder).Look();
    for (const Action& action : plan.actions) {
      const auto* pod = std::get_if<CreatePod>(&action);
      if (pod == nullptr) continue;
      const auto config = base::ParseTfConfig(*EnvOf(pod->object, "TF_CONFIG"));
      ASSERT_TRUE(config.ok()) << config.status();
      EXPECT_EQ(config->task, (base::Task{pod->type, pod->index}));
      EXPECT_EQ(config->cluster.Address(config->task), pod->name + ".ns.svc:2222");
    }
  }
}

TEST(HostEnv, StandsBeforeTheUsersVariablesAndTfConfigLast) {
  JobBuilder builder = MakeJob("j").Ps(1).Workers(2);
  builder.job.spec.replicas->at(kWorker).pod_template["spec"]["containers"][0]["env"] = {
      {{"name", "HOSTS"}, {"value", "$(PS_HOSTS)"}}, {{"name", "TASK_INDEX"}, {"value", "7"}}};
  const Json pod = PodOf(builder, kWorker, 1);
  std::vector<std::string> names;
  for (const Json& entry : pod["spec"]["containers"][0]["env"]) names.push_back(entry["name"]);
  EXPECT_THAT(names, ElementsAre("JOB_NAME", "PS_HOSTS", "WORKER_HOSTS", "HOSTS", "TASK_INDEX",
                                 "TF_CONFIG"));
  EXPECT_EQ(EnvOf(pod, "JOB_NAME"), "worker");
  EXPECT_EQ(EnvOf(pod, "TASK_INDEX"), "7");
  EXPECT_EQ(EnvOf(pod, "PS_HOSTS"), "j-ps-0.ns.svc:2222");
  EXPECT_EQ(EnvOf(pod, "WORKER_HOSTS"), "j-worker-0.ns.svc:2222,j-worker-1.ns.svc:2222");
}

TEST(HostEnv, IsAbsentAsV19) {
  const Json pod = PodOf(MakeJob("j").Ps(1).Workers(1), kWorker, 0, {.compat_v19 = true});
  EXPECT_EQ(EnvOf(pod, "PS_HOSTS"), std::nullopt);
  EXPECT_NE(EnvOf(pod, "TF_CONFIG"), std::nullopt);
}

TEST(Cluster, UsesThePortOfEachType) {
  JobBuilder builder = MakeJob("j").Ps(1).Workers(1);
  builder.job.spec.replicas->at(kPs).pod_template["spec"]["containers"][0]["ports"] = {
      {{"name", "tfjob-port"}, {"containerPort", 3333}}};
  const base::ClusterSpec cluster = ClusterOf(WithDefaults(builder.job), {});
  EXPECT_EQ(cluster.Address({"ps", 0}), "j-ps-0.ns.svc:3333");
  EXPECT_EQ(cluster.Address({"worker", 0}), "j-worker-0.ns.svc:2222");
}

TEST(Cluster, AsksTheResolverForAddresses) {
  PlanOptions options;
  options.address = [](const base::Task& task, int port) {
    return "127.0.0.1:" + std::to_string(port + (task.job == "ps" ? 100 : 200) + task.index);
  };
  const Json pod = PodOf(MakeJob("j").Ps(1).Workers(2), kWorker, 0, options);
  EXPECT_EQ(EnvOf(pod, "WORKER_HOSTS"), "127.0.0.1:2422,127.0.0.1:2423");
  EXPECT_EQ(base::ParseTfConfig(*EnvOf(pod, "TF_CONFIG"))->cluster.Address({"ps", 0}),
            "127.0.0.1:2322");
}

TEST(Creating, MakesEveryReplica) {  // E2
  const Plan plan = World(MakeJob("j").Workers(4).Ps(2)).Look();
  EXPECT_EQ(NamesOf<CreatePod>(plan).size(), 6u);
  EXPECT_EQ(NamesOf<CreateService>(plan).size(), 6u);
}

TEST(Creating, MakesNothingWhileAllArePending) {  // E3
  World world(MakeJob("j").Workers(4).Ps(2));
  world.Pods(kWorker, 4, PodPhase::kPending).Pods(kPs, 2, PodPhase::kPending);
  EXPECT_THAT(world.Step().actions, IsEmpty());
  EXPECT_FALSE(world.Has(kRunning));
}

TEST(Creating, MakesWhatIsMissing) {  // E5 E6 E7
  for (const PodPhase third : {PodPhase::kPending, PodPhase::kRunning, PodPhase::kSucceeded}) {
    World world(MakeJob("j").Workers(4).Ps(2));
    world.Pods(kWorker, 2, PodPhase::kPending).Pods(kPs, 1, PodPhase::kPending);
    if (third != PodPhase::kPending) world.Pod(kWorker, 2, third);
    const Plan plan = world.Step();
    const size_t missing = third == PodPhase::kPending ? 3 : 2;
    EXPECT_EQ(NamesOf<CreatePod>(plan).size(), missing);
    EXPECT_EQ(NamesOf<CreateService>(plan).size(), missing);
    EXPECT_EQ(world.Has(kRunning), third == PodPhase::kRunning);
    EXPECT_EQ(world.status().replica_statuses.at(kWorker).succeeded,
              third == PodPhase::kSucceeded ? 1 : 0);
  }
}

TEST(Scaling, RemovesPodsBeyondTheReplicas) {  // E9
  World world(MakeJob("j").Workers(2).Dynamic());
  world.Pods(kWorker, 3, PodPhase::kRunning);
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<DeletePod>(plan), ElementsAre("j-worker-2"));
  EXPECT_THAT(NamesOf<DeleteService>(plan), ElementsAre("j-worker-2"));
}

TEST(Scaling, AddsPodsUpToTheReplicas) {  // E10
  World world(MakeJob("j").Workers(3));
  world.Pod(kWorker, 0);
  EXPECT_THAT(NamesOf<CreatePod>(world.Look()), ElementsAre("j-worker-1", "j-worker-2"));
}

TEST(Scaling, CopesWithGapsBeyondTheReplicas) {  // E11
  World world(MakeJob("j").Workers(3));
  for (const int index : {0, 1, 2, 4}) world.Pod(kWorker, index);
  EXPECT_THAT(NamesOf<DeletePod>(world.Look()), ElementsAre("j-worker-4"));
}

TEST(Ownership, LeavesADecoysChildrenAlone) {  // C7 K4
  World world(MakeJob("j").Workers(1).Clean(kCleanAll));
  world.Pod(kWorker, 0).owner_uid = "another-job";
  world.observed.services[0].owner_uid = "another-job";
  const Plan plan = world.Look();
  EXPECT_THAT(NamesOf<CreatePod>(plan), IsEmpty());
  EXPECT_THAT(NamesOf<DeletePod>(plan), IsEmpty());
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "PodNameTaken");
}

TEST(Ownership, TakesAnOrphanServiceForOurs) {
  World world(MakeJob("j").Workers(1));
  world.Service(kWorker, 0);
  world.observed.services[0].owner_uid = "";
  EXPECT_THAT(NamesOf<CreateService>(world.Look()), IsEmpty());
}

TEST(ForeignTypes, GetPodsButDecideNothing) {
  World world(MakeJob("j").Workers(1).Replicas("Dispatcher", 1));
  world.Step();
  EXPECT_EQ(world.observed.pods.size(), 2u);
  world.Pod("Dispatcher", 0, PodPhase::kFailed, 1);
  world.Pod(kWorker, 0, PodPhase::kRunning);
  world.Settle();
  EXPECT_FALSE(world.Has(kFailed));
  EXPECT_TRUE(world.Has(kRunning));
}

}  // namespace
}  // namespace tfjob
