// Loading a plug-in, and every way in which there is none; what the management library tells.
#include "trainer/cuda/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trainer/cuda/nvml.h"

namespace trainer::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Sets a variable of the fakes for one test.
class Mode {
 public:
  Mode(const char* name, const char* mode) : name_(name) { setenv(name, mode, 1); }
  ~Mode() { unsetenv(name_); }

 private:
  const char* const name_;
};

std::string LoadMessage(const std::string& path) {
  return std::string(Plugin::Load(path).status().message());
}

TEST(PluginTest, CountsDescribesAndTriesDevices) {
  const auto plugin = Plugin::Load(FAKE_CUDA_PLUGIN);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(*(*plugin)->DeviceCount(), 2);
  EXPECT_STREQ((*plugin)->Describe(1)->name, "Fake GPU 1");
  EXPECT_TRUE((*plugin)->CheckAdd(0).ok());
  EXPECT_TRUE((*plugin)->CheckAdd(1).ok());
}

TEST(PluginTest, ADeviceThatAddsWronglyIsCaught) {
  const Mode mode("FAKE_CUDA", "bad_add");
  const auto plugin = Plugin::Load(FAKE_CUDA_PLUGIN);
  ASSERT_TRUE(plugin.ok());
  EXPECT_TRUE((*plugin)->CheckAdd(0).ok());
  EXPECT_THAT((*plugin)->CheckAdd(1).message(), HasSubstr("gave [3,4,6] instead of [2,4,6]"));
}

TEST(PluginTest, EveryWayToHaveNoPluginIsOneMessage) {
  EXPECT_EQ(Plugin::Load("/no/such/plugin.so").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(LoadMessage("/no/such/plugin.so"), HasSubstr("no GPU plug-in /no/such/plugin.so"));
  const std::string text = testing::TempDir() + "/plugin_" + std::to_string(::getpid()) + ".so";
  std::ofstream(text) << "not a library\n";
  EXPECT_THAT(LoadMessage(text), AllOf(HasSubstr("cannot be used"), HasSubstr(text)));
  std::filesystem::remove(text);
  EXPECT_THAT(LoadMessage(FAKE_NVML), HasSubstr("it is not a plug-in of the trainer"));
  const Mode mode("FAKE_CUDA", "version");
  EXPECT_THAT(LoadMessage(FAKE_CUDA_PLUGIN),
              AllOf(HasSubstr("of the interface where this trainer has version"),
                    HasSubstr("use the plug-in that was built with this trainer")));
}

TEST(PluginTest, NoDriverAndNoDeviceAreReasons) {
  const auto plugin = Plugin::Load(FAKE_CUDA_PLUGIN);
  ASSERT_TRUE(plugin.ok());
  {
    const Mode mode("FAKE_CUDA", "no_driver");
    EXPECT_THAT((*plugin)->DeviceCount().status().message(), HasSubstr("no NVIDIA driver"));
  }
  const Mode mode("FAKE_CUDA", "no_device");
  EXPECT_THAT((*plugin)->DeviceCount().status().message(), HasSubstr("shows no GPU"));
}

TEST(PluginTest, OneThatIsNamedIsTheOne) { EXPECT_EQ(FindPlugin("/a/b.so"), "/a/b.so"); }

TEST(NvmlTest, TellsDevicesAndDriver) {
  const auto found = AskNvml(FAKE_NVML);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->driver, "580.00.01");
  ASSERT_EQ(found->devices.size(), 2u);
  EXPECT_EQ(found->devices[1].name, "Fake GPU 1");
  EXPECT_EQ(found->devices[1].pci_bus_id, "0000:02:00.0");
  EXPECT_EQ(found->devices[1].compute_capability, "9.0");
  EXPECT_EQ(found->devices[1].memory_used_bytes, int64_t{1} << 30);
  EXPECT_EQ(found->devices[1].memory_total_bytes, int64_t{80} << 30);
}

TEST(NvmlTest, SaysWhyItTellsNothing) {
  EXPECT_EQ(AskNvml("libno-such-nvml.so").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(AskNvml(FAKE_CUDA_PLUGIN).status().message(), HasSubstr("too old"));
  const Mode mode("FAKE_NVML", "broken");
  EXPECT_THAT(AskNvml(FAKE_NVML).status().message(),
              HasSubstr("NVML could not start: Driver Not Loaded"));
}

}  // namespace
}  // namespace trainer::cuda
