// The rules of updating, one by one, with time and order in the test's hand.
#include "trainer/ps/store.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/ps/test_cluster.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);
const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

// A store of one variable with three elements, and workers that push all-equal gradients to it.
class Bench {
 public:
  explicit Bench(JobConfig config, int shard = 0, int shard_count = 1)
      : store_(shard, shard_count, kLease) {
    EXPECT_OK(store_.Configure(std::move(config)));
    const std::vector<float> zeros(size(), 0.0f);
    EXPECT_OK(store_.Initialize(SpanSource(zeros), 0, now_));
  }

  // Reads are empty until the store answers.
  using Answer = std::shared_ptr<std::optional<absl::StatusOr<StoreReply>>>;

  Answer Push(int worker, int64_t base_step, float gradient, uint64_t sequence = 0,
              uint64_t incarnation = 1) {
    if (sequence == 0) sequence = ++sequences_[worker];
    sequences_[worker] = sequence;
    const std::vector<float> values(size(), gradient);
    auto answer = std::make_shared<std::optional<absl::StatusOr<StoreReply>>>();
    store_.PushGradient({Id(worker, sequence, incarnation), base_step}, SpanSource(values), now_,
                        [answer](absl::StatusOr<StoreReply> reply) { *answer = std::move(reply); });
    return answer;
  }

  absl::StatusOr<StoreReply> Stage(int worker, int64_t base_step, float gradient,
                                   uint64_t sequence) {
    const std::vector<float> values(size(), gradient);
    return store_.StageGradient({Id(worker, sequence, 1), base_step}, SpanSource(values), now_);
  }

  static PushId Id(int worker, uint64_t sequence, uint64_t incarnation = 1) {
    return {{"worker", worker}, incarnation, sequence};
  }

  float Value() {
    const auto reply = store_.Pull({{"evaluator", 0}, 1}, std::nullopt, now_);
    EXPECT_TRUE(reply.ok()) << reply.status().message();
    return reply.ok() ? reply->values->span()[0] : NAN;
  }
  int64_t Version() { return store_.status().global_step; }
  int64_t Stale() { return store_.status().stale_dropped; }
  int64_t size() const { return 3; }
  void Advance(absl::Duration duration) { now_ += duration; }

  Store store_;
  absl::Time now_ = kStart;

 private:
  std::map<int, uint64_t> sequences_;
};

JobConfig Async() { return MakeJob({{3}}); }
JobConfig Sync(int aggregate, int replicas) { return MakeSyncJob({{3}}, aggregate, replicas); }

TEST(AsyncStore, AppliesAtOnceAndTellsTheStaleness) {
  Bench bench(Async());
  const auto first = bench.Push(0, 0, 1.0f);
  EXPECT_EQ((*first)->value().version, 1);
  EXPECT_EQ((*first)->value().staleness, 0);
  const auto second = bench.Push(1, 0, 2.0f);
  EXPECT_EQ((*second)->value().version, 2);
  EXPECT_EQ((*second)->value().staleness, 1);
  EXPECT_EQ((*second)->value().values->span()[2], -3.0f);
}

TEST(AsyncStore, StopsExactlyAtTheLastStep) {
  JobConfig config = Async();
  config.last_step = 2;
  Bench bench(config);
  EXPECT_FALSE((*bench.Push(0, 0, 1.0f))->value().finished);
  EXPECT_TRUE((*bench.Push(0, 1, 1.0f))->value().finished);
  const auto late = bench.Push(1, 1, 1.0f);
  EXPECT_TRUE((*late)->value().finished);
  EXPECT_TRUE((*late)->value().dropped);
  EXPECT_EQ(bench.Value(), -2.0f);
}

TEST(AsyncStore, AnswersARetriedPushWithoutApplyingItTwice) {
  Bench bench(Async());
  bench.Push(0, 0, 1.0f, 7);
  EXPECT_EQ((*bench.Push(0, 0, 1.0f, 7))->value().version, 1);
  EXPECT_EQ(bench.Value(), -1.0f);
  EXPECT_TRUE(absl::IsAborted((*bench.Push(0, 0, 1.0f, 6))->status()));
  // The next life of the worker counts from one again.
  EXPECT_EQ((*bench.Push(0, 1, 1.0f, 1, /*incarnation=*/2))->value().version, 2);
  // A call of the dead process that was still on its way.
  EXPECT_TRUE(absl::IsAborted((*bench.Push(0, 1, 1.0f, 8, /*incarnation=*/1))->status()));
  EXPECT_EQ(bench.Value(), -2.0f);
}

TEST(AsyncStore, RepliesShareTheirVariablesAndNeverChange) {
  Bench bench(Async());
  const auto first = bench.Push(0, 0, 1.0f);
  const SharedBuffer held = (*first)->value().values;
  for (int i = 0; i < 10; ++i) bench.Push(1, i, 1.0f);
  EXPECT_THAT(held->span(), ElementsAre(-1.0f, -1.0f, -1.0f));
}

TEST(AsyncStore, TakesRateAndAverageDecayFromItsOwnVersion) {
  JobConfig config = Async();
  config.schedule = {.rate = 1.0f, .decay = 0.5f, .decay_steps = 1};
  config.ema_decay = 0.99f;
  Bench bench(config);
  bench.Push(0, 0, 1.0f);
  bench.Push(0, 0, 1.0f);
  EXPECT_FLOAT_EQ(bench.Value(), -1.5f);
  const auto averages = bench.store_.PullAverages({{"worker", 0}, 1}, bench.now_);
  // Decay 1/10, then 2/11.
  EXPECT_FLOAT_EQ(averages->values->span()[0], -0.9f * 2 / 11 - 1.5f * 9 / 11);
}

TEST(Store, SaysWhenItHasNoVariables) {
  Store store(0, 1, kLease);
  const auto pulled = store.Pull({{"worker", 0}, 1}, std::nullopt, kStart);
  EXPECT_TRUE(absl::IsUnavailable(pulled.status()));
  store.Finish();
  EXPECT_FALSE(store.Pull({{"worker", 0}, 1}, std::nullopt, kStart).ok());
  EXPECT_EQ(store.status().state, PsState::kFinished);
}

TEST(Store, RefusesAGradientOfAnotherSize) {
  Bench bench(Async());
  std::optional<absl::Status> answer;
  const std::vector<float> two(2, 0.0f);
  bench.store_.PushGradient({Bench::Id(0, 1), 0}, SpanSource(two), kStart,
                            [&](auto reply) { answer = reply.status(); });
  EXPECT_TRUE(absl::IsInvalidArgument(*answer));
  EXPECT_THAT(std::string(answer->message()), HasSubstr("2 elements for a shard of 3"));
  EXPECT_EQ(bench.Version(), 0);
}

TEST(Store, RefusesNonsense) {
  Store store(0, 1, kLease);
  EXPECT_TRUE(absl::IsInvalidArgument(store.Configure(Sync(0, 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(store.Configure(Sync(1, 0))));
}

TEST(Store, RestoresWhatItSaved) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                   OptimizerKind::kAdam, OptimizerKind::kAdagrad}) {
    JobConfig config = Async();
    config.optimizer.kind = kind;
    config.ema_decay = 0.9f;
    Bench first(config);
    for (int i = 0; i < 3; ++i) first.Push(0, i, 1.0f + static_cast<float>(i));
    const auto snapshot = first.store_.TakeSnapshot(std::nullopt, absl::InfinitePast());
    first.Push(0, 3, 5.0f);  // after the snapshot: not in it
    const ShardState state = snapshot->State();
    EXPECT_EQ(state.global_step, 3);
    EXPECT_EQ(state.slices.size(), 2 + SlotNames(kind).size());
    EXPECT_EQ(state.slices.back().name, "v0/ExponentialMovingAverage");

    Bench second(config);
    EXPECT_OK(second.store_.Load(state, state.global_step, second.now_));
    second.Push(0, 3, 5.0f);
    EXPECT_EQ(first.Value(), second.Value());
    EXPECT_EQ(first.Version(), second.Version());
  }
}

TEST(Store, NamesTheSliceThatDoesNotFit) {
  Bench bench(Async());
  ShardState state = *bench.store_.Describe();
  state.slices[0].values = {1, 2};
  const absl::Status status = bench.store_.Load(state, 0, bench.now_);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'v0' with 2 elements"));
}

TEST(SyncStore, AveragesARoundAndThenAnswersAll) {
  Bench bench(Sync(2, 2));
  const auto a = bench.Push(0, 0, 2.0f);
  EXPECT_FALSE(*a);
  const auto b = bench.Push(1, 0, 4.0f);
  EXPECT_EQ((*a)->value().version, 1);
  EXPECT_EQ((*b)->value().version, 1);
  EXPECT_EQ((*b)->value().values->span()[0], -3.0f);
}

TEST(SyncStore, DropsAndCountsStaleGradientsAndLetsTheirWorkerGoOn) {
  Bench bench(Sync(2, 3));  // one backup worker
  const auto a = bench.Push(0, 0, 2.0f);
  const auto b = bench.Push(1, 0, 4.0f);
  EXPECT_TRUE(*a && *b);
  const auto c = bench.Push(2, 0, 100.0f);
  EXPECT_TRUE((*c)->value().dropped);
  EXPECT_EQ((*c)->value().version, 1);
  EXPECT_EQ(bench.Stale(), 1);
  EXPECT_EQ(bench.Value(), -3.0f);
}

TEST(SyncStore, ABackupWorkersAbsenceHoldsNobodyUp) {
  Bench bench(Sync(2, 3));
  for (int64_t step = 0; step < 5; ++step) {
    const auto a = bench.Push(0, step, 1.0f);
    const auto b = bench.Push(1, step, 1.0f);
    ASSERT_TRUE(*a && *b);
  }
  EXPECT_EQ(bench.Version(), 5);
}

TEST(SyncStore, MoreAggregatesThanWorkersLetsWorkersPushSeveralTimesARound) {
  Bench bench(Sync(3, 2));
  const auto a = bench.Push(0, 0, 1.0f);
  EXPECT_EQ((*a)->value().version, 0);  // the spare token: compute once more for this version
  const auto b = bench.Push(0, 0, 2.0f);
  EXPECT_FALSE(*b);  // the last gradient is the other worker's
  const auto c = bench.Push(1, 0, 3.0f);
  EXPECT_EQ((*b)->value().version, 1);
  EXPECT_EQ((*c)->value().version, 1);
  EXPECT_EQ(bench.Value(), -2.0f);
}

TEST(SyncStore, WaitsForWorkersThatHaveNotComeYetButOnlyForOneLease) {
  Bench bench(Sync(2, 2));
  const auto a = bench.Push(0, 0, 1.0f);
  EXPECT_FALSE(*a);
  bench.Advance(kLease + absl::Seconds(1));
  EXPECT_OK(bench.store_.Heartbeat({{"worker", 0}, 1}, bench.now_));
  bench.store_.Tick(bench.now_);
  ASSERT_TRUE(*a);
  EXPECT_EQ((*a)->value().version, 0);
  const auto again = bench.Push(0, 0, 3.0f);
  EXPECT_EQ((*again)->value().version, 1);
  EXPECT_EQ(bench.Value(), -2.0f);
}

TEST(SyncStore, ALostWorkersTokenGoesToAnother) {
  Bench bench(Sync(2, 2));
  bench.Push(0, 0, 1.0f);
  bench.Push(1, 0, 1.0f);  // both compute for version 1 now
  const auto a = bench.Push(0, 1, 1.0f);
  EXPECT_FALSE(*a);
  bench.Advance(kLease / 2);
  EXPECT_OK(bench.store_.Heartbeat({{"worker", 0}, 1}, bench.now_));
  EXPECT_THAT(bench.store_.Tick(bench.now_), ElementsAre());
  EXPECT_FALSE(*a);
  bench.Advance(kLease / 2 + absl::Seconds(1));
  EXPECT_THAT(bench.store_.Tick(bench.now_), ElementsAre(base::Task{"worker", 1}));
  EXPECT_EQ((*a)->value().version, 1);
  // Alone from now on: every round takes two of its gradients.
  for (int64_t step = 1; step < 6; ++step) {
    const auto one = bench.Push(0, step, 1.0f);
    ASSERT_TRUE(*one);
    if (step > 1) {
      EXPECT_EQ((*one)->value().version, step);
      ASSERT_TRUE(*bench.Push(0, step, 1.0f));
    }
    EXPECT_EQ(bench.Version(), step + 1);
  }
}

TEST(SyncStore, GoodbyeGivesTheTokenBackAtOnce) {
  Bench bench(Sync(2, 2));
  bench.Push(0, 0, 1.0f);
  bench.Push(1, 0, 1.0f);
  const auto a = bench.Push(0, 1, 1.0f);
  EXPECT_FALSE(*a);
  bench.store_.Leave({{"worker", 1}, 1}, bench.now_);
  EXPECT_EQ((*a)->value().version, 1);
}

TEST(SyncStore, AWorkerThatComesBackRejoinsAtTheCurrentVersion) {
  Bench bench(Sync(2, 2));
  bench.Push(0, 0, 1.0f);
  bench.Push(1, 0, 1.0f);
  bench.store_.Leave({{"worker", 1}, 1}, bench.now_);
  bench.Push(0, 1, 1.0f);
  bench.Push(0, 1, 1.0f);
  EXPECT_EQ(bench.Version(), 2);
  // Back, in a new life, with variables of the current version: counts in this round.
  const auto back = bench.Push(1, 2, 1.0f, 1, /*incarnation=*/2);
  const auto a = bench.Push(0, 2, 1.0f);
  EXPECT_EQ((*back)->value().version, 3);
  EXPECT_EQ((*a)->value().version, 3);
  // And from now on the two go in step again.
  const auto b = bench.Push(0, 3, 1.0f);
  EXPECT_FALSE(*b);
  bench.Push(1, 3, 1.0f, 2, 2);
  EXPECT_EQ((*b)->value().version, 4);
}

TEST(SyncStore, APausedEvaluatorReservesNoToken) {
  Bench bench(Sync(1, 1));
  bench.Value();  // pulls as an evaluator
  ASSERT_TRUE(*bench.Push(0, 0, 1.0f));
  ASSERT_TRUE(*bench.Push(0, 1, 1.0f));
  EXPECT_EQ(bench.Version(), 2);
}

TEST(SyncStore, ARetryTakesThePlaceOfTheWaitThatItRepeats) {
  Bench bench(Sync(2, 2));
  const auto lost = bench.Push(0, 0, 2.0f, 5);
  const auto retry = bench.Push(0, 0, 2.0f, 5);
  EXPECT_TRUE(absl::IsAborted((*lost)->status()));
  EXPECT_FALSE(*retry);
  bench.Push(1, 0, 4.0f);
  EXPECT_EQ((*retry)->value().version, 1);
  EXPECT_EQ(bench.Value(), -3.0f);
  // The answer to it got lost as well.
  EXPECT_EQ((*bench.Push(0, 0, 2.0f, 5))->value().version, 1);
  EXPECT_EQ(bench.Value(), -3.0f);
}

TEST(SyncStore, AWaitGivenUpLeavesItsGradientInTheRound) {
  Bench bench(Sync(2, 2));
  const auto a = bench.Push(0, 0, 2.0f, 1);
  bench.store_.CancelWait(Bench::Id(0, 1));
  EXPECT_TRUE(absl::IsCancelled((*a)->status()));
  bench.store_.CancelWait(Bench::Id(0, 1));  // no effect
  const auto retry = bench.Push(0, 0, 2.0f, 1);
  EXPECT_FALSE(*retry);
  const auto b = bench.Push(1, 0, 4.0f);
  EXPECT_EQ((*b)->value().version, 1);
  EXPECT_EQ((*retry)->value().version, 1);
  EXPECT_EQ(bench.Value(), -3.0f);
}

TEST(SyncStore, TheLastStepAnswersEveryWait) {
  JobConfig config = Sync(2, 3);
  config.last_step = 1;
  Bench bench(config);
  const auto a = bench.Push(0, 0, 1.0f);
  const auto b = bench.Push(1, 0, 1.0f);
  EXPECT_TRUE((*a)->value().finished && (*b)->value().finished);
  const auto c = bench.Push(2, 0, 1.0f);
  EXPECT_TRUE((*c)->value().finished);
  EXPECT_EQ(bench.Version(), 1);
}

TEST(SyncStore, RefusesAGradientFromTheFuture) {
  Bench bench(Sync(1, 1));
  EXPECT_TRUE(absl::IsUnavailable((*bench.Push(0, 5, 1.0f))->status()));
  EXPECT_EQ(bench.Version(), 0);
}

// Two shards, the messages between them delivered by hand.
struct TwoShards {
  explicit TwoShards(int workers = 2) : lead(Sync2(workers), 0, 2), other(Sync2(workers), 1, 2) {
    lead.store_.Pull({{"worker", 0}, 1}, std::nullopt, kStart).IgnoreError();
  }
  static JobConfig Sync2(int workers) { return MakeSyncJob({{3}, {3}}, workers, workers); }
  static LeadView View(const StoreReply& reply) { return {99, reply.version, reply.commit}; }
  absl::StatusOr<StoreReply> Follow(const StoreReply& reply, int worker = 0) {
    return other.store_.Pull({{"worker", worker}, 1}, View(reply), kStart);
  }
  StoreReply LeadPull() { return *lead.store_.Pull({{"worker", 0}, 1}, std::nullopt, kStart); }
  Bench lead, other;
};

TEST(SyncShards, ApplyTheSamePushesForAVersion) {
  TwoShards shards;
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  EXPECT_OK(shards.other.Stage(0, 0, 2.0f, 1).status());
  EXPECT_OK(shards.other.Stage(1, 0, 4.0f, 1).status());
  EXPECT_OK(shards.other.Stage(2, 0, 100.0f, 1).status());  // staged, but too late for shard 0
  const auto a = shards.lead.Push(0, 0, 2.0f, 1);
  const auto b = shards.lead.Push(1, 0, 4.0f, 1);
  const StoreReply reply = (*a)->value();
  EXPECT_THAT(reply.commit.pushes, ElementsAre(Bench::Id(0, 1), Bench::Id(1, 1)));
  EXPECT_EQ(shards.Follow(reply)->values->span()[0], -3.0f);
  EXPECT_EQ(shards.Follow((*b)->value(), 1)->version, 1);  // the second to come changes nothing
  EXPECT_EQ(shards.other.Value(), -3.0f);
}

TEST(SyncShards, AWorkerThatDiesAfterTheDecisionChangesNothing) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  EXPECT_OK(shards.other.Stage(0, 0, 2.0f, 1).status());
  shards.lead.Push(0, 0, 2.0f, 1);  // its answer reaches nobody
  EXPECT_EQ(shards.other.Version(), 0);
  // Whoever comes next learns the commit from shard 0 and passes it on.
  const StoreReply next = shards.LeadPull();
  EXPECT_TRUE(next.commit.known);
  EXPECT_EQ(shards.Follow(next, 1)->version, 1);
  EXPECT_EQ(shards.other.Value(), -2.0f);
}

TEST(SyncShards, StagingTwiceCountsOnce) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  EXPECT_OK(shards.other.Stage(0, 0, 2.0f, 1).status());
  EXPECT_OK(shards.other.Stage(0, 0, 2.0f, 1).status());
  const auto a = shards.lead.Push(0, 0, 2.0f, 1);
  EXPECT_EQ(shards.Follow((*a)->value())->values->span()[0], -2.0f);
}

TEST(SyncShards, StagingIsBounded) {
  TwoShards shards(2);
  absl::Status status;
  for (uint64_t sequence = 1; sequence < 10 && status.ok(); ++sequence) {
    status = shards.other.Stage(0, 0, 1.0f, sequence).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status));
}

TEST(SyncShards, AShardThatMissedAnUpdateSaysSo) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  shards.other.Stage(0, 0, 2.0f, 1).IgnoreError();
  ASSERT_TRUE(shards.Follow((*shards.lead.Push(0, 0, 2.0f, 1))->value()).ok());
  shards.lead.Push(0, 1, 2.0f, 2);  // never staged on the other
  EXPECT_TRUE(absl::IsUnavailable(shards.Follow(shards.LeadPull()).status()));
}

TEST(SyncShards, ARestoredShardGoesOnFromWhereTheOthersAre) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  for (int64_t step = 0; step < 5; ++step) {
    shards.other.Stage(0, step, 1.0f, step + 1).IgnoreError();
    ASSERT_TRUE(shards.Follow((*shards.lead.Push(0, step, 1.0f, step + 1))->value()).ok());
  }
  // Shard 1 comes back with values of version 3.
  Bench restored(TwoShards::Sync2(1), 1, 2);
  const std::vector<float> values(3, -3.0f);
  EXPECT_OK(restored.store_.Initialize(SpanSource(values), 3, kStart));
  const auto pulled =
      restored.store_.Pull({{"worker", 0}, 1}, TwoShards::View(shards.LeadPull()), kStart);
  EXPECT_EQ(pulled->version, 5);
  EXPECT_EQ(pulled->values->span()[0], -3.0f);
  restored.Stage(0, 5, 1.0f, 6).IgnoreError();
  const auto next = shards.lead.Push(0, 5, 1.0f, 6);
  EXPECT_EQ(restored.store_.Pull({{"worker", 0}, 1}, TwoShards::View((*next)->value()), kStart)
                ->values->span()[0],
            -4.0f);
}

TEST(SyncShards, FollowARestoredShardZero) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  shards.other.Stage(0, 0, 1.0f, 1).IgnoreError();
  ASSERT_TRUE(shards.Follow((*shards.lead.Push(0, 0, 1.0f, 1))->value()).ok());
  // Another process, restored at version 7.
  const LeadView restored{100, 7, {}};
  EXPECT_EQ(shards.other.store_.Pull({{"worker", 0}, 1}, restored, kStart)->version, 7);
  // A worker that still speaks of the old one learns that it is gone.
  const LeadView old{99, 2, {.known = true, .pushes = {Bench::Id(0, 2)}}};
  EXPECT_TRUE(
      absl::IsUnavailable(shards.other.store_.Pull({{"worker", 1}, 1}, old, kStart).status()));
}

TEST(SyncShards, ASnapshotHoldsShardZeroUntilTheOthersAreCopied) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  shards.other.Stage(0, 0, 2.0f, 1).IgnoreError();
  shards.lead.Push(0, 0, 2.0f, 1);  // shard 0 is at version 1, the other not yet
  const auto first = shards.lead.store_.TakeSnapshot(std::nullopt, kStart + absl::Seconds(2));
  EXPECT_EQ(first->version, 1);
  shards.other.Stage(0, 1, 2.0f, 2).IgnoreError();
  const auto held = shards.lead.Push(0, 1, 2.0f, 2);
  EXPECT_FALSE(*held);
  const auto second = shards.other.store_.TakeSnapshot(LeadView{99, first->version, first->commit},
                                                       absl::InfinitePast());
  EXPECT_EQ(second->version, 1);
  EXPECT_EQ(second->copy.values->span()[0], -2.0f);
  shards.lead.store_.ReleaseHold(kStart);
  EXPECT_EQ((*held)->value().version, 2);
}

TEST(SyncShards, AHoldThatNobodyReleasesEnds) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.lead.store_.TakeSnapshot(std::nullopt, kStart + absl::Seconds(2)).ok());
  const auto held = shards.lead.Push(0, 0, 2.0f, 1);
  shards.lead.store_.Tick(kStart + absl::Seconds(1));
  EXPECT_FALSE(*held);
  shards.lead.store_.Tick(kStart + absl::Seconds(2));
  EXPECT_EQ((*held)->value().version, 1);
}

TEST(SyncShards, ASnapshotOfAShardThatMovedOnIsRefused) {
  TwoShards shards(1);
  ASSERT_TRUE(shards.Follow(shards.LeadPull()).ok());
  const StoreReply old = shards.LeadPull();
  shards.other.Stage(0, 0, 2.0f, 1).IgnoreError();
  ASSERT_TRUE(shards.Follow((*shards.lead.Push(0, 0, 2.0f, 1))->value()).ok());
  EXPECT_TRUE(absl::IsAborted(
      shards.other.store_.TakeSnapshot(TwoShards::View(old), absl::InfinitePast()).status()));
}

TEST(Store, FinishAnswersWaitsAndLaterPushes) {
  Bench bench(Sync(2, 2));
  const auto a = bench.Push(0, 0, 1.0f);
  bench.store_.Finish();
  EXPECT_TRUE((*a)->value().finished);
  EXPECT_TRUE((*bench.Push(1, 0, 1.0f))->value().finished);
  EXPECT_EQ(bench.store_.status().state, PsState::kFinished);
}

TEST(Store, ConfiguringAnewEndsEveryWait) {
  Bench bench(Sync(2, 2));
  const auto a = bench.Push(0, 0, 1.0f);
  EXPECT_OK(bench.store_.Configure(Sync(2, 2)));
  EXPECT_TRUE(absl::IsUnavailable((*a)->status()));
  EXPECT_EQ(bench.store_.status().state, PsState::kEmpty);
}

}  // namespace
}  // namespace trainer
