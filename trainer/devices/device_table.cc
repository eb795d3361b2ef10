// What `trainer devices` prints.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/devices/inventory.h"

namespace trainer {
namespace {

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Padded(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string CheckText(const DeviceInfo& info) {
  if (!info.tried) return "not tried";
  return info.check.ok() ? "[2,4,6]" : std::string(info.check.message());
}

}  // namespace

std::string MemoryText(const DeviceInfo& info) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return absl::StrFormat("%.1f/%.1f GiB", static_cast<double>(info.memory_used_bytes) / kGib,
                         static_cast<double>(info.memory_total_bytes) / kGib);
}

std::string DeviceTable(const DeviceInventory& inventory) {
  std::vector<std::vector<std::string>> rows = {{"DEVICE", "NAME", "CORES", "MEMORY USED/TOTAL",
                                                 "COMPUTE CAPABILITY", "DRIVER",
                                                 "[1,2,3]+[1,2,3]"}};
  for (const DeviceInfo& info : inventory.devices) {
    rows.push_back({ToString(info.device), info.name,
                    info.cores > 0 ? std::to_string(info.cores) : "-", MemoryText(info),
                    OrDash(info.compute_capability), OrDash(info.driver), CheckText(info)});
  }
  std::string text = Padded(rows);
  if (!inventory.no_gpu_reason.empty()) {
    text += base::StrCat("no usable GPU: ", inventory.no_gpu_reason, "\n");
  }
  return text;
}

int DevicesMain(bool require_gpu, const DeviceEnvironment& environment) {
  const DeviceInventory inventory = FindDevices(environment);
  std::fputs(DeviceTable(inventory).c_str(), stdout);
  if (const absl::Status status = RequireGpu(inventory); require_gpu && !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return base::ExitCodeFor(status);
  }
  const bool all_work = std::all_of(inventory.devices.begin(), inventory.devices.end(),
                                    [](const DeviceInfo& info) { return info.check.ok(); });
  return all_work ? base::kExitOk : base::kExitFailure;
}

}  // namespace trainer
