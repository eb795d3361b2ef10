// Functions and structs as NVML's API reference gives them; its ABI is stable, and declaring the
// few that are needed keeps CUDA's headers out of the main build.
#include "trainer/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#include "base/status_macros.h"
#include "base/str_cat.h"

namespace trainer::cuda {
namespace {

using NvmlHandle = void*;  // nvmlDevice_t

struct NvmlMemory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct NvmlPciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct Nvml {
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int code);
  int (*driver_version)(char* version, unsigned int length);
  int (*count)(unsigned int* count);
  int (*handle)(unsigned int index, NvmlHandle* device);
  int (*name)(NvmlHandle device, char* name, unsigned int length);
  int (*memory)(NvmlHandle device, void* memory);  // NvmlMemory
  int (*compute_capability)(NvmlHandle device, int* major, int* minor);
  int (*pci_info)(NvmlHandle device, void* info);  // NvmlPciInfo
};

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool ResolveAll(void* library, Nvml* nvml) {
  return Resolve(library, "nvmlInit_v2", &nvml->init) &&
         Resolve(library, "nvmlShutdown", &nvml->shutdown) &&
         Resolve(library, "nvmlErrorString", &nvml->error_string) &&
         Resolve(library, "nvmlSystemGetDriverVersion", &nvml->driver_version) &&
         Resolve(library, "nvmlDeviceGetCount_v2", &nvml->count) &&
         Resolve(library, "nvmlDeviceGetHandleByIndex_v2", &nvml->handle) &&
         Resolve(library, "nvmlDeviceGetName", &nvml->name) &&
         Resolve(library, "nvmlDeviceGetMemoryInfo", &nvml->memory) &&
         Resolve(library, "nvmlDeviceGetCudaComputeCapability", &nvml->compute_capability) &&
         Resolve(library, "nvmlDeviceGetPciInfo_v3", &nvml->pci_info);
}

absl::Status Check(const Nvml& nvml, int code, std::string_view what) {
  if (code == 0) return absl::OkStatus();
  return absl::UnavailableError(
      base::StrCat("NVML could not ", what, ": ", nvml.error_string(code)));
}

// NVML writes the domain with eight digits, CUDA with four, letters in either case.
std::string ShortBusId(std::string id) {
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t colon = id.find(':');
  return colon != std::string::npos && colon > 4 ? id.substr(colon - 4) : id;
}

absl::StatusOr<NvmlDevice> DescribeDevice(const Nvml& nvml, unsigned int index) {
  NvmlHandle handle = nullptr;
  RETURN_IF_ERROR(Check(nvml, nvml.handle(index, &handle), base::StrCat("open GPU ", index)));
  NvmlDevice device;
  char name[96] = {};
  RETURN_IF_ERROR(Check(nvml, nvml.name(handle, name, sizeof name), "name a GPU"));
  device.name = name;
  NvmlMemory memory = {};
  RETURN_IF_ERROR(Check(nvml, nvml.memory(handle, &memory), "read a GPU's memory"));
  device.memory_used_bytes = static_cast<int64_t>(memory.used);
  device.memory_total_bytes = static_cast<int64_t>(memory.total);
  int major = 0;
  int minor = 0;
  RETURN_IF_ERROR(Check(nvml, nvml.compute_capability(handle, &major, &minor),
                        "read a GPU's compute capability"));
  device.compute_capability = base::StrCat(major, ".", minor);
  NvmlPciInfo pci = {};
  RETURN_IF_ERROR(Check(nvml, nvml.pci_info(handle, &pci), "read a GPU's bus id"));
  device.pci_bus_id = ShortBusId(pci.bus_id);
  return device;
}

absl::StatusOr<NvmlDevices> AskInitialised(const Nvml& nvml) {
  NvmlDevices found;
  char driver[80] = {};
  RETURN_IF_ERROR(Check(nvml, nvml.driver_version(driver, sizeof driver), "read the driver"));
  found.driver = driver;
  unsigned int count = 0;
  RETURN_IF_ERROR(Check(nvml, nvml.count(&count), "count the GPUs"));
  for (unsigned int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(NvmlDevice device, DescribeDevice(nvml, i));
    found.devices.push_back(std::move(device));
  }
  return found;
}

}  // namespace

absl::StatusOr<NvmlDevices> AskNvml(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::NotFoundError(dlerror());
  Nvml nvml = {};
  if (!ResolveAll(handle, &nvml)) {
    return absl::UnavailableError(base::StrCat(library, " is too old"));
  }
  RETURN_IF_ERROR(Check(nvml, nvml.init(), "start"));
  absl::StatusOr<NvmlDevices> found = AskInitialised(nvml);
  nvml.shutdown();
  return found;
}

}  // namespace trainer::cuda
