// Whole clusters in one process: real servers, real clients, workers as threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/ps/test_cluster.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<int64_t>> kShapes = {{784, 500}, {500}, {500, 10}, {10}};
const std::vector<std::vector<int64_t>> kTiny = {{}, {3}};

struct Joined {
  std::unique_ptr<PsClient> client;
  std::vector<float> parameters;
  StepResult last;
};

constexpr std::chrono::seconds kPatience{60};

// A connection that broke is tried again after a tenth of a second.
std::vector<absl::StatusOr<PsStatus>> WaitUntilReachable(PsClient& client) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto statuses = client.GetStatus(absl::Seconds(1));
    if (std::ranges::all_of(statuses, [](const auto& status) { return status.ok(); }) ||
        std::chrono::steady_clock::now() > give_up) {
      return statuses;
    }
  }
}

// A worker that has joined and pulled. A first connection may fail for no reason of ours (gRPC 1.51
// has said "No such file or directory" of a port that listens): like real workers it waits for its
// ps first.
Joined Join(const TestCluster& cluster, int worker, const JobConfig& config,
            PsClientOptions options) {
  Joined joined;
  joined.client = PsClient::Create(options);
  joined.parameters.resize(ParameterCount(config));
  WaitUntilReachable(*joined.client);
  const absl::Status attached = joined.client->Attach(config);
  EXPECT_TRUE(attached.ok()) << attached.message();
  const absl::StatusOr<StepResult> pulled = joined.client->Pull(joined.parameters);
  EXPECT_TRUE(pulled.ok()) << pulled.status().message();
  if (pulled.ok()) joined.last = *pulled;
  return joined;
}
Joined Join(const TestCluster& cluster, int worker, const JobConfig& config) {
  return Join(cluster, worker, config, cluster.ClientOptions(worker));
}

struct Case {
  int servers;
  Placement placement;
  bool same_node;
  WireDtype wire = WireDtype::kF32;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.servers << " ps, placement " << static_cast<int>(c.placement)
       << (c.same_node ? ", same node" : ", TCP") << (c.wire == WireDtype::kBf16 ? ", bf16" : "");
}

class EveryCluster : public ::testing::TestWithParam<Case> {
 protected:
  PsClientOptions Options(const TestCluster& cluster, int worker) const {
    PsClientOptions options = cluster.ClientOptions(worker);
    options.same_node = GetParam().same_node;
    options.wire_dtype = GetParam().wire;
    return options;
  }
  JobConfig Configured(JobConfig config) const {
    config.placement = GetParam().placement;
    return config;
  }
};

// Each worker pushes all-equal gradients, so that every element must always be equal to the others
// of its shard, whatever is interleaved; and no update may be lost or applied twice.
TEST_P(EveryCluster, AsyncAppliesEveryPushOnceAndTearsNothing) {
  TestCluster cluster(GetParam().servers);
  JobConfig config = Configured(MakeJob(kShapes));
  config.last_step = 60;
  config.ema_decay = 0.9f;
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(ParameterCount(config), 0.0f));
  const auto shards = PlaceVariables(config.variables, GetParam().servers, config.placement);
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    const std::vector<float> gradients(ParameterCount(config), 1.0f);
    while (!worker.last.finished) {
      const auto result = worker.client->Exchange(gradients, worker.last.global_step,
                                                  worker.parameters, std::stop_token());
      ASSERT_TRUE(result.ok()) << result.status().message();
      worker.last = *result;
      for (const Shard& shard : shards) {
        for (const Segment& segment : shard.segments) {
          const float first = worker.parameters[shard.segments[0].flat_offset];
          const auto part =
              std::span(worker.parameters).subspan(segment.flat_offset, segment.length);
          ASSERT_TRUE(std::ranges::all_of(part, [&](float value) { return value == first; }));
        }
      }
    }
    EXPECT_EQ(worker.last.global_step, 60);
    worker.client->Goodbye();
  };
  {
    std::jthread a(work, 1), b(work, 2), c(work, 3);
  }
  Joined reader = Join(cluster, 0, config);
  EXPECT_EQ(reader.last.global_step, 60);
  EXPECT_TRUE(std::ranges::all_of(reader.parameters, [](float value) { return value == -60.0f; }));
  std::vector<float> averages(reader.parameters.size());
  ASSERT_OK(reader.client->PullAverages(averages));
  EXPECT_TRUE(
      std::ranges::all_of(averages, [](float value) { return -60 < value && value < -40; }));
}

// With integers the average over workers is exact, so sync training must equal one process that
// takes the mean of the same gradients: on every shard, after every step.
TEST_P(EveryCluster, SyncEqualsOneProcessWithTheMeanOfAllGradients) {
  constexpr int kWorkers = 2;
  constexpr int kSteps = 12;
  TestCluster cluster(GetParam().servers);
  JobConfig config = Configured(MakeSyncJob(kShapes, kWorkers, kWorkers));
  config.last_step = kSteps;
  const int64_t n = ParameterCount(config);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(n, 0.0f));
  auto gradient = [](int worker, int64_t step, int64_t i) {
    return static_cast<float>(2 * ((worker * 5 + step * 3 + i) % 7));
  };
  auto expected = [&](int64_t version, int64_t i) {
    float value = 0;
    for (int64_t s = 0; s < version; ++s) value -= (gradient(0, s, i) + gradient(1, s, i)) / 2;
    return value;
  };
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    std::vector<float> gradients(n);
    while (!worker.last.finished) {
      for (int64_t i = 0; i < n; ++i) gradients[i] = gradient(index, worker.last.global_step, i);
      const auto result = worker.client->Exchange(gradients, worker.last.global_step,
                                                  worker.parameters, std::stop_token());
      ASSERT_TRUE(result.ok()) << result.status().message();
      worker.last = *result;
      EXPECT_FALSE(result->dropped);
      for (int64_t i = 0; i < n; i += 997) {
        ASSERT_EQ(worker.parameters[i], expected(worker.last.global_step, i))
            << "element " << i << " at step " << worker.last.global_step;
      }
    }
    worker.client->Goodbye();
  };
  {
    std::jthread a(work, 0), b(work, 1);
  }
  Joined reader = Join(cluster, 5, config);
  EXPECT_EQ(reader.last.global_step, kSteps);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(reader.parameters[i], expected(kSteps, i));
}

INSTANTIATE_TEST_SUITE_P(
    Placements, EveryCluster,
    ::testing::Values(Case{1, Placement::kRoundRobin, false}, Case{1, Placement::kRoundRobin, true},
                      Case{2, Placement::kRoundRobin, false}, Case{3, Placement::kBalanced, false},
                      Case{2, Placement::kPartitioned, false},
                      Case{3, Placement::kPartitioned, true},
                      Case{6, Placement::kRoundRobin, false},  // two of them empty
                      Case{2, Placement::kPartitioned, false, WireDtype::kBf16}));

// Runs until finished; every element of the gradient is `value`.
int64_t TrainUntilFinished(Joined& worker, float value) {
  const std::vector<float> gradients(worker.parameters.size(), value);
  int64_t dropped = 0;
  while (!worker.last.finished) {
    const auto result = worker.client->Exchange(gradients, worker.last.global_step,
                                                worker.parameters, std::stop_token());
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok()) break;
    worker.last = *result;
    dropped += result->dropped ? 1 : 0;
  }
  return dropped;
}

absl::StatusOr<StepResult> Step(Joined& worker, float value, std::stop_token stop = {}) {
  const std::vector<float> gradients(worker.parameters.size(), value);
  auto result =
      worker.client->Exchange(gradients, worker.last.global_step, worker.parameters, stop);
  if (result.ok()) worker.last = *result;
  return result;
}

class Transports : public ::testing::TestWithParam<bool> {
 protected:
  PsClientOptions Options(const TestCluster& cluster, int worker) const {
    PsClientOptions options = cluster.ClientOptions(worker);
    options.same_node = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(TcpAndSameNode, Transports, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "SameNode" : "Tcp"; });

TEST_P(Transports, BackupWorkersDropAndCountTheLatest) {
  TestCluster cluster(2);
  JobConfig config = MakeSyncJob(kTiny, 2, 3);
  config.last_step = 300;
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  std::atomic<int64_t> dropped = 0;
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    dropped += TrainUntilFinished(worker, 1.0f);
    EXPECT_EQ(worker.last.global_step, 300);
    worker.client->Goodbye();
  };
  {
    std::jthread a(work, 0), b(work, 1), c(work, 2);
  }
  Joined reader = Join(cluster, 7, config);
  EXPECT_EQ(reader.last.global_step, 300);
  for (const float value : reader.parameters) EXPECT_EQ(value, -300.0f);
  // A push after the last step is dropped, but is not stale.
  EXPECT_LE(cluster.server(0).stats().stale_dropped, dropped);
  EXPECT_GE(cluster.server(0).stats().stale_dropped, dropped - 3);
}

TEST_P(Transports, MoreAggregatesThanWorkersGoOn) {
  TestCluster cluster(2);
  JobConfig config = MakeSyncJob(kTiny, 5, 2);
  config.last_step = 50;
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    TrainUntilFinished(worker, 1.0f);
    worker.client->Goodbye();
  };
  {
    std::jthread a(work, 0), b(work, 1);
  }
  EXPECT_EQ(Join(cluster, 7, config).parameters, std::vector<float>(4, -50.0f));
}

TEST_P(Transports, AWorkerThatFallsSilentGivesItsTokenBack) {
  TestCluster cluster(1, {.worker_lease = absl::Milliseconds(1500)});
  JobConfig config = MakeSyncJob(kTiny, 2, 2);
  config.last_step = 20;
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined survivor = Join(cluster, 0, config, Options(cluster, 0));
  Joined lost = Join(cluster, 1, config, Options(cluster, 1));
  {
    std::jthread both([&] { EXPECT_OK(Step(survivor, 1.0f).status()); });
    EXPECT_OK(Step(lost, 1.0f).status());
  }
  lost.client.reset();  // without a goodbye
  TrainUntilFinished(survivor, 1.0f);
  EXPECT_EQ(survivor.last.global_step, 20);
  EXPECT_EQ(survivor.parameters, std::vector<float>(4, -20.0f));
}

TEST_P(Transports, AStopEndsTheWaitForOthers) {
  TestCluster cluster(1);
  const JobConfig config = MakeSyncJob(kTiny, 2, 2);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined worker = Join(cluster, 0, config, Options(cluster, 0));
  std::stop_source stop;
  auto waiting = std::async([&] { return Step(worker, 1.0f, stop.get_token()).status(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stop.request_stop();
  ASSERT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(absl::IsCancelled(waiting.get()));
  // The connection is of use still.
  EXPECT_OK(worker.client->Pull(worker.parameters).status());
}

TEST_P(Transports, AWaitThatLastsNamesWhoIsMissing) {
  TestCluster cluster(1);
  const JobConfig config = MakeSyncJob(kTiny, 2, 2);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  PsClientOptions options = Options(cluster, 0);
  options.trainers = {{"worker", 0}, {"worker", 1}};
  options.wait_log_period = absl::Milliseconds(10);
  Joined worker = Join(cluster, 0, config, options);
  Joined late = Join(cluster, 1, config, Options(cluster, 1));
  std::stop_source stop;
  ::testing::internal::CaptureStderr();
  auto waiting = std::async([&] { return Step(worker, 1.0f, stop.get_token()).status(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(3)), std::future_status::timeout);
  stop.request_stop();
  ASSERT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("still waiting for 1 more gradient of /job:worker/task:1, "));
}

TEST_P(Transports, ARestartedPsIsNoticedAndCanBeRepaired) {
  TestCluster cluster(2);
  const JobConfig config = MakeJob(kTiny);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined worker = Join(cluster, 1, config, Options(cluster, 1));
  EXPECT_OK(Step(worker, 1.0f).status());
  cluster.StopServer(1);
  EXPECT_TRUE(absl::IsUnavailable(Step(worker, 1.0f).status()));
  cluster.StartServer(1);
  const absl::Status status = Step(worker, 1.0f).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status.message();
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/task:1"));
  WaitUntilReachable(*chief);
  WaitUntilReachable(*worker.client);
  EXPECT_TRUE(absl::IsUnavailable(worker.client->Attach(config)));  // it is empty
  const std::vector<float> values(4, 5.0f);
  ASSERT_OK(chief->Configure(1, config));
  ASSERT_OK(chief->InitializeShard(1, values, 3));
  ASSERT_OK(worker.client->Attach(config));
  EXPECT_OK(worker.client->Pull(worker.parameters).status());
  EXPECT_EQ(worker.parameters, (std::vector<float>{-3, 5, 5, 5}));
}

TEST_P(Transports, AWaitEndsWhenAnotherShardIsRestarted) {
  TestCluster cluster(2);
  const JobConfig config = MakeSyncJob(kTiny, 2, 2);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined worker = Join(cluster, 0, config, Options(cluster, 0));
  auto waiting = std::async([&] { return Step(worker, 1.0f).status(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  cluster.StopServer(1);
  cluster.StartServer(1);
  ASSERT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(absl::IsUnavailable(waiting.get()));
}

TEST_P(Transports, AWaitEndsWhenThePsStops) {
  TestCluster cluster(1);
  const JobConfig config = MakeSyncJob(kTiny, 2, 2);
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined worker = Join(cluster, 0, config, Options(cluster, 0));
  auto waiting = std::async([&] { return Step(worker, 1.0f).status(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  cluster.StopServer(0);
  ASSERT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(absl::IsUnavailable(waiting.get()));
}

// The bench of checkpoints in these tests: a map instead of files.
class Vault {
 public:
  PsServerOptions Options() {
    return {.writer =
                [this](const ShardState& state, const std::string& prefix, int shard, int count) {
                  std::lock_guard lock(mutex_);
                  ShardState& kept = states_[prefix][shard] = state;
                  for (StateSlice& slice : kept.slices) {
                    slice.values.assign(slice.elements().begin(), slice.elements().end());
                  }
                  return absl::StatusOr<std::string>(absl::StrCat(shard, " of ", count));
                },
            .reader = [this](const std::string& prefix,
                             ShardState wanted) -> absl::StatusOr<ShardState> {
              std::lock_guard lock(mutex_);
              for (const auto& [shard, state] : states_[prefix]) {
                if (state.slices.size() == wanted.slices.size() &&
                    state.slices[0].name == wanted.slices[0].name) {
                  return state;
                }
              }
              return absl::DataLossError("no such checkpoint");
            }};
  }
  std::map<int, ShardState> Get(const std::string& prefix) {
    std::lock_guard lock(mutex_);
    return states_[prefix];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::map<int, ShardState>> states_;
};

TEST_P(Transports, CheckpointsOfRunningSyncTrainingHoldOneVersionOfAllShards) {
  Vault vault;
  TestCluster cluster(3, vault.Options());
  JobConfig config = MakeSyncJob({{2}, {3}, {4}}, 2, 2);
  config.last_step = 2000;
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(9, 0.0f));
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    TrainUntilFinished(worker, 1.0f);
    EXPECT_EQ(worker.last.global_step, 2000);
    worker.client->Goodbye();
  };
  int saves = 0;
  {
    std::jthread a(work, 0), b(work, 1);
    const Joined saver = Join(cluster, 8, config, Options(cluster, 8));
    for (int64_t step = 0; step < config.last_step; ++saves) {
      const std::string prefix = absl::StrCat("ckpt-", saves);
      const auto saved = saver.client->SaveShards(prefix);
      if (absl::IsAborted(saved.status())) continue;  // overtaken three times: allowed
      ASSERT_TRUE(saved.ok()) << saved.status().message();
      step = saved->front().global_step;
      const auto states = vault.Get(prefix);
      ASSERT_EQ(states.size(), 3u);
      for (const auto& [shard, state] : states) {
        EXPECT_EQ((*saved)[shard].global_step, step);
        EXPECT_EQ((*saved)[shard].entries, absl::StrCat(shard, " of 3"));
        EXPECT_EQ(state.global_step, step);
        for (const StateSlice& slice : state.slices) {
          for (const float value : slice.values) ASSERT_EQ(value, -static_cast<float>(step));
        }
      }
    }
  }
  EXPECT_GT(saves, 1);
}

TEST(Cluster, RestoresAShardThroughItsReader) {
  Vault vault;
  TestCluster cluster(2, vault.Options());
  const JobConfig config = MakeJob({{2}, {3}});
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, config, std::vector<float>(5, 7.0f), 40);
  ASSERT_OK(chief->Attach(config));
  ASSERT_OK(chief->SaveShards("saved").status());
  cluster.StopServer(1);
  cluster.StartServer(1);
  const auto statuses = WaitUntilReachable(*chief);
  EXPECT_EQ(statuses[0]->state, PsState::kReady);
  EXPECT_EQ(statuses[1]->state, PsState::kEmpty);
  EXPECT_NE(statuses[0]->incarnation, statuses[1]->incarnation);
  ASSERT_OK(chief->Configure(1, config));
  EXPECT_EQ(*chief->RestoreShard(1, "saved", -1), 40);
  EXPECT_EQ(*chief->RestoreShard(1, "saved", 44), 44);
  EXPECT_TRUE(absl::IsDataLoss(chief->RestoreShard(1, "missing", -1).status()));
  EXPECT_EQ(Join(cluster, 1, config).parameters, std::vector<float>(5, 7.0f));
}

TEST(Cluster, EndsByItselfWhenEverybodyHasSaidGoodbye) {
  TestCluster cluster(1, {.finish_linger = absl::Hours(1)});
  const JobConfig config = MakeJob(kTiny);
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  Joined worker = Join(cluster, 1, config);
  EXPECT_FALSE(cluster.server(0).WaitUntilFinished(absl::ZeroDuration()));
  auto finished = std::async([&] { return cluster.server(0).WaitUntilFinished(absl::Minutes(1)); });
  ASSERT_OK(chief->Finish());
  EXPECT_TRUE(Step(worker, 1.0f)->finished);
  EXPECT_EQ(finished.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  worker.client->Goodbye();
  EXPECT_TRUE(finished.get());
}

TEST(Cluster, EndsAfterTheLingerWhenAWorkerStays) {
  TestCluster cluster(1, {.finish_linger = absl::Milliseconds(100)});
  const JobConfig config = MakeJob(kTiny);
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, config, std::vector<float>(4, 0.0f));
  const Joined worker = Join(cluster, 1, config);
  ASSERT_OK(chief->Finish());
  EXPECT_TRUE(cluster.server(0).WaitUntilFinished(absl::Minutes(1)));
}

TEST(Cluster, NamesAnAddressThatIsInUse) {
  TestCluster cluster(1);
  const auto second = PsServer::Start({.listen_address = cluster.addresses()[0]});
  EXPECT_TRUE(absl::IsInvalidArgument(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(cluster.addresses()[0]));
}

TEST(Cluster, TellsAWorkerHowItsModelDiffersFromTheChiefs) {
  TestCluster cluster(1);
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, MakeJob({{2, 3}, {4}}), std::vector<float>(10, 0.0f));
  const absl::Status status = cluster.Client(1)->Attach(MakeSyncJob({{3, 2}, {4}, {1}}, 1, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("v0 [3, 2] where the chief has v0 [2, 3]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("v2 [1] that the chief lacks"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--sync_replicas"));
}

TEST(Cluster, TellsThatPsAreListedInAnotherOrder) {
  TestCluster cluster(2);
  PsClientOptions options = cluster.ClientOptions(0);
  std::swap(options.addresses[0], options.addresses[1]);
  const absl::Status status = PsClient::Create(options)->Configure(0, MakeJob(kTiny));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is ps task 1 of 2"));
}

TEST(Cluster, APsThatIsNotThereIsUnavailable) {
  TestCluster cluster(1);
  const auto client = cluster.Client(0);
  EXPECT_TRUE(absl::IsUnavailable(client->Attach(MakeJob(kTiny))));  // there, but empty
  cluster.StopServer(0);
  const auto statuses = client->GetStatus(absl::Seconds(20));
  EXPECT_TRUE(absl::IsUnavailable(statuses[0].status()));
  const auto nowhere =
      PsClient::Create({.addresses = {"no-such-host.invalid:1"}, .task = {"worker", 0}});
  EXPECT_FALSE(nowhere->GetStatus(absl::Seconds(2))[0].ok());
}

TEST(Cluster, CountsPayloadBytesAndHalvesThemInBf16) {
  TestCluster cluster(1);
  const JobConfig config = MakeJob({{1000}});
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, config, std::vector<float>(1000, 0.0f));
  for (const WireDtype type : {WireDtype::kF32, WireDtype::kBf16}) {
    PsClientOptions options = cluster.ClientOptions(1);
    options.wire_dtype = type;
    options.same_node = false;
    Joined worker = Join(cluster, 1, config, options);
    EXPECT_OK(Step(worker, 1.0f).status());
    const int64_t size = type == WireDtype::kF32 ? 4 : 2;
    EXPECT_EQ(worker.client->bytes_sent(), 1000 * size);
    EXPECT_EQ(worker.client->bytes_received(), 2 * 1000 * size);
  }
}

// Real-valued gradients: the mean over workers against the mean in one process, to 1e-5.
TEST_P(Transports, SyncOverThreeWorkersEqualsOneProcessWithTheTripleBatch) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 20;
  TestCluster cluster(2);
  JobConfig config = MakeSyncJob({{40, 30}, {30}}, kWorkers, kWorkers);
  config.optimizer.kind = OptimizerKind::kAdam;
  config.schedule = {.rate = 0.01f, .decay = 0.9f, .decay_steps = 5};
  config.last_step = kSteps;
  const int64_t n = ParameterCount(config);
  auto gradient = [](int worker, int64_t step, int64_t i, float parameter) {
    return parameter * 0.3f + std::sin(static_cast<float>(worker * 7 + step * 3 + i));
  };
  const auto chief = PsClient::Create(Options(cluster, 0));
  TestCluster::Initialize(*chief, config, std::vector<float>(n, 0.5f));
  auto work = [&](int index) {
    Joined worker = Join(cluster, index, config, Options(cluster, index));
    std::vector<float> gradients(n);
    while (!worker.last.finished) {
      const int64_t step = worker.last.global_step;
      for (int64_t i = 0; i < n; ++i) {
        gradients[i] = gradient(index, step, i, worker.parameters[i]);
      }
      const auto result =
          worker.client->Exchange(gradients, step, worker.parameters, std::stop_token());
      ASSERT_TRUE(result.ok()) << result.status().message();
      worker.last = *result;
    }
    worker.client->Goodbye();
  };
  {
    std::jthread a(work, 0), b(work, 1), c(work, 2);
  }
  std::vector<float> expected(n, 0.5f), m(n, 0.0f), v(n, 0.0f), mean(n);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < n; ++i) {
      mean[i] = 0;
      for (int w = 0; w < kWorkers; ++w) mean[i] += gradient(w, step, i, expected[i]) / kWorkers;
    }
    ApplyUpdate(config.optimizer, {.gradient = mean,
                                   .old_parameters = expected,
                                   .new_parameters = expected,
                                   .slots = {m, v},
                                   .learning_rate = LearningRate(config.schedule, step),
                                   .update = step + 1});
  }
  const Joined reader = Join(cluster, 9, config);
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(reader.parameters[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace trainer
