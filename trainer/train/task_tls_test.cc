// Training over mutual TLS, and what those see who are left outside.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/data/test_folder.h"
#include "trainer/ps/server.h"
#include "trainer/ps/test_tls.h"
#include "trainer/train/task_client.h"
#include "trainer/train/task_server.h"
#include "trainer/train/test_ports.h"
#include "trainer/train/train.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLongEnough = absl::Seconds(20);

// One parameter server and, to be told what it has, how a worker 0 with `tls` fares.
struct Cluster {
  explicit Cluster(std::shared_ptr<const TaskTls> tls) {
    PsServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.tls = std::move(tls);
    options.reader = MakeShardReader();
    options.writer = MakeShardWriter({});
    auto started = PsServer::Start(options);
    EXPECT_TRUE(started.ok()) << started.status();
    ps = *std::move(started);
  }

  absl::Status Train(std::shared_ptr<const TaskTls> tls, const std::string& wait_timeout) {
    const HeldPort port;
    const auto options =
        ParseOptions({"--preset=linear-regression", "--job_name=worker", "--task_index=0",
                      absl::StrCat("--ps_hosts=127.0.0.1:", ps->port()),
                      absl::StrCat("--worker_hosts=", port.address()), "--train_steps=100",
                      absl::StrCat("--wait_timeout=", wait_timeout), "--progress=none",
                      absl::StrCat("--checkpoint_dir=", folder.path())});
    if (!options.ok()) return options.status();
    auto role = ResolveRole(*options, "");
    if (!role.ok()) return role.status();
    role->tls = std::move(tls);
    const std::unique_ptr<Backend> backend = MakeCpuBackend();
    std::stop_source stop;
    auto training = std::async(std::launch::async, [&] {
      return RunTraining(*options, *role, *backend, stop.get_token());
    });
    if (training.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      stop.request_stop();
    }
    return training.get();
  }

  const TestFolder folder;
  std::unique_ptr<PsServer> ps;
};

TEST(TlsTraining, ReachesItsEndWithTheJobsCertificate) {
  const std::shared_ptr<const TaskTls> tls = MakeTls();
  Cluster cluster(tls);
  const absl::Status status = cluster.Train(tls, "20");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cluster.ps->stats().global_step, 100);
}

TEST(TlsTraining, TellsAWorkerInPlainTextWhatItLacks) {
  Cluster cluster(MakeTls());
  const absl::Status status = cluster.Train(nullptr, "3");
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitCluster);
  EXPECT_THAT(std::string(status.message()), HasSubstr("perhaps it speaks TLS"));
  EXPECT_EQ(cluster.ps->stats().state, PsState::kEmpty);
}

TEST(TlsTraining, TellsAWorkerOfAnotherJobThatItsCertificateIsNotOfThisOne) {
  Cluster cluster(MakeTls());
  const absl::Status status = cluster.Train(MakeTls(), "3");
  EXPECT_THAT(std::string(status.message()), HasSubstr("its certificate is not of this job"));
  EXPECT_EQ(cluster.ps->stats().state, PsState::kEmpty);
}

TEST(TlsTraining, RefusesAllReduceWhichItCannotProtect) {
  const HeldPort one, other;
  const auto options = ParseOptions(
      {"--preset=linear-regression", "--job_name=worker", "--task_index=0", "--strategy=allreduce",
       absl::StrCat("--worker_hosts=", one.address(), ",", other.address())});
  ASSERT_TRUE(options.ok());
  auto role = ResolveRole(*options, "");
  ASSERT_TRUE(role.ok()) << role.status();
  role->tls = MakeTls();
  const absl::Status status = RunTraining(*options, *role, *MakeCpuBackend(), {});
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all-reduce cannot speak TLS"));
}

TEST(TlsTaskServer, KeepsStrangersFromItsStore) {
  const std::shared_ptr<const TaskTls> tls = MakeTls();
  const auto server =
      TaskServer::Start({.listen_address = "127.0.0.1:0", .task = {"worker", 0}, .tls = tls});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->Put("key", "mine").ok());
  const std::string address = absl::StrCat("127.0.0.1:", (*server)->port());
  for (const std::shared_ptr<const TaskTls>& strange :
       {std::shared_ptr<const TaskTls>(), MakeTls()}) {
    TaskClient stranger(address, strange.get());
    EXPECT_FALSE(stranger.Put("key", "theirs", kLongEnough).ok());
    EXPECT_FALSE(stranger.Get("key", kLongEnough).ok());
    EXPECT_FALSE(stranger.Ping("/job:worker/task:1", kLongEnough).ok());
    const Probe probe = stranger.CheckHealth(kLongEnough);
    EXPECT_THAT(WhyUnreachable(probe.status, strange.get()),
                HasSubstr(strange == nullptr ? "speaks TLS" : "not of this job"))
        << probe.status;
  }
  TaskClient peer(address, tls.get());
  const auto value = peer.Get("key", kLongEnough);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, "mine");
}

}  // namespace
}  // namespace trainer
