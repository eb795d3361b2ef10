// For tests: a plug-in with the real C interface and the real steps, whose two GPUs are this
// machine's memory. Never installed. FAKE_CUDA says how it misbehaves: "no_driver", "no_device",
// "bad_add" (1 gives a wrong sum on its second device), "version" (of another interface).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

#include "trainer/cuda/plugin/host_runner.h"
#include "trainer/cuda/plugin/plugin_program.h"

namespace trainer::cuda {
namespace {

constexpr int64_t kMemoryBytes = int64_t{256} << 20;  // of each device

std::string_view Mode() {
  const char* const mode = std::getenv("FAKE_CUDA");
  return mode == nullptr ? "" : mode;
}

// A host's runner that adds wrongly where it is told to.
class FakeRunner : public HostRunner {
 public:
  FakeRunner(std::shared_ptr<MemoryPool> pool, bool adds_wrongly)
      : HostRunner(std::move(pool)), adds_wrongly_(adds_wrongly) {}
  using HostRunner::Each;
  void Each(int64_t size, const AddBody& body) {
    HostRunner::Each(size, body);
    if (adds_wrongly_) body.sum[0] += 1;
  }

 private:
  const bool adds_wrongly_;
};

struct FakePlatform {
  using Runner = FakeRunner;

  static const char* BuiltFor() { return "tests"; }

  static void DeviceCount(int32_t* count, Failure* failure) {
    if (Mode() == "no_driver") failure->Set(kTrainerCudaFailed, "no NVIDIA driver is loaded here");
    *count = Mode() == "no_device" ? 0 : 2;
  }

  static void Describe(int32_t device, TrainerCudaDevice* to, Failure* /*failure*/) {
    *to = {};
    std::snprintf(to->name, sizeof to->name, "Fake GPU %d", device);
    std::snprintf(to->pci_bus_id, sizeof to->pci_bus_id, "0000:%02x:00.0", device + 1);
    to->compute_major = 9;
    to->compute_minor = device;
    to->memory_total_bytes = kMemoryBytes;
    to->memory_free_bytes = kMemoryBytes;
  }

  static std::unique_ptr<Runner> Open(const TrainerCudaOptions& options, Failure* /*failure*/) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<MemoryPool>> pools;  // one a device, as in the plug-in
    const std::lock_guard lock(mutex);
    std::shared_ptr<MemoryPool> pool = pools[options.device].lock();
    if (pool == nullptr) {
      const auto limit = static_cast<int64_t>(options.memory_fraction * kMemoryBytes);
      pool = std::make_shared<MemoryPool>(
          MemorySource{[](int64_t bytes) { return std::malloc(static_cast<size_t>(bytes)); },
                       [](void* memory) { std::free(memory); }},
          limit, options.allow_growth != 0);
      pools[options.device] = pool;
    }
    return std::make_unique<Runner>(std::move(pool), Mode() == "bad_add" && options.device == 1);
  }
};

}  // namespace
}  // namespace trainer::cuda

extern "C" const TrainerCudaApi* trainer_cuda_api() {
  using trainer::cuda::FakePlatform;
  const TrainerCudaApi* const api = trainer::cuda::PluginTable<FakePlatform>::Get();
  if (trainer::cuda::Mode() != "version") return api;
  static TrainerCudaApi other = *api;
  other.version = kTrainerCudaApiVersion + 1;
  return &other;
}
