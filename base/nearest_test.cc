#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace base {
namespace {

const std::vector<std::string> kNames = {"task_id", "task_index", "ps_hosts"};

TEST(Nearest, FindsTheNameBehindATypo) {
  EXPECT_EQ(Nearest("taske_id", kNames), "task_id");
  EXPECT_EQ(Nearest("ps_hsots", kNames), "ps_hosts");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) { EXPECT_EQ(Nearest("gradient", kNames), ""); }

}  // namespace
}  // namespace base
