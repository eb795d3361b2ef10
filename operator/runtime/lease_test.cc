#include "operator/runtime/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "operator/runtime/test_lease_server.h"

namespace runtime {
namespace {

using kube::Json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr absl::Duration kLease = absl::Seconds(15);

// The same moments as another clock, read differently.
class SkewedClock : public base::Clock {
 public:
  SkewedClock(base::Clock* clock, absl::Duration ahead) : clock_(*clock), ahead_(ahead) {}
  absl::Time Now() override { return clock_.Now() + ahead_; }

 private:
  base::Clock& clock_;
  const absl::Duration ahead_;
};

class LeaseTest : public ::testing::Test {
 protected:
  // A candidate with a way to the server and a clock of its own.
  struct Candidate {
    Candidate(TestLeaseServer* server, base::Clock* clock, const std::string& name,
              absl::Duration ahead)
        : local_clock(clock, ahead), client(server), lease(&client, Options(name)) {}
    LeaderOptions Options(const std::string& name) {
      LeaderOptions options{.ns = "ns", .name = "op", .identity = name};
      options.clock = &local_clock;
      options.wall_clock = &local_clock;
      return options;
    }
    absl::Status Try() { return lease.TryAcquireOrRenew({}); }
    bool may_write() { return local_clock.Now() < lease.may_write_until(); }

    SkewedClock local_clock;
    LeaseClient client;
    Lease lease;
  };
  std::unique_ptr<Candidate> MakeCandidate(const std::string& name,
                                           absl::Duration ahead = absl::ZeroDuration()) {
    return std::make_unique<Candidate>(&server_, &clock_, name, ahead);
  }

  base::FakeClock clock_{absl::FromUnixMicros(1767323045678901)};
  TestLeaseServer server_;
  std::unique_ptr<Candidate> a_ = MakeCandidate("a");
  std::unique_ptr<Candidate> b_ = MakeCandidate("b", absl::Hours(5));  // another time of day
};

TEST_F(LeaseTest, TheFirstCreatesItAsClientGoWritesIt) {
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_TRUE(a_->may_write());
  EXPECT_EQ(server_.spec(), (Json{{"holderIdentity", "a"},
                                  {"leaseDurationSeconds", 15},
                                  {"acquireTime", "2026-01-02T03:04:05.678901Z"},
                                  {"renewTime", "2026-01-02T03:04:05.678901Z"},
                                  {"leaseTransitions", 0}}));
}

TEST_F(LeaseTest, RenewalKeepsAcquireTimeAndTransitionsAndTakesOneWrite) {
  ASSERT_TRUE(a_->Try().ok());
  clock_.Advance(absl::Seconds(2));
  int calls = 0;
  a_->client.fault = [&](LeaseClient::When when) {
    if (when == LeaseClient::When::kBefore) ++calls;
    return absl::OkStatus();
  };
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(server_.spec()["acquireTime"], "2026-01-02T03:04:05.678901Z");
  EXPECT_EQ(server_.spec()["renewTime"], "2026-01-02T03:04:07.678901Z");
  EXPECT_EQ(server_.spec()["leaseTransitions"], 0);
}

TEST_F(LeaseTest, AnotherWaitsWhileItIsRenewedHoweverItsClockIsSet) {
  ASSERT_TRUE(a_->Try().ok());
  for (int i = 0; i < 30; ++i) {
    const absl::Status status = b_->Try();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("held by a"));
    clock_.Advance(absl::Seconds(2));
    ASSERT_TRUE(a_->Try().ok());
  }
  EXPECT_EQ(b_->lease.holder(), "a");
}

TEST_F(LeaseTest, AKilledLeaderIsReplacedOnceItsLeaseHasRunOut) {
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_FALSE(b_->Try().ok());
  clock_.Advance(kLease - absl::Milliseconds(1));
  EXPECT_FALSE(b_->Try().ok());
  EXPECT_FALSE(a_->may_write());
  clock_.Advance(absl::Milliseconds(1));
  ASSERT_TRUE(b_->Try().ok());
  EXPECT_EQ(server_.spec()["holderIdentity"], "b");
  EXPECT_EQ(server_.spec()["leaseTransitions"], 1);
}

TEST_F(LeaseTest, WhoHasJustArrivedWaitsAWholeLeaseAsItCannotKnowTheAge) {
  ASSERT_TRUE(a_->Try().ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(b_->Try().ok());
  clock_.Advance(kLease);
  EXPECT_TRUE(b_->Try().ok());
}

TEST_F(LeaseTest, MayWriteEndsWithTheRenewDeadlineAfterTheLastRenewalWasSent) {
  a_->client.fault = [&](LeaseClient::When when) {
    if (when == LeaseClient::When::kAfter) clock_.Advance(absl::Seconds(3));  // a slow answer
    return absl::OkStatus();
  };
  ASSERT_TRUE(a_->Try().ok());  // look (3 s) and create (3 s)
  clock_.Advance(absl::Seconds(7) - absl::Milliseconds(1));
  EXPECT_TRUE(a_->may_write());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(a_->may_write());
}

TEST_F(LeaseTest, OneThatIsGivenUpIsTakenAtOnce) {
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_FALSE(b_->Try().ok());
  ASSERT_TRUE(a_->lease.Release().ok());
  EXPECT_FALSE(a_->may_write());
  EXPECT_EQ(server_.spec()["holderIdentity"], "");
  EXPECT_EQ(server_.spec()["leaseDurationSeconds"], 1);
  ASSERT_TRUE(b_->Try().ok());
  EXPECT_EQ(server_.spec()["leaseDurationSeconds"], 15);
  EXPECT_EQ(server_.spec()["leaseTransitions"], 1);
}

TEST_F(LeaseTest, GivingUpWhatAnotherHoldsLeavesItAlone) {
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_FALSE(b_->Try().ok());
  clock_.Advance(kLease);
  ASSERT_TRUE(b_->Try().ok());
  EXPECT_TRUE(a_->lease.Release().ok());
  EXPECT_EQ(server_.spec()["holderIdentity"], "b");
}

TEST_F(LeaseTest, GivingUpTriesAgainAfterAConflict) {
  ASSERT_TRUE(a_->Try().ok());
  Json edited = *server_.Get();
  edited["metadata"]["labels"] = {{"team", "x"}};
  server_.Edit(edited);
  EXPECT_TRUE(a_->lease.Release().ok());
  EXPECT_EQ(server_.spec()["holderIdentity"], "");
  EXPECT_EQ((*server_.Get())["metadata"]["labels"]["team"], "x");
}

TEST_F(LeaseTest, AConflictIsResolvedInTheSameTry) {
  ASSERT_TRUE(a_->Try().ok());
  server_.Edit(*server_.Get());  // a new resourceVersion
  EXPECT_TRUE(a_->Try().ok());
}

TEST_F(LeaseTest, OfTwoThatTakeItTogetherOneWins) {
  server_.Edit(Json{{"metadata", {{"name", "op"}}}, {"spec", Json::object()}});
  a_->client.fault = [&, first = true](LeaseClient::When when) mutable {
    if (when == LeaseClient::When::kAfter && std::exchange(first, false)) {
      EXPECT_TRUE(b_->Try().ok());  // between a's look and a's write
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsAborted(a_->Try()));
  EXPECT_FALSE(a_->may_write());
  EXPECT_TRUE(b_->may_write());
  EXPECT_EQ(a_->Try().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LeaseTest, SeeingAnotherHolderEndsLeadingAtOnce) {
  ASSERT_TRUE(a_->Try().ok());
  Json taken = *server_.Get();
  taken["spec"]["holderIdentity"] = "c";
  server_.Edit(taken);
  EXPECT_FALSE(a_->Try().ok());
  EXPECT_FALSE(a_->may_write());
}

TEST_F(LeaseTest, AWriteWhoseAnswerWasLostIsFoundAgain) {
  a_->client.fault = [calls = 0](LeaseClient::When when) mutable {
    const bool is_write = ++calls > 2;
    return is_write && when == LeaseClient::When::kAfter ? absl::UnavailableError("reset")
                                                         : absl::OkStatus();
  };
  EXPECT_FALSE(a_->Try().ok());
  EXPECT_FALSE(a_->may_write());
  EXPECT_EQ(server_.spec()["holderIdentity"], "a");
  a_->client.fault = [](LeaseClient::When) { return absl::OkStatus(); };
  EXPECT_TRUE(a_->Try().ok());
  EXPECT_EQ(server_.spec()["leaseTransitions"], 0);
}

TEST_F(LeaseTest, ItsHolderMakesADeletedOneAnewAndNoWitnessIsFaster) {
  ASSERT_TRUE(a_->Try().ok());
  EXPECT_FALSE(b_->Try().ok());
  server_.Edit(std::nullopt);
  EXPECT_EQ(b_->Try().code(), absl::StatusCode::kFailedPrecondition);  // a may still write
  EXPECT_TRUE(a_->Try().ok());
  EXPECT_EQ(server_.spec()["holderIdentity"], "a");
  server_.Edit(std::nullopt);
  clock_.Advance(kLease);
  EXPECT_TRUE(b_->Try().ok());
}

TEST_F(LeaseTest, GarbledFieldsCountAsMissing) {
  for (const Json& spec :
       {Json(), Json("x"), Json::object(), Json{{"holderIdentity", nullptr}},
        Json{{"holderIdentity", 5}, {"leaseDurationSeconds", "x"}, {"leaseTransitions", -1.5}},
        Json{{"holderIdentity", ""}, {"renewTime", "yesterday"}, {"acquireTime", 3}}}) {
    server_.Edit(Json{{"metadata", {{"name", "op"}}}, {"spec", spec}});
    const auto candidate = MakeCandidate("c");
    EXPECT_TRUE(candidate->Try().ok()) << spec;
    EXPECT_EQ(server_.spec()["holderIdentity"], "c") << spec;
    EXPECT_EQ(server_.spec()["leaseDurationSeconds"], 15) << spec;
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(candidate->Try().ok()) << spec;
    EXPECT_THAT(server_.spec()["acquireTime"].get<std::string>(), MatchesRegex("2026-.*Z"));
  }
}

TEST_F(LeaseTest, AHolderWithoutADurationHasOurs) {
  server_.Edit(Json{{"metadata", {{"name", "op"}}}, {"spec", {{"holderIdentity", "old"}}}});
  EXPECT_FALSE(a_->Try().ok());
  clock_.Advance(kLease - absl::Seconds(1));
  EXPECT_FALSE(a_->Try().ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(a_->Try().ok());
}

TEST_F(LeaseTest, ALongerPromiseOfTheHolderCounts) {
  server_.Edit(Json{{"metadata", {{"name", "op"}}},
                    {"spec", {{"holderIdentity", "old"}, {"leaseDurationSeconds", 60}}}});
  EXPECT_FALSE(a_->Try().ok());
  clock_.Advance(absl::Seconds(59));
  EXPECT_FALSE(a_->Try().ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(a_->Try().ok());
}

TEST(LeaderOptions, NamesEveryProblem) {
  LeaderOptions options{.ns = "ns", .name = "op", .identity = "a"};
  EXPECT_TRUE(options.Validate().ok());
  options.name = "";
  options.renew_deadline = absl::Seconds(15);
  options.retry_period = absl::Seconds(14);
  const std::string problems(options.Validate().message());
  EXPECT_THAT(problems, HasSubstr("name is empty"));
  EXPECT_THAT(problems, HasSubstr("renew deadline must be shorter"));
  EXPECT_THAT(problems, HasSubstr("retry period"));
}

// Candidates with clocks of their own on a network that delays, loses and cuts off; some die and
// come back, some leave in good order. At no moment may two of them write.
class LeaseStorm : public LeaseTest, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr absl::Duration kTick = absl::Milliseconds(50);
  struct Actor {
    std::unique_ptr<Candidate> candidate;
    absl::Time next_try;
    absl::Time cut_off_until;
    bool in_call = false;
    bool seemed_to_lead = false;
  };

  double Random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  void Enter(Actor& actor) {
    const absl::Duration ahead = absl::Seconds(Random() * 7200.0 - 3600.0);
    actor.candidate = MakeCandidate(absl::StrCat("c", ++entered_), ahead);
    actor.seemed_to_lead = false;
    actor.candidate->client.fault = [this, &actor](LeaseClient::When) {
      if (storm_) Pass(absl::Milliseconds(Random() < 0.02 ? 8000 : 100 * Random()));
      if (clock_.Now() < actor.cut_off_until) return absl::UnavailableError("cut off");
      return storm_ && Random() < 0.1 ? absl::UnavailableError("lost") : absl::OkStatus();
    };
  }

  // Time passes for all; who is not in a call goes on.
  void Pass(absl::Duration duration) {
    for (absl::Duration left = duration; left > absl::ZeroDuration(); left -= kTick) {
      clock_.Advance(kTick);
      CheckOneLeader();
      for (Actor& actor : actors_) Act(actor);
    }
  }

  void Act(Actor& actor) {
    if (actor.in_call) return;
    if (storm_ && Random() < 0.0005) return Enter(actor);  // killed and started anew
    if (storm_ && Random() < 0.001) {
      actor.cut_off_until = clock_.Now() + absl::Seconds(30 * Random());
    }
    actor.in_call = true;
    if (storm_ && Random() < 0.0005) {
      (void)actor.candidate->lease.Release();
      Enter(actor);
    } else if (clock_.Now() >= actor.next_try) {
      (void)actor.candidate->Try();
      actor.next_try = clock_.Now() + absl::Seconds(2.0 + 0.4 * Random());
    }
    actor.in_call = false;
  }

  void CheckOneLeader() {
    int leaders = 0;
    for (Actor& actor : actors_) leaders += actor.candidate->may_write() ? 1 : 0;
    ASSERT_LE(leaders, 1);
    led_ += leaders;
  }

  bool storm_ = true;
  int entered_ = 0;
  int64_t led_ = 0;  // ticks with a leader
  std::mt19937_64 random_{static_cast<uint64_t>(GetParam())};
  std::vector<Actor> actors_{3};
};

TEST_P(LeaseStorm, NeverHasTwoWritersAndSoonHasOneAgain) {
  for (Actor& actor : actors_) Enter(actor);
  Pass(absl::Minutes(20));
  EXPECT_GT(led_, 0);
  storm_ = false;
  Pass(absl::Seconds(30) + kLease + absl::Seconds(2.4));  // the longest cut, and a lease
  led_ = 0;
  Pass(absl::Minutes(1));
  EXPECT_EQ(led_, absl::Minutes(1) / kTick);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeaseStorm, ::testing::Range(1, 21));

}  // namespace
}  // namespace runtime
