#include "trainer/train/task_server.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainer/train/task_client.h"
#include "trainer/train/test_ports.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

std::unique_ptr<TaskServer> StartWorker(int index, SessionHost* sessions = nullptr) {
  auto server = TaskServer::Start(
      {.listen_address = "127.0.0.1:0", .task = {"worker", index}, .sessions = sessions});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}
std::string AddressOf(const TaskServer& server) {
  return absl::StrCat("127.0.0.1:", server.port());
}

TEST(TaskServer, SaysWhoItIsAndWhichLife) {
  const auto server = StartWorker(3);
  TaskClient client(AddressOf(*server));
  const auto pong = client.Ping("/job:worker/task:0", kLong);
  ASSERT_TRUE(pong.ok()) << pong.status();
  EXPECT_EQ(pong->task(), "/job:worker/task:3");
  EXPECT_EQ(pong->incarnation(), server->incarnation());
  EXPECT_NE(pong->incarnation(), 0u);
  EXPECT_NE(StartWorker(3)->incarnation(), server->incarnation());
}

TEST(TaskServer, AnswersTheStandardHealthCheck) {
  const auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  const Probe probe = client.CheckHealth(kLong);
  EXPECT_TRUE(probe.status.ok()) << probe.status;
  EXPECT_GT(probe.round_trip, absl::ZeroDuration());
}

TEST(TaskServer, NamesTheAddressThatIsTaken) {
  const auto server = StartWorker(0);
  const std::string address = AddressOf(*server);
  const auto second = TaskServer::Start({.listen_address = address, .task = {"worker", 1}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()),
              testing::AllOf(HasSubstr(address), HasSubstr("in use")));
}

TEST(TaskServer, KeepsValues) {
  const auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  EXPECT_TRUE(client.Put("key", "one", kLong).ok());
  EXPECT_EQ(*client.Get("key", kLong), "one");
  EXPECT_TRUE(server->Put("key", "two").ok());
  EXPECT_EQ(*client.Get("key", kLong), "two");
  EXPECT_EQ(*server->Get("key"), "two");
  EXPECT_EQ(server->Get("other").status().code(), absl::StatusCode::kNotFound);
}

TEST(TaskServer, GetWaitsForThePut) {
  const auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  auto waiting = std::async(std::launch::async, [&] { return client.Get("later", kLong); });
  auto local = std::async(std::launch::async, [&] { return server->WaitFor("later", kLong); });
  TaskClient other(AddressOf(*server));
  EXPECT_TRUE(other.Put("later", "here", kLong).ok());
  EXPECT_EQ(*waiting.get(), "here");
  EXPECT_EQ(*local.get(), "here");
}

TEST(TaskServer, GetEndsAtItsDeadline) {
  const auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  EXPECT_TRUE(absl::IsDeadlineExceeded(client.Get("never", absl::Milliseconds(50)).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(server->WaitFor("never", absl::Milliseconds(5)).status()));
  EXPECT_TRUE(client.Put("never", "after all", kLong).ok());  // the call is forgotten, not answered
  EXPECT_EQ(*client.Get("never", kLong), "after all");
}

TEST(TaskServer, RefusesWhatIsTooLarge) {
  const auto server = StartWorker(0);
  EXPECT_TRUE(absl::IsInvalidArgument(server->Put("", "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(server->Put(std::string(2000, 'k'), "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(server->Put("k", std::string(2 << 20, 'v'))));
  const std::string megabyte(1 << 20, 'v');
  absl::Status full;
  for (int i = 0; i < 100 && full.ok(); ++i) full = server->Put(absl::StrCat(i), megabyte);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
}

TEST(TaskServer, EndsWaitingCallsWhenItEnds) {
  auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  ASSERT_TRUE(client.Ping("", kLong).ok());
  auto waiting = std::async(std::launch::async, [&] { return client.Get("never", kLong); });
  const absl::Time start = absl::Now();
  server.reset();
  EXPECT_FALSE(waiting.get().ok());
  EXPECT_LT(absl::Now() - start, kLong / 2);
}

TEST(TaskServer, KnowsWhoHasPinged) {
  const auto server = StartWorker(0);
  TaskClient client(AddressOf(*server));
  ASSERT_TRUE(client.Ping("/job:ps/task:0", kLong).ok());
  EXPECT_TRUE(server->WaitForPings({"/job:ps/task:0"}, kLong, {}).empty());
  EXPECT_THAT(server->WaitForPings({"/job:ps/task:0", "/job:ps/task:1"}, absl::ZeroDuration(), {}),
              ElementsAre("/job:ps/task:1"));
}

TEST(TaskServer, IsNoStandingServerUnlessToldSo) {
  const auto server = StartWorker(2);
  const auto stub = rpc::TaskService::NewStub(TaskChannel(AddressOf(*server)));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLong));
  rpc::EndSessionResponse response;
  const grpc::Status status = stub->EndSession(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("trainer serve"));
}

TEST(ProbeHealth, TellsWhyATaskDoesNotAnswer) {
  const auto server = StartWorker(0);
  const HeldPort silent;  // bound, but nobody listens
  const std::vector<std::string> addresses = {AddressOf(*server), silent.address(),
                                              "no-such-host.invalid:2222"};
  const std::vector<Probe> probes = ProbeHealth(addresses, absl::Seconds(10));
  ASSERT_EQ(probes.size(), 3u);
  EXPECT_TRUE(probes[0].status.ok()) << probes[0].status;
  EXPECT_EQ(WhyUnreachable(probes[1].status), "connection refused") << probes[1].status;
  EXPECT_EQ(WhyUnreachable(probes[2].status), "the name does not resolve") << probes[2].status;
}

}  // namespace
}  // namespace trainer
