#include "trainer/devices/choose_backend.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cpu/cpu_backend.h"
#include "trainer/cuda/cuda_backend.h"

namespace trainer {
namespace {

// Where layers go that do not say: the task's own GPU; the CPU where there is none and nobody
// asked.
DeviceName DefaultDevice(const std::vector<int>& usable, const DeviceChoice& choice) {
  if (!usable.empty()) {
    const auto turn = static_cast<size_t>(std::max(0, choice.task_index));
    return {DeviceType::kGpu, usable[turn % usable.size()]};
  }
  return {choice.num_gpus > 0 ? DeviceType::kGpu : DeviceType::kCpu, 0};
}

// `wanted` GPUs, the model's own first; as many as there are where there are fewer.
std::vector<int> TowerGpus(std::vector<int> usable, int first, int wanted) {
  std::rotate(usable.begin(), std::find(usable.begin(), usable.end(), first), usable.end());
  usable.resize(std::min(usable.size(), static_cast<size_t>(std::max(1, wanted))));
  return usable;
}

}  // namespace

absl::StatusOr<Chosen> ChooseBackend(const Model& model, const DeviceInventory& inventory,
                                     const DeviceChoice& choice) {
  if (choice.require_gpu) RETURN_IF_ERROR(RequireGpu(inventory));
  const std::vector<int> usable = inventory.UsableGpus();
  Chosen chosen;
  ASSIGN_OR_RETURN(chosen.placements, PlaceLayers(model, inventory, DefaultDevice(usable, choice),
                                                  choice.allow_soft_placement));
  if (chosen.placements.device.type == DeviceType::kCpu) {
    chosen.backend = MakeCpuBackend();
    return chosen;
  }
  chosen.gpus = TowerGpus(usable, chosen.placements.device.index, choice.num_gpus);
  if (choice.num_gpus > static_cast<int>(chosen.gpus.size())) {
    chosen.placements.warnings.push_back(base::StrCat("--num_gpus=", choice.num_gpus,
                                                      ": its towers share the ", chosen.gpus.size(),
                                                      " usable here"));
  }
  chosen.backend = MakeCudaBackend(inventory.plugin, {.devices = chosen.gpus,
                                                      .memory_fraction = choice.memory_fraction,
                                                      .allow_growth = choice.allow_growth,
                                                      .allow_tf32 = choice.allow_tf32});
  return chosen;
}

}  // namespace trainer
