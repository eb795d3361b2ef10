// Devices found from made-up /proc folders, a plug-in and a management library that are none;
// placement of layers; the backend for it; the lines that tell about it.
#include "trainer/devices/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/exit_codes.h"
#include "trainer/cpu/test_models.h"
#include "trainer/devices/choose_backend.h"
#include "trainer/devices/placement.h"

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

// A CPU and `gpus` GPUs that work.
DeviceInventory Inventory(int gpus) {
  DeviceInventory inventory;
  inventory.devices.push_back({.device = {}, .name = "Test CPU", .cores = 2});
  for (int i = 0; i < gpus; ++i) {
    inventory.devices.push_back({.device = {DeviceType::kGpu, i},
                                 .name = "Test GPU",
                                 .compute_capability = "9.0",
                                 .pci_bus_id = "0000:01:00.0"});
  }
  if (gpus == 0) inventory.no_gpu_reason = "no driver";
  return inventory;
}

constexpr DeviceName Gpu(int index) { return {DeviceType::kGpu, index}; }

Model TwoLayers(const std::string& device, const std::string& device_of_out = "") {
  ModelSpec spec;
  spec.input_shape = {4};
  spec.layers = {DenseLayer("hidden", 3), PlainLayer(LayerKind::kRelu), DenseLayer("out", 2)};
  spec.layers[0].device = device;
  spec.layers[1].device = device;
  spec.layers[2].device = device_of_out;
  return *Model::Create(spec);
}

// A machine with the fakes.
DeviceEnvironment FakeGpus(const Root& root) {
  return {.root = root.path(), .plugin = FAKE_CUDA_PLUGIN, .nvml = FAKE_NVML};
}

// Sets a variable of the fakes for one test.
class Mode {
 public:
  explicit Mode(const char* mode) { setenv("FAKE_CUDA", mode, 1); }
  ~Mode() { unsetenv("FAKE_CUDA"); }
};

TEST(DevicesTest, TheCpuIsDescribedAndWorks) {
  const Root root;
  const DeviceInventory inventory = FindDevices({.root = root.path(), .nvml = "libnone.so"});
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
  const auto reason = [&](const std::optional<std::string>& visible) {
    return FindDevices({.cuda_visible_devices = visible, .root = root.path(), .nvml = "libnone.so"})
        .no_gpu_reason;
  };
  EXPECT_THAT(reason(std::nullopt), HasSubstr("no NVIDIA driver"));
  root.Write("/proc/driver/nvidia/version", "NVRM version: 1\n");
  EXPECT_THAT(reason(std::nullopt), HasSubstr("plug-in libtrainer_cuda.so is not installed"));
  EXPECT_THAT(reason("0"), HasSubstr("plug-in libtrainer_cuda.so is not installed"));
  EXPECT_THAT(reason(""), HasSubstr("CUDA_VISIBLE_DEVICES='' hides all GPUs"));
  EXPECT_THAT(reason("-1"), HasSubstr("CUDA_VISIBLE_DEVICES='-1' hides all GPUs"));
}

TEST(DevicesTest, GpusAreDescribedByPluginAndManagementLibraryAndTriedOut) {
  const Root root;
  const DeviceInventory inventory = FindDevices(FakeGpus(root));
  EXPECT_EQ(inventory.no_gpu_reason, "");
  EXPECT_THAT(inventory.UsableGpus(), ElementsAre(0, 1));
  ASSERT_THAT(inventory.devices, SizeIs(3));
  EXPECT_EQ(inventory.devices[2].driver, "580.00.01");
  EXPECT_EQ(inventory.devices[2].memory_used_bytes, int64_t{1} << 30);
  EXPECT_THAT(DeviceTable(inventory), HasSubstr("GPU:1   Fake GPU 1"));
  EXPECT_THAT(DeviceTable(inventory), HasSubstr("1.0/80.0 GiB"));
}

TEST(DevicesTest, WithoutAManagementLibraryThePluginAloneTellsOfGpus) {
  const Root root;
  DeviceEnvironment environment = FakeGpus(root);
  environment.nvml = "libnone.so";
  const DeviceInventory inventory = FindDevices(environment);
  EXPECT_THAT(inventory.UsableGpus(), ElementsAre(0, 1));
  EXPECT_EQ(inventory.devices[1].driver, "");
  EXPECT_EQ(inventory.devices[1].memory_total_bytes, int64_t{256} << 20);
}

TEST(DevicesTest, GpusWithoutAPluginAreListedAndNotUsed) {
  const Root root;
  const DeviceInventory inventory = FindDevices({.root = root.path(), .nvml = FAKE_NVML});
  EXPECT_THAT(inventory.UsableGpus(), IsEmpty());
  EXPECT_FALSE(inventory.Has(Gpu(0)));
  EXPECT_THAT(DeviceTable(inventory), HasSubstr("GPU:0   Fake GPU 0"));
  EXPECT_THAT(DeviceTable(inventory), HasSubstr("not tried"));
  EXPECT_THAT(inventory.no_gpu_reason, HasSubstr("build with -DTRAINYARD_CUDA=ON"));
}

TEST(DevicesTest, HiddenGpusAreNeitherListedNorAsked) {
  const Root root;
  DeviceEnvironment environment = FakeGpus(root);
  environment.cuda_visible_devices = "";
  const DeviceInventory inventory = FindDevices(environment);
  EXPECT_THAT(inventory.devices, SizeIs(1));
  EXPECT_THAT(inventory.no_gpu_reason, HasSubstr("hides all GPUs"));
}

TEST(DevicesTest, WhatThePluginSaysIsTheReason) {
  const Root root;
  for (const auto& [mode, reason] :
       {std::pair("no_driver", "no NVIDIA driver is loaded"),
        std::pair("no_device", "shows no GPU"), std::pair("version", "built with this trainer")}) {
    const Mode set(mode);
    const DeviceInventory inventory = FindDevices(FakeGpus(root));
    EXPECT_THAT(inventory.no_gpu_reason, HasSubstr(reason));
    EXPECT_THAT(inventory.UsableGpus(), IsEmpty());
    EXPECT_EQ(inventory.plugin, nullptr);
  }
}

TEST(DevicesTest, AGpuThatFailsItsCheckIsShownAndNotUsed) {
  const Root root;
  const Mode mode("bad_add");
  const DeviceInventory inventory = FindDevices(FakeGpus(root));
  EXPECT_THAT(inventory.UsableGpus(), ElementsAre(0));
  EXPECT_THAT(DeviceTable(inventory), HasSubstr("gave [3,4,6] instead of [2,4,6]"));
  const absl::Status status = PlaceLayers(TwoLayers("/gpu:1"), inventory, {}, false).status();
  EXPECT_THAT(status.message(), HasSubstr("cannot run on /device:GPU:1: [1,2,3]+[1,2,3] gave"));
}

TEST(DevicesTest, RequireGpuExitsTwoWithTheReason) {
  const absl::Status status = RequireGpu(Inventory(0));
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(), HasSubstr("no usable GPU: no driver"));
  EXPECT_TRUE(RequireGpu(Inventory(1)).ok());
}

TEST(DevicesTest, AModelGoesWhereALayerIsToldOrToTheDefault) {
  const auto told = PlaceLayers(TwoLayers("/gpu:1"), Inventory(2), Gpu(0), false);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->device, Gpu(1));
  EXPECT_THAT(told->warnings, IsEmpty());
  EXPECT_EQ(PlaceLayers(TwoLayers(""), Inventory(2), Gpu(1), false)->device, Gpu(1));
  EXPECT_EQ(PlaceLayers(TwoLayers(""), Inventory(2), {}, false)->device, DeviceName{});
}

TEST(DevicesTest, LayersOnSeveralDevicesRunOnTheCpuOrNotAtAll) {
  const auto soft = PlaceLayers(TwoLayers("/gpu:0", "/cpu:0"), Inventory(2), {}, true);
  ASSERT_TRUE(soft.ok());
  EXPECT_EQ(soft->device, DeviceName{});
  EXPECT_THAT(soft->warnings,
              ElementsAre("op hidden cannot run on /device:GPU:0: op out is on /device:CPU:0 and a "
                          "model runs on one device; it runs on the CPU"));
  const auto hard = PlaceLayers(TwoLayers("/gpu:0", "/gpu:1"), Inventory(2), {}, false);
  EXPECT_EQ(base::ExitCodeFor(hard.status()), base::kExitUsage);
  EXPECT_THAT(hard.status().message(), HasSubstr("op out cannot run on /device:GPU:1: op hidden"));
}

TEST(DevicesTest, SoftPlacementFallsBackToTheCpuAndSaysSoOnce) {
  const auto placements = PlaceLayers(TwoLayers("/gpu:0"), Inventory(0), {}, true);
  ASSERT_TRUE(placements.ok());
  EXPECT_EQ(placements->device, DeviceName{});
  EXPECT_THAT(placements->warnings,
              ElementsAre("op hidden cannot run on /device:GPU:0: no driver; it runs on the CPU"));
}

TEST(DevicesTest, HardPlacementNamesOpAndDevice) {
  const absl::Status status = PlaceLayers(TwoLayers("/gpu:1"), Inventory(1), {}, false).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(),
              HasSubstr("op hidden cannot run on /device:GPU:1: there is no such device"));
}

TEST(ChooseBackendTest, WorkersTakeGpusInTurns) {
  const Root root;
  const DeviceInventory inventory = FindDevices(FakeGpus(root));
  for (int worker = 0; worker < 5; ++worker) {
    const auto chosen = ChooseBackend(TwoLayers(""), inventory, {.task_index = worker});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->backend->name(), "cuda");
    EXPECT_EQ(chosen->placements.device, Gpu(worker % 2));
    EXPECT_THAT(chosen->gpus, ElementsAre(worker % 2));
  }
}

TEST(ChooseBackendTest, ALayersDeviceWinsOverTheTurn) {
  const Root root;
  const DeviceInventory inventory = FindDevices(FakeGpus(root));
  EXPECT_THAT(ChooseBackend(TwoLayers("/gpu:1"), inventory, {.task_index = 0})->gpus,
              ElementsAre(1));
  const auto on_cpu = ChooseBackend(TwoLayers("/cpu:0", "/cpu:0"), inventory, {});
  EXPECT_EQ(on_cpu->backend->name(), "cpu");
  EXPECT_THAT(on_cpu->gpus, IsEmpty());
}

TEST(ChooseBackendTest, TowersTakeGpusOfTheirOwnAndShareWhereThereAreTooFew) {
  const Root root;
  const DeviceInventory inventory = FindDevices(FakeGpus(root));
  EXPECT_THAT(ChooseBackend(TwoLayers(""), inventory, {.task_index = 1, .num_gpus = 2})->gpus,
              ElementsAre(1, 0));
  const auto shared = ChooseBackend(TwoLayers(""), inventory, {.num_gpus = 3});
  EXPECT_THAT(shared->gpus, ElementsAre(0, 1));
  EXPECT_THAT(shared->placements.warnings,
              ElementsAre("--num_gpus=3: its towers share the 2 usable here"));
}

TEST(ChooseBackendTest, WithoutAGpuTheCpuComputesUnlessOneIsRequired) {
  const DeviceInventory none = Inventory(0);
  const auto chosen = ChooseBackend(TwoLayers(""), none, {});
  EXPECT_EQ(chosen->backend->name(), "cpu");
  EXPECT_THAT(chosen->placements.warnings, IsEmpty());
  EXPECT_THAT(ChooseBackend(TwoLayers(""), none, {.num_gpus = 1})->placements.warnings, SizeIs(1));
  for (const DeviceChoice& choice : {DeviceChoice{.require_gpu = true},
                                     DeviceChoice{.num_gpus = 1, .allow_soft_placement = false}}) {
    EXPECT_EQ(base::ExitCodeFor(ChooseBackend(TwoLayers(""), none, choice).status()),
              base::kExitUsage);
  }
}

TEST(DevicesTest, PlacementLinesNameDevicesOpsAndVariables) {
  const Model model = TwoLayers("/gpu:0");
  const DeviceInventory inventory = Inventory(1);
  const std::string task = "/job:worker/replica:0/task:1";
  const std::string ps = "/job:ps/replica:0/task:0/device:CPU:0";
  const std::vector<std::string> variables(4, ps);
  EXPECT_THAT(
      DevicePlacementLines(model, inventory, Gpu(0), task, variables),
      ElementsAre(
          task + "/device:CPU:0 -> device: 0, name: Test CPU, cores: 2, memory: 0.0/0.0 GiB",
          task + "/device:GPU:0 -> device: 0, name: Test GPU, pci bus id: 0000:01:00.0, compute "
                 "capability: 9.0",
          "hidden: (dense): " + task + "/device:GPU:0", "relu_2: (relu): " + task + "/device:GPU:0",
          "out: (dense): " + task + "/device:GPU:0", "hidden/weights: (variable): " + ps,
          "hidden/biases: (variable): " + ps, "out/weights: (variable): " + ps,
          "out/biases: (variable): " + ps));
  EXPECT_EQ(DevicePlacementLines(model, inventory, Gpu(0), task, {}).back(),
            "out/biases: (variable): " + task + "/device:CPU:0");
}

}  // namespace
}  // namespace trainer
