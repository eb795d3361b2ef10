// For tests: a libnvidia-ml.so.1 with the two GPUs of the fake plug-in, found through
// LD_LIBRARY_PATH. FAKE_NVML=broken: it does not start.
#include <cstdio>
#include <cstdlib>

namespace {

char gpus[2];  // whose addresses are the handles

int IndexOf(const void* device) {
  return static_cast<int>(static_cast<const char*>(device) - gpus);
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return std::getenv("FAKE_NVML") == nullptr ? 0 : 9; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int /*code*/) { return "Driver Not Loaded"; }

int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  std::snprintf(version, length, "580.00.01");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
  std::snprintf(name, length, "Fake GPU %d", IndexOf(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* /*device*/, void* memory) {
  auto* const total_free_used = static_cast<unsigned long long*>(memory);
  total_free_used[0] = 80ull << 30;
  total_free_used[1] = 79ull << 30;
  total_free_used[2] = 1ull << 30;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  constexpr int kBusId = 16 + 5 * 4;  // behind the legacy id and five numbers
  std::snprintf(static_cast<char*>(info) + kBusId, 32, "00000000:%02X:00.0", IndexOf(device) + 1);
  return 0;
}

}  // extern "C"
