#include "operator/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ExecutionRecord, TellsNamesInOrderInOneEventForEachKind) {
  ExecutionRecord record(/*single_events=*/false);
  for (const char* name : {"j-worker-1", "j-worker-0"}) {
    record.CreatedPod(name);
    record.DeletedPod(name);
    record.DeletedService(name);
  }
  EXPECT_TRUE(record.GoesOn());
  const Execution done = std::move(record).Finish("j");
  EXPECT_EQ(done.created_pods, 2);
  EXPECT_THAT(done.events,
              ElementsAre(Event{"Normal", kReasonCreatedPod, "Created pod: j-worker-0, j-worker-1"},
                          Event{"Normal", kReasonDeletedPod,
                                "Deleted pod: j-worker-0, j-worker-1; deleted service: j-worker-0, "
                                "j-worker-1"}));
}

TEST(ExecutionRecord, TellsOfEachObjectWhereSingleEventsAreWanted) {
  ExecutionRecord record(/*single_events=*/true);
  record.CreatedPod("b");
  record.CreatedPod("a");
  EXPECT_THAT(std::move(record).Finish("j").events,
              ElementsAre(Event{"Normal", kReasonCreatedPod, "Created pod: a"},
                          Event{"Normal", kReasonCreatedPod, "Created pod: b"}));
}

TEST(ExecutionRecord, ATakenNameStopsNothingAndARefusalDoes) {
  ExecutionRecord record(/*single_events=*/false);
  record.NameTaken({kReasonForeignPod, "b"});
  record.NameTaken({kReasonForeignPod, "a"});
  EXPECT_TRUE(record.GoesOn());
  EXPECT_FALSE(record.Blocked({kReasonFailedCreatePod, "first"}));
  EXPECT_FALSE(record.Blocked({kReasonFailedCreatePod, "second"}));
  EXPECT_FALSE(record.GoesOn());
  EXPECT_THAT(std::move(record).Finish("j").troubles,
              ElementsAre(Trouble{kReasonFailedCreatePod, "first"}, Trouble{kReasonForeignPod, "a"},
                          Trouble{kReasonForeignPod, "b"}));
}

TEST(ExecutionRecord, ADeletionThatIsRefusedIsAnEventAndOneThatMayPassIsNot) {
  ExecutionRecord record(/*single_events=*/false);
  EXPECT_FALSE(record.NotDeleted(absl::UnavailableError("no answer"), kReasonFailedDeletePod));
  EXPECT_FALSE(record.GoesOn());
  EXPECT_FALSE(record.NotDeleted(absl::PermissionDeniedError("no"), kReasonFailedDeletePod));
  const Execution done = std::move(record).Finish("j");
  EXPECT_TRUE(absl::IsUnavailable(done.error)) << "the first counts";
  EXPECT_THAT(done.events,
              ElementsAre(Event{"Warning", kReasonFailedDeletePod, "Error deleting: no"}));
  EXPECT_THAT(done.troubles, IsEmpty());
}

}  // namespace
}  // namespace tfjob
