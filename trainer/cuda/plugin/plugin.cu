// The plug-in: CUDA's devices and streams behind the C interface.
#include <memory>

#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/gpu_runner.h"
#include "trainer/cuda/plugin/plugin_program.h"

namespace trainer::cuda {
namespace {

struct GpuPlatform {
  using Runner = GpuRunner;

  static const char* BuiltFor() { return trainer::cuda::BuiltFor(); }
  static void DeviceCount(int32_t* count, Failure* failure) { CountGpus(count, failure); }
  static void Describe(int32_t device, TrainerCudaDevice* to, Failure* failure) {
    DescribeGpu(device, to, failure);
  }
  static std::unique_ptr<Runner> Open(const TrainerCudaOptions& options, Failure* failure) {
    std::shared_ptr<MemoryPool> pool = PoolOf(options, failure);
    if (!failure->ok()) return nullptr;
    return std::make_unique<Runner>(options.device, options.allow_tf32 != 0, std::move(pool));
  }
};

}  // namespace
}  // namespace trainer::cuda

extern "C" __attribute__((visibility("default"))) const TrainerCudaApi* trainer_cuda_api() {
  return trainer::cuda::PluginTable<trainer::cuda::GpuPlatform>::Get();
}
