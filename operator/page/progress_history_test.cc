#include "operator/page/progress_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ProgressHistoryTest : public ::testing::Test {
 protected:
  void Note(const std::string& key, int64_t step, const std::string& uid = "u") {
    history_.Note(key, uid,
                  {.read = {.global_step = step, .loss = 0.5}, .last_update_time = clock_.Now()});
  }
  std::vector<int64_t> Steps(const std::string& key, const std::string& uid = "u") {
    std::vector<int64_t> out;
    for (const ProgressPoint& point : history_.Points(key, uid)) out.push_back(point.step);
    return out;
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1'700'000'000)};
  ProgressHistory history_{{.clock = &clock_, .max_jobs = 2}};
};

TEST_F(ProgressHistoryTest, KeepsWhatWasTold) {
  Note("ns/j", 7);
  Note("ns/j", 7);  // the same status, written again
  const std::vector<ProgressPoint> points = history_.Points("ns/j", "u");
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].seconds, 1'700'000'000);
  EXPECT_FLOAT_EQ(points[0].loss, 0.5);
  EXPECT_TRUE(std::isnan(points[0].rate));
}

TEST_F(ProgressHistoryTest, ThinsOutAndShowsTheNewest) {
  for (int second = 0; second <= 24; second += 4) {
    Note("ns/j", second);
    clock_.Advance(absl::Seconds(4));
  }
  EXPECT_THAT(Steps("ns/j"), ElementsAre(0, 12, 24));
}

TEST_F(ProgressHistoryTest, ForgetsWhatIsOlderThanAnHour) {
  for (int i = 0; i < 1000; ++i) {
    Note("ns/j", i);
    clock_.Advance(absl::Seconds(10));
  }
  EXPECT_EQ(Steps("ns/j").size(), 360U);
  EXPECT_EQ(Steps("ns/j").back(), 999);
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Steps("ns/j"), IsEmpty());
}

TEST_F(ProgressHistoryTest, AnotherJobOfThatNameBeginsAnew) {
  Note("ns/j", 1);
  clock_.Advance(absl::Seconds(20));
  Note("ns/j", 2, "v");
  EXPECT_THAT(Steps("ns/j"), IsEmpty());
  EXPECT_THAT(Steps("ns/j", "v"), ElementsAre(2));
  history_.Forget("ns/j");
  EXPECT_THAT(Steps("ns/j", "v"), IsEmpty());
}

TEST_F(ProgressHistoryTest, TheJobThatWasLongestSilentMakesRoom) {
  for (const char* key : {"ns/a", "ns/b"}) {
    Note(key, 1);
    clock_.Advance(absl::Seconds(1));
  }
  Note("ns/a", 2);
  clock_.Advance(absl::Seconds(1));
  Note("ns/c", 3);
  EXPECT_EQ(history_.jobs(), 2U);
  EXPECT_THAT(Steps("ns/b"), IsEmpty());
  EXPECT_THAT(Steps("ns/a"), ElementsAre(1, 2));
}

}  // namespace
}  // namespace tfjob
