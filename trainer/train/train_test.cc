#include "trainer/train/train.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/data/test_folder.h"
#include "trainer/ps/server.h"
#include "trainer/train/test_ports.h"

namespace trainer {
namespace {

// A chief and a parameter server whose writes of the last checkpoint fail `failures` times as they
// do when the server has just been lost.
absl::Status TrainWithLossesAtTheEnd(const std::string& folder, int failures) {
  std::atomic<int> left = failures;
  const ShardWriter write = MakeShardWriter({});
  PsServerOptions ps;
  ps.listen_address = "127.0.0.1:0";
  ps.reader = MakeShardReader();
  ps.writer = [&](const ShardState& state, const std::string& prefix, int shard,
                  int count) -> absl::StatusOr<std::string> {
    if (absl::EndsWith(prefix, "-100") && left.fetch_sub(1) > 0) {
      return base::ClusterError("Socket closed");
    }
    return write(state, prefix, shard, count);
  };
  auto server = PsServer::Start(ps);
  if (!server.ok()) return server.status();
  const HeldPort port;
  const auto options = ParseOptions(
      {"--preset=linear-regression", "--job_name=worker", "--task_index=0",
       absl::StrCat("--ps_hosts=127.0.0.1:", (*server)->port()),
       absl::StrCat("--worker_hosts=", port.address()), "--train_steps=100", "--wait_timeout=20",
       "--progress=none", absl::StrCat("--checkpoint_dir=", folder)});
  if (!options.ok()) return options.status();
  const auto role = ResolveRole(*options, "");
  if (!role.ok()) return role.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  std::stop_source stop;
  auto training = std::async(
      std::launch::async, [&] { return RunTraining(*options, *role, *backend, stop.get_token()); });
  if (training.wait_for(std::chrono::seconds(60)) != std::future_status::ready) stop.request_stop();
  return training.get();
}

TEST(Training, SavesItsEndThoughAServerIsLostThen) {
  const TestFolder folder;
  EXPECT_TRUE(TrainWithLossesAtTheEnd(folder.path(), 2).ok());
  const auto newest = FindNewestComplete(folder.path());
  ASSERT_TRUE(newest.ok() && newest->has_value());
  EXPECT_EQ((*newest)->step, 100);
}

TEST(Training, GivesUpWhereItsEndCannotBeSaved) {
  const TestFolder folder;
  const absl::Status status = TrainWithLossesAtTheEnd(folder.path(), 1000);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitCluster) << status;
}

}  // namespace
}  // namespace trainer
