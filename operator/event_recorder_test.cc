// Events: sent once, repeats counted, behind writes, through refusals.
#include "operator/event_recorder.h"

#include <gtest/gtest.h>

#include "operator/kube/fake_apiserver.h"

namespace tfjob {
namespace {

class EventRecorderTest : public ::testing::Test {
 protected:
  EventRecorderTest() { Restart({}); }
  void Restart(EventRecorderOptions options) {
    options.clock = &clock_;
    recorder_ = EventRecorder::Create(client_.get(), options);
  }
  bool Flush() { return recorder_->Flush(absl::InfiniteFuture()); }
  Json Only() const {
    const std::vector<Json> events = server_->Objects(kube::kEvents);
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? Json() : events[0];
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1'700'000'000)};
  std::shared_ptr<kube::FakeApiServer> server_ = std::make_shared<kube::FakeApiServer>();
  std::unique_ptr<kube::Client> client_ = kube::Client::Create(server_, {});
  std::unique_ptr<EventRecorder> recorder_;
  const ObjectMeta job_{.name = "j", .namespace_name = "ns", .uid = "u"};
  const Event event_{"Normal", "TFJobSucceeded", "done"};
};

TEST_F(EventRecorderTest, SendsWhatClientsExpect) {
  recorder_->Record(job_, event_);
  ASSERT_TRUE(Flush());
  const Json event = Only();
  EXPECT_EQ(event["involvedObject"]["kind"], "TFJob");
  EXPECT_EQ(event["involvedObject"]["uid"], "u");
  EXPECT_EQ(event["source"]["component"], "tfjob-controller");
  EXPECT_EQ(event["reason"], "TFJobSucceeded");
  EXPECT_EQ(event["message"], "done");
  EXPECT_EQ(event["count"], 1);
}

TEST_F(EventRecorderTest, CountsRepeatsNowAndThen) {
  for (int i = 0; i < 10; ++i) recorder_->Record(job_, event_);
  ASSERT_TRUE(Flush());
  EXPECT_EQ(Only()["count"], 1);
  EXPECT_EQ(server_->Calls().size(), 1u);
  clock_.Advance(absl::Minutes(6));
  recorder_->Record(job_, event_);
  ASSERT_TRUE(Flush());
  EXPECT_EQ(Only()["count"], 11);
  EXPECT_EQ(recorder_->counters().sent, 1);
  EXPECT_EQ(recorder_->counters().repeated, 1);
}

TEST_F(EventRecorderTest, FindsItsEventAgainAfterARestart) {
  recorder_->Record(job_, event_);
  ASSERT_TRUE(Flush());
  Restart({});
  recorder_->Record(job_, event_);
  ASSERT_TRUE(Flush());
  EXPECT_EQ(Only()["count"], 2);
}

TEST_F(EventRecorderTest, WaitsForWritesButNotForEver) {
  recorder_->WriteBegins();
  recorder_->Record(job_, event_);
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  EXPECT_EQ(server_->Calls().size(), 0u);
  clock_.Advance(absl::Seconds(3));
  ASSERT_TRUE(Flush());
  EXPECT_EQ(server_->Calls().size(), 1u);
  recorder_->WriteEnds();
}

TEST_F(EventRecorderTest, DropsWhatItsQueueCannotHold) {
  Restart({.max_queue = 2});
  recorder_->WriteBegins();
  recorder_->Record(job_, {"Normal", "A", ""});
  ASSERT_TRUE(clock_.AwaitSleepers(1));
  for (const char* reason : {"B", "C", "D"}) recorder_->Record(job_, {"Normal", reason, ""});
  recorder_->WriteEnds();
  ASSERT_TRUE(Flush());
  EXPECT_GE(recorder_->counters().dropped, 1);
  EXPECT_LE(server_->Objects(kube::kEvents).size(), 3u);
}

TEST_F(EventRecorderTest, CountsRefusalsAndGoesOn) {
  server_->SetFaults([](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.number == 1) fault.code = 403;
    return fault;
  });
  recorder_->Record(job_, event_);
  recorder_->Record(job_, {"Normal", "Other", ""});
  ASSERT_TRUE(Flush());
  EXPECT_EQ(recorder_->counters().failed, 1);
  EXPECT_EQ(recorder_->counters().sent, 1);
}

}  // namespace
}  // namespace tfjob
