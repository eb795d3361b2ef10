#include "trainer/train/check.h"

#include <cstdio>
#include <future>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainer/train/task_server.h"
#include "trainer/train/test_ports.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What RunCheck printed and returned.
struct Outcome {
  absl::Status status;
  std::string table;
};

Outcome Check(const Role& role, double wait_timeout_secs = 30, std::stop_token stop = {}) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  Options options;
  options.wait_timeout_secs = wait_timeout_secs;
  Outcome outcome{.status = RunCheck(options, role, stop, file)};
  std::fclose(file);
  outcome.table.assign(text, size);
  std::free(text);
  return outcome;
}

Role Outside(const base::ClusterSpec& cluster) {
  Role role;
  role.cluster = cluster;
  role.task = {"client", 0};
  return role;
}
Role Inside(const base::ClusterSpec& cluster, const base::Task& task) {
  Role role;
  role.cluster = cluster;
  role.task = task;
  role.address = cluster.Address(task);
  return role;
}

TEST(Check, PrintsWhoAnswersAndHowFast) {
  const auto worker = TaskServer::Start({.listen_address = "127.0.0.1:0", .task = {"worker", 0}});
  ASSERT_TRUE(worker.ok());
  base::ClusterSpec cluster;
  cluster.jobs["worker"][0] = absl::StrCat("127.0.0.1:", (*worker)->port());
  const Outcome outcome = Check(Outside(cluster));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.table,
              AllOf(HasSubstr("/job:worker/task:0"), HasSubstr("  ok "), HasSubstr(" ms\n")));
}

TEST(Check, NamesThoseWhoDoNotAnswerAndWhy) {
  const HeldPort nobody;
  base::ClusterSpec cluster;
  cluster.jobs["ps"][0] = nobody.address();
  cluster.jobs["worker"][0] = "no-such-host.invalid:2222";
  const Outcome outcome = Check(Outside(cluster), /*wait_timeout_secs=*/0.1);
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()),
              AllOf(HasSubstr(absl::StrCat("/job:ps/task:0 (", nobody.address())),
                    HasSubstr("connection refused"),
                    HasSubstr("/job:worker/task:0 (no-such-host.invalid:2222"),
                    HasSubstr("does not resolve")));
  EXPECT_THAT(outcome.table, AllOf(HasSubstr("connection refused"), Not(HasSubstr("  ok "))));
}

TEST(Check, TellsWhenAnotherTaskListensThere) {
  const auto worker = TaskServer::Start({.listen_address = "127.0.0.1:0", .task = {"worker", 1}});
  ASSERT_TRUE(worker.ok());
  base::ClusterSpec cluster;
  cluster.jobs["worker"][0] = absl::StrCat("127.0.0.1:", (*worker)->port());
  const Outcome outcome = Check(Outside(cluster), 0.1);
  EXPECT_THAT(std::string(outcome.status.message()),
              HasSubstr("says that it is /job:worker/task:1"));
}

TEST(Check, EndsWellOnEveryTaskOfAClusterThatChecksItself) {
  const HeldPort ports[3];
  base::ClusterSpec cluster;
  cluster.jobs["ps"][0] = ports[0].address();
  cluster.jobs["worker"][0] = ports[1].address();
  cluster.jobs["worker"][1] = ports[2].address();
  const absl::Time start = absl::Now();
  std::vector<std::future<Outcome>> checks;
  for (const base::Task& task : cluster.Tasks()) {
    checks.push_back(
        std::async(std::launch::async, [=, &cluster] { return Check(Inside(cluster, task)); }));
  }
  for (auto& check : checks) {
    const Outcome outcome = check.get();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.table, AllOf(HasSubstr("this task"), HasSubstr("  ok ")));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(Check, StopsAtOnceWhenToldTo) {
  const HeldPort nobody;
  base::ClusterSpec cluster;
  cluster.jobs["ps"][0] = nobody.address();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Check(Outside(cluster), 600, stop.get_token()).status));
}

TEST(Check, SaysThatThereIsNothingToCheckWithoutACluster) {
  const Outcome outcome = Check(Role{});
  EXPECT_TRUE(absl::IsInvalidArgument(outcome.status));
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("--worker_hosts"));
}

TEST(CheckTable, AlignsItsColumns) {
  EXPECT_EQ(FormatCheckTable({{"/job:ps/task:0", "ps0:2222", "ok", absl::Microseconds(412)},
                              {"/job:worker/task:10", "w:1", "connection refused", {}}}),
            "task                 address   answer              round trip\n"
            "/job:ps/task:0       ps0:2222  ok                  0.412 ms\n"
            "/job:worker/task:10  w:1       connection refused  -\n");
}

}  // namespace
}  // namespace trainer
