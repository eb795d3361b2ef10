#include "trainer/train/allreduce.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "trainer/train/test_ports.h"

extern char** environ;

namespace trainer {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

Role RoleOf(const std::vector<std::string>& addresses, int rank) {
  Role role;
  for (size_t i = 0; i < addresses.size(); ++i) {
    role.trainers.push_back({"worker", static_cast<int>(i)});
    role.cluster.jobs["worker"][static_cast<int>(i)] = addresses[i];
  }
  role.rank = rank;
  role.task = role.trainers[rank];
  role.address = addresses[rank];
  role.strategy = Strategy::kAllreduce;
  return role;
}

std::unique_ptr<TaskServer> Listen(const std::string& address, int rank) {
  auto server = TaskServer::Start({.listen_address = address, .task = {"worker", rank}});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

// N ranks as threads, each with a server of its own.
class Ranks {
 public:
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank) {
      servers_.push_back(Listen("127.0.0.1:0", rank));
      addresses_.push_back(absl::StrCat("127.0.0.1:", servers_.back()->port()));
    }
  }

  AllReducerOptions Options(int rank) {
    return {.role = RoleOf(addresses_, rank),
            .server = servers_[rank].get(),
            .rendezvous_timeout = absl::Seconds(60)};
  }

  // Runs body(rank, reducer) on a thread for each rank.
  template <typename Body>
  void Run(const Body& body) {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < servers_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto reducer = AllReducer::Create(Options(static_cast<int>(rank)));
        ASSERT_TRUE(reducer.ok()) << reducer.status();
        ASSERT_TRUE((*reducer)->Join().ok());
        body(static_cast<int>(rank), **reducer);
        (*reducer)->Leave();
      });
    }
  }

 private:
  std::vector<std::unique_ptr<TaskServer>> servers_;
  std::vector<std::string> addresses_;
};

class AllReduce : public testing::TestWithParam<int> {};

// Sizes on both sides of the change from direct exchange to the ring, and ones that do not divide.
TEST_P(AllReduce, AveragesIntegersExactly) {
  const int count = GetParam();
  Ranks(count).Run([count](int rank, AllReducer& reducer) {
    for (const size_t size : {0, 1, 2, 3, 5, 4096, 4097, 10000, 397510}) {
      std::vector<float> values(size);
      for (size_t i = 0; i < size; ++i) {
        values[i] = static_cast<float>(count * static_cast<int>(i % 1000 + rank));
      }
      ASSERT_TRUE(reducer.Average(values).ok());
      const float ranks_sum = static_cast<float>(count * (count - 1) / 2);
      for (size_t i = 0; i < size; ++i) {
        ASSERT_EQ(values[i], static_cast<float>(count * (i % 1000)) + ranks_sum)
            << "element " << i << " of " << size << " on rank " << rank;
      }
    }
  });
}

TEST_P(AllReduce, GivesEveryRankTheSameBits) {
  std::vector<std::vector<float>> results(GetParam());
  Ranks(GetParam()).Run([&results](int rank, AllReducer& reducer) {
    std::vector<float> values(20011);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0f / static_cast<float>(i + 3 * rank + 1);
    }
    ASSERT_TRUE(reducer.Average(values).ok());
    ASSERT_TRUE(reducer.Average(std::span(values).first(100)).ok());
    results[rank] = values;
  });
  for (const std::vector<float>& result : results) {
    ASSERT_EQ(result.size(), results[0].size());
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
  }
}

TEST_P(AllReduce, BroadcastsFromRankZero) {
  Ranks(GetParam()).Run([](int rank, AllReducer& reducer) {
    std::vector<float> values(5000, static_cast<float>(rank + 7));
    ASSERT_TRUE(reducer.Broadcast(values).ok());
    EXPECT_THAT(values, testing::Each(7.0f));
  });
}

INSTANTIATE_TEST_SUITE_P(Of, AllReduce, testing::Values(1, 2, 3, 4, 7));

TEST(AllReduceGroup, NamesThoseWhoNeverCame) {
  const HeldPort nobody;
  const auto server = Listen("127.0.0.1:0", 0);
  const auto reducer = AllReducer::Create(
      {.role = RoleOf({absl::StrCat("127.0.0.1:", server->port()), nobody.address()}, 0),
       .server = server.get(),
       .rendezvous_timeout = absl::Milliseconds(100)});
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  const absl::Status joined = (*reducer)->Join();
  EXPECT_TRUE(absl::IsUnavailable(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()),
              HasSubstr(absl::StrCat("/job:worker/task:1 (", nobody.address())));
}

TEST(AllReduceGroup, NamesRankZeroWhenItNeverCame) {
  const HeldPort nobody;
  const auto server = Listen("127.0.0.1:0", 1);
  const auto reducer = AllReducer::Create(
      {.role = RoleOf({nobody.address(), absl::StrCat("127.0.0.1:", server->port())}, 1),
       .server = server.get(),
       .rendezvous_timeout = absl::Milliseconds(100)});
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  const absl::Status joined = (*reducer)->Join();
  EXPECT_TRUE(absl::IsUnavailable(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr("/job:worker/task:0"));
}

TEST(AllReduceGroup, IsForTasksThatTrain) {
  Role role = RoleOf({"127.0.0.1:1", "127.0.0.1:2"}, 0);
  role.task = {"evaluator", 0};
  EXPECT_TRUE(absl::IsInvalidArgument(AllReducer::Create({.role = role}).status()));
}

TEST(AllReduceGroup, StopEndsACollectiveAtOnce) {
  Ranks ranks(2);
  std::stop_source stop;
  std::jthread other([&] {
    auto reducer = AllReducer::Create(ranks.Options(1));
    ASSERT_TRUE(reducer.ok()) << reducer.status();
    ASSERT_TRUE((*reducer)->Join().ok());
    std::vector<float> values(100000);
    ASSERT_TRUE((*reducer)->Average(values).ok());
    stop.request_stop();
    // Rank 0 leaves one of the next: it does not hang here either.
    absl::Status status;
    while (status.ok()) status = (*reducer)->Average(values);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
  AllReducerOptions options = ranks.Options(0);
  options.stop = stop.get_token();
  auto reducer = AllReducer::Create(options);
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  ASSERT_TRUE((*reducer)->Join().ok());
  const absl::Time start = absl::Now();
  absl::Status status;
  std::vector<float> values(100000);
  while (status.ok()) status = (*reducer)->Average(values);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// A rank in a process of its own: this program again, told by the environment who it is. It
// averages until it is killed, and rejoins when others fail.
TEST(AllReduceChild, DISABLED_Runs) {
  const char* const rank_text = std::getenv("TEST_RANK");
  ASSERT_NE(rank_text, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int rank = std::atoi(rank_text);
  const std::vector<std::string> addresses = absl::StrSplit(std::getenv("TEST_ADDRESSES"), ',');
  const auto server = Listen(addresses[rank], rank);
  auto reducer = AllReducer::Create({.role = RoleOf(addresses, rank),
                                     .server = server.get(),
                                     .rendezvous_timeout = absl::Seconds(60),
                                     .collective_timeout = absl::Seconds(3)});
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  ASSERT_TRUE((*reducer)->Join().ok());
  while (true) {
    std::vector<float> values(50000, static_cast<float>(rank));
    if ((*reducer)->Average(values).ok()) continue;
    if (!(*reducer)->Join().ok()) return;
  }
}

class ChildRank {
 public:
  ChildRank(const std::vector<std::string>& addresses, int rank) {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    environment.push_back(absl::StrCat("TEST_RANK=", rank));
    environment.push_back(absl::StrCat("TEST_ADDRESSES=", absl::StrJoin(addresses, ",")));
    std::vector<char*> env;
    for (std::string& entry : environment) env.push_back(entry.data());
    env.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=AllReduceChild.*",
                disabled = "--gtest_also_run_disabled_tests", output = "--gtest_output=";
    char* const args[] = {program.data(), filter.data(), disabled.data(), output.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, args, env.data()), 0);
  }
  ~ChildRank() { Kill(); }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void Freeze() { kill(pid_, SIGSTOP); }

 private:
  pid_t pid_ = 0;
};

struct ThreeProcesses {
  HeldPort ports[3];
  std::vector<std::string> addresses = {ports[0].address(), ports[1].address(), ports[2].address()};
  ChildRank one{addresses, 1}, two{addresses, 2};
  std::unique_ptr<TaskServer> server = Listen(addresses[0], 0);
  std::unique_ptr<AllReducer> Join() {
    auto reducer = AllReducer::Create({.role = RoleOf(addresses, 0),
                                       .server = server.get(),
                                       .rendezvous_timeout = absl::Seconds(60),
                                       .collective_timeout = absl::Seconds(3)});
    EXPECT_TRUE(reducer.ok()) << reducer.status();
    EXPECT_TRUE((*reducer)->Join().ok());
    return *std::move(reducer);
  }
};

absl::Status AverageOnce(AllReducer& reducer) {
  std::vector<float> values(50000, 0.0f);
  const absl::Status status = reducer.Average(values);
  if (status.ok()) {
    EXPECT_EQ(values[777], 1.0f);  // (0 + 1 + 2) / 3
  }
  return status;
}

absl::Status AverageUntilItFails(AllReducer& reducer) {
  absl::Status status;
  while (status.ok()) status = AverageOnce(reducer);
  return status;
}

TEST(AllReduceProcesses, NamesAKilledRankAndGoesOnWhenItIsBack) {
  ThreeProcesses processes;
  const auto reducer = processes.Join();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(AverageOnce(*reducer).ok());
  for (int round = 0; round < 2; ++round) {
    processes.two.Kill();
    const absl::Time start = absl::Now();
    const absl::Status broken = AverageUntilItFails(*reducer);
    EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
    EXPECT_THAT(std::string(broken.message()),
                testing::AllOf(HasSubstr("/job:worker/task:2"), Not(HasSubstr("task:1"))));
    EXPECT_LT(absl::Now() - start, absl::Seconds(20));
    const ChildRank again(processes.addresses, 2);
    ASSERT_TRUE(reducer->Join().ok());
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(AverageOnce(*reducer).ok());
  }
}

TEST(AllReduceProcesses, NamesARankThatHangs) {
  ThreeProcesses processes;
  const auto reducer = processes.Join();
  ASSERT_TRUE(AverageOnce(*reducer).ok());
  processes.one.Freeze();
  const absl::Time start = absl::Now();
  const absl::Status broken = AverageUntilItFails(*reducer);
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_THAT(std::string(broken.message()), HasSubstr("/job:worker/task:1"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

}  // namespace
}  // namespace trainer
