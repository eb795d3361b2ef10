#include "trainer/train/role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPsConfig[] =
    R"({"cluster":{"ps":["p:1"],"worker":["a:1","b:1"]},"task":{"type":"worker","index":1},"environment":"cloud"})";

TEST(RoleTest, NoClusterIsThisMachineAlone) {
  const auto role = ResolveRole({}, "");
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->strategy, Strategy::kLocal);
  EXPECT_TRUE(role->chief);
  EXPECT_TRUE(role->cluster.empty());
}

TEST(RoleTest, ReadsTfConfig) {
  const auto role = ResolveRole({}, kPsConfig);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->task, (base::Task{"worker", 1}));
  EXPECT_EQ(role->strategy, Strategy::kAsync);
  EXPECT_FALSE(role->chief);
  EXPECT_EQ(role->rank, 1);
  EXPECT_EQ(role->address, "b:1");
  EXPECT_THAT(role->ps_addresses, ElementsAre("p:1"));
}

TEST(RoleTest, FlagsWinOverTfConfigWithAWarning) {
  Options options;
  options.task_index = 0;
  options.ps_hosts = "q:1, r:1";
  const auto role = ResolveRole(options, kPsConfig);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_TRUE(role->chief);
  EXPECT_THAT(role->ps_addresses, ElementsAre("q:1", "r:1"));
  EXPECT_THAT(role->warnings,
              ElementsAre(HasSubstr("--ps_hosts overrides"), HasSubstr("--task_index overrides")));
}

TEST(RoleTest, ADedicatedChiefTakesTheChiefsWorkFromWorkerZero) {
  const std::string config =
      R"({"cluster":{"chief":["c:1"],"ps":["p:1"],"worker":["a:1"]},"task":{"type":"worker","index":0}})";
  const auto role = ResolveRole({}, config);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_FALSE(role->chief);
  EXPECT_EQ(role->rank, 1);
  EXPECT_EQ(role->trainers.size(), 2u);
}

TEST(RoleTest, AMasterIsAChief) {
  const std::string config =
      R"({"cluster":{"master":["c:1"],"ps":["p:1"]},"task":{"type":"master","index":0}})";
  const auto role = ResolveRole({}, config);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_TRUE(role->chief);
}

TEST(RoleTest, WorkersWithoutPsReduceAmongThemselves) {
  Options options;
  options.worker_hosts = "a:1,b:1";
  options.job_name = "worker";
  options.task_index = 1;
  const auto role = ResolveRole(options, "");
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->strategy, Strategy::kAllreduce);
}

TEST(RoleTest, SyncReplicasChoosesSynchronousUpdates) {
  Options options;
  options.sync_replicas = true;
  EXPECT_EQ(ResolveRole(options, kPsConfig)->strategy, Strategy::kSync);
}

TEST(RoleTest, AnEvaluatorNeedNotBeInTheCluster) {
  const std::string config =
      R"({"cluster":{"ps":["p:1"],"worker":["a:1"]},"task":{"type":"evaluator","index":0}})";
  const auto role = ResolveRole({}, config);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_FALSE(role->chief);
}

struct BadRole {
  std::string name;
  std::string job_name;
  int task_index;
  std::string ps_hosts;
  std::string worker_hosts;
  bool sync;
  std::string said;
};

class BadRoleTest : public ::testing::TestWithParam<BadRole> {};

TEST_P(BadRoleTest, NamesTheFlagAndExitsWithTwo) {
  const BadRole& bad = GetParam();
  Options options;
  options.job_name = bad.job_name;
  options.task_index = bad.task_index;
  options.ps_hosts = bad.ps_hosts;
  options.worker_hosts = bad.worker_hosts;
  options.sync_replicas = bad.sync;
  const auto role = ResolveRole(options, "");
  ASSERT_FALSE(role.ok());
  EXPECT_EQ(base::ExitCodeFor(role.status()), base::kExitUsage);
  EXPECT_THAT(std::string(role.status().message()), HasSubstr(bad.said));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadRoleTest,
    ::testing::Values(
        BadRole{"IndexOutOfRange", "worker", 2, "p:1", "a:1,b:1", false,
                "--task_index=2 is out of range: job worker has 2 tasks"},
        BadRole{"JobWithoutHosts", "chief", 0, "p:1", "a:1", false, "has no chief tasks"},
        BadRole{"PsAlone", "ps", 0, "", "", false, "give --ps_hosts"},
        BadRole{"BadAddress", "worker", 0, "p", "a:1", false, "--ps_hosts"},
        BadRole{"BadPort", "worker", 0, "p:99999", "a:1", false, "--ps_hosts"},
        BadRole{"Duplicate", "worker", 0, "a:1", "a:1", false, "address a:1 is given to both"},
        BadRole{"SyncWithoutPs", "worker", 0, "", "a:1,b:1", true,
                "--sync_replicas needs at least one parameter server"},
        BadRole{"NoIndex", "worker", -1, "p:1", "a:1,b:1", false, "needs --task_index"}),
    [](const auto& test) { return test.param.name; });

TEST(ListenAddressTest, LoopbackStaysOnLoopbackAndNamesListenEverywhere) {
  EXPECT_EQ(ListenAddress("127.0.0.1:2222"), "127.0.0.1:2222");
  EXPECT_EQ(ListenAddress("localhost:2222"), "127.0.0.1:2222");
  EXPECT_EQ(ListenAddress("tf-ps-0.ns.svc:2222"), "[::]:2222");
}

}  // namespace
}  // namespace trainer
