#include "base/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kStatic[] =
    R"({"cluster":{"chief":["j-chief-0.ns.svc:2222"],"evaluator":["j-evaluator-0.ns.svc:2222"],)"
    R"("ps":["j-ps-0.ns.svc:2222","j-ps-1.ns.svc:2222"],)"
    R"("worker":["j-worker-0.ns.svc:2222","j-worker-1.ns.svc:2222"]},)"
    R"("task":{"type":"ps","index":1},"environment":"cloud"})";
constexpr char kSparseWorker[] =
    R"({"cluster":{"worker":{"1":"j-worker-1.ns.svc:2222"},)"
    R"("ps":["j-ps-0.ns.svc:2222","j-ps-1.ns.svc:2222"]},"task":{"type":"worker","index":1}})";
constexpr char kSparsePs[] =
    R"({"cluster":{"worker":{},"ps":["j-ps-1.ns.svc:2222"]},"task":{"type":"ps","index":1}})";
constexpr char kSparseChief[] =
    R"({"cluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}})";
constexpr char kSparseNoPs[] = R"({"cluster":{"worker":{"0":"j-worker-0.ns.svc:2222"},"ps":null},)"
                               R"("task":{"type":"worker","index":0}})";

std::string ErrorOf(std::string_view json) {
  const auto config = ParseTfConfig(json);
  if (config.ok()) return "parsed";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(TfConfig, WritesTheStaticFormByteForByte) {
  TaskConfig config;
  config.cluster.jobs = {{"worker", {{0, "j-worker-0.ns.svc:2222"}, {1, "j-worker-1.ns.svc:2222"}}},
                         {"ps", {{0, "j-ps-0.ns.svc:2222"}, {1, "j-ps-1.ns.svc:2222"}}},
                         {"evaluator", {{0, "j-evaluator-0.ns.svc:2222"}}},
                         {"chief", {{0, "j-chief-0.ns.svc:2222"}}}};
  config.task = {"ps", 1};
  config.environment = "cloud";
  EXPECT_EQ(WriteTfConfig(config), kStatic);
}

TEST(TfConfig, WritesEverySparseFormByteForByte) {
  TaskConfig worker{.task = {"worker", 1}, .sparse = true};
  worker.cluster.jobs = {{"worker", {{1, "j-worker-1.ns.svc:2222"}}},
                         {"ps", {{0, "j-ps-0.ns.svc:2222"}, {1, "j-ps-1.ns.svc:2222"}}}};
  EXPECT_EQ(WriteTfConfig(worker), kSparseWorker);
  TaskConfig ps{.task = {"ps", 1}, .sparse = true};
  ps.cluster.jobs = {{"ps", {{1, "j-ps-1.ns.svc:2222"}}}};
  EXPECT_EQ(WriteTfConfig(ps), kSparsePs);
  TaskConfig chief{.task = {"chief", 0}, .sparse = true};
  chief.cluster.jobs = {{"ps", {}}};
  EXPECT_EQ(WriteTfConfig(chief), kSparseChief);
  TaskConfig no_ps{.task = {"worker", 0}, .sparse = true};
  no_ps.cluster.jobs = {{"worker", {{0, "j-worker-0.ns.svc:2222"}}}};
  EXPECT_EQ(WriteTfConfig(no_ps), kSparseNoPs);
}

TEST(TfConfig, PutsASparseChiefInFrontOfTheOtherJobs) {
  TaskConfig chief{.task = {"chief", 0}, .sparse = true};
  chief.cluster.jobs = {{"chief", {{0, "c:1"}}}, {"ps", {{0, "p:1"}}}};
  const std::string json = WriteTfConfig(chief);
  EXPECT_EQ(json, R"({"cluster":{"chief":["c:1"],"worker":{},"ps":["p:1"]},)"
                  R"("task":{"type":"chief","index":0}})");
  EXPECT_EQ(ParseTfConfig(json)->cluster.Address({"ps", 0}), "p:1");
}

TEST(TfConfig, ReadsBackWhatItWrites) {
  for (const char* json : {kStatic, kSparseWorker, kSparsePs, kSparseChief, kSparseNoPs}) {
    const auto config = ParseTfConfig(json);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(WriteTfConfig(*config), json);
  }
}

TEST(TfConfig, KeepsTheIndexOfASparsePs) {
  const auto config = ParseTfConfig(kSparsePs);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->sparse);
  EXPECT_EQ(config->cluster.Address({"ps", 1}), "j-ps-1.ns.svc:2222");
  EXPECT_EQ(config->cluster.Address({"ps", 0}), "");
}

TEST(TfConfig, TakesSparseClusterInPlaceOfCluster) {
  const auto config = ParseTfConfig(
      R"({"sparseCluster":{"worker":{"3":"w:1"},"ps":["p:1"]},"task":{"type":"worker","index":3}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->sparse);
  EXPECT_EQ(config->cluster.Address({"worker", 3}), "w:1");
}

TEST(TfConfig, TakesMasterAndAnEvaluatorInsideOrOutsideTheCluster) {
  EXPECT_EQ(ErrorOf(R"({"cluster":{"master":["m:1"]},"task":{"type":"master","index":0}})"),
            "parsed");
  EXPECT_EQ(ErrorOf(R"({"cluster":{"evaluator":["e:1"],"chief":["c:1"]},)"
                    R"("task":{"type":"evaluator","index":0}})"),
            "parsed");
  EXPECT_EQ(ErrorOf(R"({"cluster":{"chief":["c:1"]},"task":{"type":"evaluator","index":0}})"),
            "parsed");
}

TEST(TfConfig, TakesAnIndexWrittenAsText) {
  const auto config =
      ParseTfConfig(R"({"cluster":{"worker":["w:1","w:2"]},"task":{"type":"worker","index":"1"}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->task, (Task{"worker", 1}));
}

TEST(TfConfig, TakesAnEmptyObjectAsNoCluster) {
  const auto config = ParseTfConfig("{}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->cluster.empty());
}

TEST(TfConfig, NamesTheJsonPathOfEachError) {
  const struct {
    const char* json;
    const char* message;
  } kCases[] = {
      {"{oops", "TF_CONFIG: is not JSON: \"{oops\""},
      {"[]", "TF_CONFIG: must be a JSON object"},
      {R"({"cluster":[]})", "TF_CONFIG: cluster: must be an object of jobs"},
      {R"({"cluster":{"ps":"a:1"}})", "TF_CONFIG: cluster.ps: must be a list of host:port"},
      {R"({"cluster":{"ps":[7]}})", "TF_CONFIG: cluster.ps[0]: must be a string host:port"},
      {R"({"cluster":{"ps":["a:1","b"]}})",
       "TF_CONFIG: cluster.ps[1]: \"b\" is not host:port: it has no port"},
      {R"({"cluster":{"ps":["a:1"],"worker":["a:1"]}})",
       "TF_CONFIG: cluster.worker[0]: duplicate address a:1, also at cluster.ps[0]"},
      {R"({"cluster":{"wroker":["a:1"]}})",
       "TF_CONFIG: cluster.wroker: unknown job name; did you mean \"worker\"?"},
      {R"({"cluster":{"worker":{"x":"a:1"}}})",
       "TF_CONFIG: cluster.worker[x]: the key must be a task index"},
      {R"({"cluster":{"worker":["a:1"]}})", "TF_CONFIG: task: missing"},
      {R"({"cluster":{"worker":["a:1"]},"task":[]})", "TF_CONFIG: task: must be an object"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"index":0}})", "TF_CONFIG: task.type: missing"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":1,"index":0}})",
       "TF_CONFIG: task.type: must be a string"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"wrker","index":0}})",
       "TF_CONFIG: task.type: unknown task type \"wrker\"; did you mean \"worker\"?"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"gpu","index":0}})",
       "unknown task type \"gpu\" (known: chief, evaluator, master, ps, worker)"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"ps","index":0}})",
       "TF_CONFIG: task.type: the cluster has no job \"ps\""},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker"}})",
       "TF_CONFIG: task.index: missing"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}})",
       "TF_CONFIG: task.index: 1 is out of range: the cluster has 1 worker task(s)"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":-1}})",
       "TF_CONFIG: task.index: must be an integer, 0 or more"},
      {R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":99999999999}})",
       "TF_CONFIG: task.index: must be an integer, 0 or more"},
      {R"({"cluster":{},"sparseCluster":{}})", "TF_CONFIG: sparseCluster: give either"},
      {R"({"environment":1})", "TF_CONFIG: environment: must be a string"},
  };
  for (const auto& c : kCases) EXPECT_THAT(ErrorOf(c.json), HasSubstr(c.message)) << c.json;
}

TEST(HostListFlag, TakesBlanksAndTheGrpcScheme) {
  const auto hosts = ParseHostList("--ps_hosts", " a:1, grpc://b:2 ,[::1]:3");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_THAT(*hosts, ElementsAre("a:1", "b:2", "[::1]:3"));
}

TEST(HostListFlag, NamesTheFlagInEachError) {
  const struct {
    const char* value;
    const char* message;
  } kCases[] = {
      {"", "--ps_hosts: entry 0 is empty"},
      {"a:1,,b:2", "--ps_hosts: entry 1 is empty"},
      {"a:1,b", "--ps_hosts: entry 1: \"b\" is not host:port: it has no port"},
      {"a:1,a:1", "--ps_hosts: entry 1: duplicate address a:1"},
      {"'a:1'", "--ps_hosts: the value still carries shell quotes: 'a:1'"},
      {"\"a:1", "--ps_hosts: the value still carries shell quotes"},
  };
  for (const auto& c : kCases) {
    const auto hosts = ParseHostList("--ps_hosts", c.value);
    ASSERT_FALSE(hosts.ok()) << c.value;
    EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(hosts.status().message()), HasSubstr(c.message));
  }
}

TEST(HostListFlag, WritesTheAddressesOfAJobInOrder) {
  ClusterSpec cluster;
  cluster.jobs["worker"] = {{1, "b:2"}, {0, "a:1"}};
  EXPECT_EQ(HostList(cluster, "worker"), "a:1,b:2");
  EXPECT_EQ(HostList(cluster, "ps"), "");
}

TEST(Address, AcceptsNamesIpsAndBracketedV6) {
  for (const char* good : {"a:1", "10.0.0.1:65535", "[::1]:2222", "j_x-0.ns.svc:80"}) {
    EXPECT_TRUE(ValidateAddress(good).ok()) << good;
  }
}

TEST(Address, RefusesWhatIsNotHostAndPort) {
  for (const char* bad : {"", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1x", "::1:22", "[]:1",
                          "a b:1", "http://a:1", "a:+1"}) {
    EXPECT_FALSE(ValidateAddress(bad).ok()) << bad;
  }
}

TEST(ClusterSpec, ListsItsTasksInOrder) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {{0, "a:1"}, {2, "c:1"}}}, {"ps", {{0, "p:1"}}}};
  EXPECT_THAT(cluster.Tasks(), ElementsAre(Task{"ps", 0}, Task{"worker", 0}, Task{"worker", 2}));
  EXPECT_EQ(cluster.TaskCount("worker"), 2);
  EXPECT_EQ(cluster.TaskCount("chief"), 0);
  EXPECT_EQ(TaskName({"worker", 2}), "/job:worker/task:2");
}

}  // namespace
}  // namespace base
