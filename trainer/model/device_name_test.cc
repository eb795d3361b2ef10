#include "trainer/model/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace trainer {
namespace {

TEST(DeviceNameTest, ReadsTheFormsThatUsersKnow) {
  const DeviceName cpu{DeviceType::kCpu, 0};
  const DeviceName gpu{DeviceType::kGpu, 12};
  EXPECT_EQ(*ParseDeviceName("/cpu:0"), cpu);
  EXPECT_EQ(*ParseDeviceName("/CPU:0"), cpu);
  EXPECT_EQ(*ParseDeviceName("/gpu:12"), gpu);
  EXPECT_EQ(*ParseDeviceName("/device:GPU:12"), gpu);
  EXPECT_EQ(*ParseDeviceName("/job:worker/task:1/gpu:12"), gpu);
  EXPECT_EQ(*ParseDeviceName("/job:worker/replica:0/task:1/device:GPU:12"), gpu);
  EXPECT_EQ(ToString(gpu), "GPU:12");
  EXPECT_EQ(ToString(cpu), "CPU:0");
}

TEST(DeviceNameTest, RefusesEverythingElse) {
  for (const char* name : {"", "/", "cpu:0", "/cpu", "/cpu:", "/cpu:-1", "/gpu:x", "/gpu:1x",
                           "/tpu:0", "/gpu:99999999999", "/gpu:0/", "/foo/gpu:0", "/gpu: 1"}) {
    const absl::Status status = ParseDeviceName(name).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage) << name;
    EXPECT_THAT(status.message(), testing::HasSubstr("write /cpu:0, or /gpu:N")) << name;
  }
}

}  // namespace
}  // namespace trainer
