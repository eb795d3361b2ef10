// spec.network as it is written, what is wrong with it, and the ports that it gives out.
#include "operator/api/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A ps and two workers on their nodes' network.
Json JobWithNetwork(const Json& network, int workers = 2) {
  const Json pod = Json::parse(R"({"spec": {"hostNetwork": true, "dnsPolicy":
      "ClusterFirstWithHostNet", "containers": [{"name": "tensorflow", "image": "i"}]}})");
  return {
      {"apiVersion", kApiVersion},
      {"kind", kKind},
      {"metadata", {{"name", "j"}, {"uid", "u"}}},
      {"spec",
       {{"network", network},
        {"tfReplicaSpecs",
         {{"PS", {{"template", pod}}}, {"Worker", {{"template", pod}, {"replicas", workers}}}}}}}};
}

std::vector<std::string> NetworkProblems(const Json& network, int workers = 2) {
  const ParsedTfJob parsed = FromJson(JobWithNetwork(network, workers));
  std::vector<std::string> problems;
  for (const auto& errors : {parsed.errors, parsed.warnings, Validate(parsed.job)}) {
    for (const FieldError& error : errors) problems.push_back(ToString(error));
  }
  return problems;
}

std::vector<std::string> WarningsOf(const Json& job) {
  std::vector<std::string> warnings;
  for (const FieldError& warning : Lint(FromJson(job).job)) warnings.push_back(ToString(warning));
  return warnings;
}

TEST(NetworkFields, AreTakenWhereTheyMakeSense) {
  EXPECT_THAT(NetworkProblems({{"subdomain", "j"}}), IsEmpty());
  EXPECT_THAT(NetworkProblems({{"hostPorts", {{"min", 20000}, {"max", 20003}}}}), IsEmpty());
}

TEST(NetworkFields, AreRefusedWhereTheyMakeNone) {
  EXPECT_THAT(NetworkProblems({{"subdomain", "a.b"}}),
              ElementsAre(HasSubstr("spec.network.subdomain: Invalid value")));
  EXPECT_THAT(NetworkProblems({{"hostPorts", {{"min", 5}, {"max", 4}}}}),
              ElementsAre(HasSubstr("5 to 4: must be from 1 to 65535")));
  EXPECT_THAT(NetworkProblems({{"hostPorts", {{"min", 1}}}}), ElementsAre(HasSubstr("1 to 0")));
  EXPECT_THAT(NetworkProblems({{"hostPorts", {{"min", 20000}, {"max", 20003}}}}, 3),
              ElementsAre(HasSubstr("too few ports")));
  EXPECT_THAT(NetworkProblems({{"subDomain", "j"}}), ElementsAre(HasSubstr("subdomain")));
}

TEST(NetworkFields, CannotBeChanged) {
  const TfJob before = FromJson(JobWithNetwork({{"subdomain", "a"}})).job;
  const TfJob after = FromJson(JobWithNetwork({{"subdomain", "b"}})).job;
  EXPECT_THAT(ValidateUpdate(before, before), IsEmpty());
  ASSERT_EQ(ValidateUpdate(before, after).size(), 1u);
  EXPECT_EQ(ToString(ValidateUpdate(before, after)[0]),
            "spec.network: Invalid value: field is immutable");
}

TEST(NetworkFields, WarnOfWhatIsRarelyMeant) {
  Json job = JobWithNetwork({{"subdomain", "j"}});
  EXPECT_THAT(WarningsOf(job), IsEmpty());
  Json& pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"];
  pod["subdomain"] = "mine";
  pod.erase("dnsPolicy");
  EXPECT_THAT(WarningsOf(job), ElementsAre(HasSubstr("hostNetwork: Warning: without dnsPolicy"),
                                           HasSubstr("template.spec.subdomain: Warning")));
  Json none = JobWithNetwork({{"hostPorts", {{"min", 20000}, {"max", 20999}}}});
  for (const char* type : {"PS", "Worker"}) {
    none["spec"]["tfReplicaSpecs"][type]["template"]["spec"].erase("hostNetwork");
  }
  EXPECT_THAT(WarningsOf(none), ElementsAre(HasSubstr("none is given out")));
}

// Of every replica of a job with the given uid.
std::set<int> PortsOf(const std::string& uid, int workers, int max) {
  TfJob job =
      FromJson(JobWithNetwork({{"hostPorts", {{"min", 20000}, {"max", max}}}}, workers)).job;
  job.metadata.uid = uid;
  std::set<int> ports = {*HostPortOf(job, kPs, 0)};
  for (int i = 0; i < workers; ++i) ports.insert(*HostPortOf(job, kWorker, i));
  return ports;
}

TEST(HostPorts, AreDifferentWithinAJobAndInTheirRange) {
  for (const char* uid : {"", "a", "b", "4f9b6c1e-0000-4000-8000-000000000000"}) {
    const std::set<int> ports = PortsOf(uid, 50, 20099);
    EXPECT_EQ(ports.size(), 51u) << uid;
    EXPECT_GE(*ports.begin(), 20000);
    EXPECT_LE(*ports.rbegin(), 20099);
  }
  EXPECT_NE(PortsOf("a", 2, 29999), PortsOf("b", 2, 29999));
}

TEST(HostPorts, StayWhenTheJobIsScaled) {
  Json manifest = JobWithNetwork({{"hostPorts", {{"min", 20000}, {"max", 29999}}}});
  const TfJob job = FromJson(manifest).job;
  manifest["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 9;
  const TfJob scaled = FromJson(manifest).job;
  EXPECT_EQ(HostPortOf(job, kPs, 0), HostPortOf(scaled, kPs, 0));
  EXPECT_EQ(HostPortOf(job, kWorker, 1), HostPortOf(scaled, kWorker, 1));
}

TEST(HostPorts, AreForPodsOnTheirNodesNetworkAlone) {
  Json manifest = JobWithNetwork({{"hostPorts", {{"min", 20000}, {"max", 29999}}}});
  manifest["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"].erase("hostNetwork");
  TfJob job = FromJson(manifest).job;
  EXPECT_EQ(HostPortOf(job, kPs, 0), std::nullopt);
  EXPECT_EQ(TaskPortOf(job, kPs, 0), 2222);
  job.spec.network = {};
  EXPECT_EQ(HostPortOf(job, kWorker, 0), std::nullopt);
}

}  // namespace
}  // namespace tfjob
