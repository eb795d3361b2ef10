// spec.network: one service for all pods of a job, and ports for those on their nodes' network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cluster_spec.h"
#include "operator/api/network.h"
#include "operator/reconcile/builders.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/cluster.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

World WithSubdomain(const PlanOptions& options = {}) {
  World world(MakeJob("j").Ps(1).Workers(2), options);
  world.observed.job.spec.network.subdomain = "net";
  return world;
}

// What the plan creates of this kind and name.
template <typename Kind>
Json ObjectOf(const Plan& plan, const std::string& name) {
  for (const Action& action : plan.actions) {
    const auto* match = std::get_if<Kind>(&action);
    if (match != nullptr && match->name == name) return match->object;
  }
  return nullptr;
}
Json PodOf(const Plan& plan, const std::string& name) { return ObjectOf<CreatePod>(plan, name); }
Json ServiceOf(const Plan& plan) { return ObjectOf<CreateService>(plan, "net"); }

std::string EnvValue(const Json& pod, const std::string& name) {
  for (const Json& entry : pod["spec"]["containers"][0]["env"]) {
    if (entry["name"] == name) return entry["value"];
  }
  return "";
}

TEST(Subdomain, MakesOneServiceThatSelectsAllPods) {
  World world = WithSubdomain();
  const Plan plan = world.Step();
  EXPECT_THAT(NamesOf<CreateService>(plan), ElementsAre("net"));
  const Json service = ServiceOf(plan);
  EXPECT_EQ(service["spec"], Json::parse(R"({"clusterIP": "None", "publishNotReadyAddresses": true,
      "ports": [{"name": "tfjob-port", "port": 2222}], "selector": {
      "training.kubeflow.org/operator-name": "tfjob-controller",
      "training.kubeflow.org/job-name": "j"}})"));
  EXPECT_EQ(service["metadata"]["labels"][kLabelJobUid], kTestUid);
  EXPECT_EQ(service["metadata"]["ownerReferences"][0]["uid"], kTestUid);
  EXPECT_THAT(NamesOf<CreateService>(world.Look()), IsEmpty());
}

TEST(Subdomain, IsInTheNamesThatTasksAreTold) {
  const Plan plan = WithSubdomain({.cluster_domain = "c.local"}).Look();
  const Json pod = PodOf(plan, "j-worker-1");
  EXPECT_EQ(pod["spec"]["hostname"], "j-worker-1");
  EXPECT_EQ(pod["spec"]["subdomain"], "net");
  EXPECT_THAT(EnvValue(pod, kTfConfigEnv), HasSubstr(R"("ps":["j-ps-0.net.ns.svc.c.local:2222"])"));
  EXPECT_EQ(EnvValue(pod, "WORKER_HOSTS"),
            "j-worker-0.net.ns.svc.c.local:2222,j-worker-1.net.ns.svc.c.local:2222");
}

TEST(Subdomain, IsNothingThatV19Knows) {
  World world = WithSubdomain({.compat_v19 = true});
  EXPECT_EQ(NamesOf<CreateService>(world.Look()).size(), 3u);
}

TEST(Subdomain, ListsEachPortOfTheReplicasOnce) {
  World world = WithSubdomain();
  const auto ports_of = [&](const char* type) -> Json& {
    return world.observed.job.spec.replicas->at(type)
        .pod_template["spec"]["containers"][0]["ports"];
  };
  ports_of(kPs) = Json::parse(R"([{"name": "tfjob-port", "containerPort": 3333},
                                  {"name": "progress", "containerPort": 9100}])");
  ports_of(kWorker) = Json::parse(R"([{"name": "progress", "containerPort": 9100},
      {"containerPort": 53, "protocol": "UDP"}])");
  EXPECT_EQ(
      ServiceOf(world.Look())["spec"]["ports"],
      Json::parse(R"([{"name": "tfjob-port", "port": 3333}, {"name": "progress", "port": 9100},
                            {"name": "port-53", "port": 53, "protocol": "UDP"},
                            {"name": "port-2222-tcp", "port": 2222}])"));
}

TEST(Subdomain, ItsServiceGoesOnceNobodyRuns) {
  for (const std::string clean : {kCleanNone, kCleanRunning, kCleanAll}) {
    World world = WithSubdomain();
    world.observed.job.spec.run_policy.clean_pod_policy = clean;
    world.Settle();
    for (PodView& pod : world.observed.pods) pod.phase = PodPhase::kRunning;
    world.Settle();
    ASSERT_EQ(world.observed.services.size(), 1u);
    world.Pod(kWorker, 0, PodPhase::kSucceeded, 0);
    world.Settle();
    EXPECT_EQ(world.observed.services.empty(), clean != kCleanNone) << clean;
  }
}

TEST(Subdomain, TakesBackItsServiceAndLeavesOthersAlone) {
  World world = WithSubdomain();
  world.Settle();
  world.observed.services.front().owner_uid.clear();
  EXPECT_THAT(NamesOf<AdoptService>(world.Step()), ElementsAre("net"));
  world.observed.services.push_back({.name = "dashboard", .uid = "user"});
  world.Settle();
  EXPECT_EQ(world.observed.services.size(), 2u);
}

World OnHostNetwork() {
  World world(MakeJob("j").Ps(1).Workers(2));
  world.observed.job.spec.network.min_host_port = 20000;
  world.observed.job.spec.network.max_host_port = 20099;
  for (auto& [type, replica] : *world.observed.job.spec.replicas) {
    replica.pod_template["spec"]["hostNetwork"] = true;
  }
  return world;
}

TEST(HostPort, IsTheSameInPodServiceAndClusterSpec) {
  const World world = OnHostNetwork();
  const TfJob job = world.Defaulted();
  const Plan plan = world.Look();
  const int port = *HostPortOf(job, kWorker, 1);
  const Json pod = PodOf(plan, "j-worker-1");
  EXPECT_EQ(pod["spec"]["containers"][0]["ports"],
            Json::array({Json{{"name", kPortName}, {"containerPort", port}, {"hostPort", port}}}));
  EXPECT_EQ(PodOf(plan, "j-worker-1")["spec"]["hostNetwork"], true);
  const std::string address = "j-worker-1.ns.svc:" + std::to_string(port);
  EXPECT_THAT(EnvValue(pod, "WORKER_HOSTS"), HasSubstr(address));
  EXPECT_THAT(EnvValue(PodOf(plan, "j-ps-0"), kTfConfigEnv), HasSubstr(address));
  EXPECT_EQ(BuildService(job, kWorker, 1, {})["spec"]["ports"][0]["port"], port);
}

TEST(HostPort, IsOfItsOwnForEachReplica) {
  const World world = OnHostNetwork();
  std::set<std::string> addresses;
  for (const auto& [type, tasks] : ClusterOf(world.Defaulted(), {}).jobs) {
    for (const auto& [index, address] : tasks) addresses.insert(address.substr(address.find(':')));
  }
  EXPECT_EQ(addresses.size(), 3u);
}

TEST(HostPort, IsNotInTheServiceOfTheWholeJob) {
  World world = OnHostNetwork();
  world.observed.job.spec.network.subdomain = "net";
  EXPECT_EQ(ServiceOf(world.Look())["spec"]["ports"], Json::array());
}

}  // namespace
}  // namespace tfjob
