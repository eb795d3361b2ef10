#include "trainer/cuda/plugin/gpu.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "trainer/cuda/plugin/cublaslt.h"

namespace trainer::cuda {
namespace {

// Left to the driver, for kernels, graphs and CUDA's own needs.
constexpr int64_t kReservedBytes = int64_t{512} << 20;

std::string Version(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

// Why cudaGetDeviceCount failed.
std::string WhyNoDevices(cudaError_t status) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (status == cudaErrorInsufficientDriver && driver == 0) {
    return "no NVIDIA driver is loaded on this machine";
  }
  if (status == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver of this machine is for CUDA " + Version(driver) +
           " and the GPU plug-in for CUDA " + Version(CUDART_VERSION) +
           ": update the driver, or build the plug-in with an older CUDA Toolkit";
  }
  if (status == cudaErrorNoDevice) {
    return "the NVIDIA driver shows no GPU to this process (is CUDA_VISIBLE_DEVICES right, does "
           "the container ask for one?)";
  }
  return std::string("CUDA does not start: ") + cudaGetErrorString(status);
}

}  // namespace

const char* BuiltFor() {
  static const std::string text =
      "CUDA " + Version(CUDART_VERSION) + ", sm " + TRAINER_CUDA_ARCHITECTURES;
  return text.c_str();
}

void CheckCuda(cudaError_t status, int device, const char* what, Failure* failure) {
  if (status == cudaSuccess) return;
  const std::string where = "GPU:" + std::to_string(device) + ": ";
  if (status == cudaErrorNoKernelImageForDevice) {
    failure->Set(kTrainerCudaFailed,
                 where + "the GPU plug-in is built for " + BuiltFor() +
                     " and not for this GPU: build it with -DCMAKE_CUDA_ARCHITECTURES=… (cards "
                     "below sm_75 need a CUDA Toolkit 12)");
    return;
  }
  const bool memory = status == cudaErrorMemoryAllocation;
  failure->Set(memory ? kTrainerCudaOutOfMemory : kTrainerCudaFailed,
               where + "could not " + what + ": " + cudaGetErrorString(status));
}

void CountGpus(int32_t* count, Failure* failure) {
  int found = 0;
  const cudaError_t status = cudaGetDeviceCount(&found);
  if (status != cudaSuccess) return failure->Set(kTrainerCudaFailed, WhyNoDevices(status));
  std::string why;
  if (CublasLt::Get(&why) == nullptr) return failure->Set(kTrainerCudaFailed, why);
  *count = found;
}

void DescribeGpu(int32_t device, TrainerCudaDevice* to, Failure* failure) {
  *to = {};
  cudaDeviceProp properties = {};
  CheckCuda(cudaGetDeviceProperties(&properties, device), device, "describe it", failure);
  CheckCuda(cudaDeviceGetPCIBusId(to->pci_bus_id, sizeof to->pci_bus_id, device), device,
            "find its bus id", failure);
  size_t free = 0;
  size_t total = 0;
  CheckCuda(cudaSetDevice(device), device, "use it", failure);
  CheckCuda(cudaMemGetInfo(&free, &total), device, "ask for its memory", failure);
  if (!failure->ok()) return;
  std::snprintf(to->name, sizeof to->name, "%s", properties.name);
  for (char& c : to->pci_bus_id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  to->compute_major = properties.major;
  to->compute_minor = properties.minor;
  to->memory_total_bytes = static_cast<int64_t>(total);
  to->memory_free_bytes = static_cast<int64_t>(free);
}

std::shared_ptr<MemoryPool> PoolOf(const TrainerCudaOptions& options, Failure* failure) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<MemoryPool>> pools;
  const std::lock_guard lock(mutex);
  std::shared_ptr<MemoryPool> pool = pools[options.device].lock();
  if (pool != nullptr) return pool;
  const int device = options.device;
  size_t free = 0;
  size_t total = 0;
  CheckCuda(cudaSetDevice(device), device, "use it", failure);
  CheckCuda(cudaMemGetInfo(&free, &total), device, "ask for its memory", failure);
  if (!failure->ok()) return nullptr;
  const auto share = static_cast<int64_t>(options.memory_fraction * static_cast<double>(total));
  // Without growth all of it is taken at once, so it has to be there.
  const int64_t there = std::max<int64_t>(0, static_cast<int64_t>(free) - kReservedBytes);
  const int64_t limit = options.allow_growth != 0 ? share : std::min(share, there);
  const MemorySource source = {[device](int64_t bytes) -> void* {
                                 void* memory = nullptr;
                                 cudaSetDevice(device);
                                 if (cudaMalloc(&memory, static_cast<size_t>(bytes)) == cudaSuccess)
                                   return memory;
                                 cudaGetLastError();  // so that the next kernel does not report it
                                 return nullptr;
                               },
                               [device](void* memory) {
                                 cudaSetDevice(device);
                                 cudaFree(memory);
                               }};
  pool = std::make_shared<MemoryPool>(source, limit, options.allow_growth != 0);
  pools[device] = pool;
  return pool;
}

}  // namespace trainer::cuda
