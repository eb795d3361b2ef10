// Devices found from made-up /proc folders; placement of layers; the lines that tell about it.
#include "trainer/cpu/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/exit_codes.h"
#include "trainer/cpu/test_models.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A folder with a /proc of our making.
class Root {
 public:
  Root() : path_(testing::TempDir() + "/devices_" + std::to_string(::getpid())) {
    Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU 3000\n");
    Write("/proc/meminfo", "MemTotal:  4194304 kB\nMemFree: 1 kB\nMemAvailable:  1048576 kB\n");
  }
  ~Root() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + name).parent_path());
    std::ofstream(path_ + name) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

DeviceInventory Inventory(bool with_gpu) {
  DeviceInventory inventory;
  inventory.devices.push_back({.device = {}, .name = "Test CPU", .cores = 2});
  if (with_gpu) {
    inventory.devices.push_back({.device = {DeviceType::kGpu, 0},
                                 .name = "Test GPU",
                                 .compute_capability = "9.0",
                                 .pci_bus_id = "0000:01:00.0"});
  } else {
    inventory.no_gpu_reason = "no driver";
  }
  return inventory;
}

Model TwoLayers(const std::string& device) {
  ModelSpec spec;
  spec.input_shape = {4};
  spec.layers = {DenseLayer("hidden", 3), PlainLayer(LayerKind::kRelu), DenseLayer("out", 2)};
  spec.layers[0].device = device;
  spec.layers[1].device = device;
  return *Model::Create(spec);
}

TEST(DevicesTest, TheCpuIsDescribedAndWorks) {
  const Root root;
  const DeviceInventory inventory = FindDevices({.cuda_visible_devices = {}, .root = root.path()});
  ASSERT_THAT(inventory.devices, SizeIs(1));
  const DeviceInfo& cpu = inventory.devices[0];
  EXPECT_EQ(cpu.name, "Test CPU 3000");
  EXPECT_GE(cpu.cores, 1);
  EXPECT_EQ(cpu.memory_total_bytes, int64_t{4} << 30);
  EXPECT_EQ(cpu.memory_used_bytes, int64_t{3} << 30);
  EXPECT_TRUE(cpu.check.ok());
  const std::string table = DeviceTable(inventory);
  EXPECT_THAT(table, HasSubstr("CPU:0   Test CPU 3000"));
  EXPECT_THAT(table, HasSubstr("3.0/4.0 GiB"));
  EXPECT_THAT(table, HasSubstr("[2,4,6]"));
  EXPECT_THAT(table, HasSubstr("no usable GPU: no NVIDIA driver is loaded on this machine"));
}

TEST(DevicesTest, TellsWhyThereIsNoGpu) {
  Root root;
  const auto reason = [&](std::optional<std::string> visible) {
    return FindDevices({.cuda_visible_devices = visible, .root = root.path()}).no_gpu_reason;
  };
  EXPECT_THAT(reason(std::nullopt), HasSubstr("no NVIDIA driver"));
  root.Write("/proc/driver/nvidia/version", "NVRM version: 1\n");
  EXPECT_THAT(reason(std::nullopt), HasSubstr("libtrainer_cuda.so is not installed"));
  EXPECT_THAT(reason("0"), HasSubstr("libtrainer_cuda.so is not installed"));
  EXPECT_THAT(reason(""), HasSubstr("CUDA_VISIBLE_DEVICES='' hides all GPUs"));
  EXPECT_THAT(reason("-1"), HasSubstr("CUDA_VISIBLE_DEVICES='-1' hides all GPUs"));
}

TEST(DevicesTest, RequireGpuExitsTwoWithTheReason) {
  const absl::Status status = RequireGpu(Inventory(false));
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(), HasSubstr("no usable GPU: no driver"));
  EXPECT_TRUE(RequireGpu(Inventory(true)).ok());
}

TEST(DevicesTest, LayersGoWhereTheyAreToldOrToTheDefault) {
  const auto placements = PlaceLayers(TwoLayers("/gpu:0"), Inventory(true), {}, false);
  ASSERT_TRUE(placements.ok());
  EXPECT_THAT(placements->layers, ElementsAre(DeviceName{DeviceType::kGpu, 0},
                                              DeviceName{DeviceType::kGpu, 0}, DeviceName{}));
  EXPECT_THAT(placements->warnings, IsEmpty());
}

TEST(DevicesTest, SoftPlacementFallsBackToTheCpuAndSaysSoOnce) {
  const auto placements = PlaceLayers(TwoLayers("/gpu:0"), Inventory(false), {}, true);
  ASSERT_TRUE(placements.ok());
  EXPECT_THAT(placements->layers, ElementsAre(DeviceName{}, DeviceName{}, DeviceName{}));
  EXPECT_THAT(placements->warnings,
              ElementsAre("op hidden cannot run on /device:GPU:0: no driver; it runs on the CPU"));
}

TEST(DevicesTest, HardPlacementNamesOpAndDevice) {
  const absl::Status status = PlaceLayers(TwoLayers("/gpu:1"), Inventory(true), {}, false).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(),
              HasSubstr("op hidden cannot run on /device:GPU:1: there is no such device"));
}

TEST(DevicesTest, PlacementLinesNameDevicesOpsAndVariables) {
  const Model model = TwoLayers("/gpu:0");
  const DeviceInventory inventory = Inventory(true);
  const auto placements = PlaceLayers(model, inventory, {}, false);
  const std::string task = "/job:worker/replica:0/task:1";
  const std::string ps = "/job:ps/replica:0/task:0/device:CPU:0";
  const std::vector<std::string> variables(4, ps);
  EXPECT_THAT(
      DevicePlacementLines(model, inventory, *placements, task, variables),
      ElementsAre(
          task + "/device:CPU:0 -> device: 0, name: Test CPU, cores: 2, memory: 0.0/0.0 GiB",
          task + "/device:GPU:0 -> device: 0, name: Test GPU, pci bus id: 0000:01:00.0, compute "
                 "capability: 9.0",
          "hidden: (dense): " + task + "/device:GPU:0", "relu_2: (relu): " + task + "/device:GPU:0",
          "out: (dense): " + task + "/device:CPU:0", "hidden/weights: (variable): " + ps,
          "hidden/biases: (variable): " + ps, "out/weights: (variable): " + ps,
          "out/biases: (variable): " + ps));
  EXPECT_EQ(DevicePlacementLines(model, inventory, *placements, task, {}).back(),
            "out/biases: (variable): " + task + "/device:CPU:0");
}

}  // namespace
}  // namespace trainer
