// Parses the last part of a device name.
#include "trainer/model/device_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

absl::Status WrongName(std::string_view name) {
  return base::UsageError(
      base::StrCat("'", name, "' is not a device: write /cpu:0, or /gpu:N for GPU number N"));
}

bool IsTaskPart(absl::string_view part) {
  for (const char* prefix : {"job:", "replica:", "task:"}) {
    if (absl::StartsWith(part, prefix)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<DeviceName> ParseDeviceName(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(base::AbslView(name));
  absl::string_view rest = lower;
  if (!absl::ConsumePrefix(&rest, "/")) return WrongName(name);
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!IsTaskPart(parts[i])) return WrongName(name);
  }
  absl::string_view device = parts.back();
  absl::ConsumePrefix(&device, "device:");
  DeviceName result;
  if (absl::ConsumePrefix(&device, "gpu:")) {
    result.type = DeviceType::kGpu;
  } else if (!absl::ConsumePrefix(&device, "cpu:")) {
    return WrongName(name);
  }
  const bool is_number = !device.empty() && absl::ascii_isdigit(device[0]);
  if (!is_number || !absl::SimpleAtoi(device, &result.index)) return WrongName(name);
  return result;
}

std::string ToString(const DeviceName& device) {
  return base::StrCat(device.type == DeviceType::kCpu ? "CPU:" : "GPU:", device.index);
}

}  // namespace trainer
