#include "base/exit_codes.h"

#include <gtest/gtest.h>

namespace base {
namespace {

TEST(ExitCodes, GiveEachKindOfErrorItsCode) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(UsageError("x")), 2);
  EXPECT_EQ(ExitCodeFor(DataError("x")), 3);
  EXPECT_EQ(ExitCodeFor(NumericError("x")), 4);
  EXPECT_EQ(ExitCodeFor(ClusterError("x")), 138);
}

TEST(ExitCodes, CountTimeoutsAndAbortsAsClusterTrouble) {
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("x")), 138);
  EXPECT_EQ(ExitCodeFor(absl::AbortedError("x")), 138);
}

TEST(ExitCodes, GiveOneForAnythingElse) {
  EXPECT_EQ(ExitCodeFor(absl::InternalError("x")), 1);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("x")), 1);
}

}  // namespace
}  // namespace base
