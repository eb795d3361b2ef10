#include "operator/api/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/json_read.h"

namespace tfjob {
namespace {

using Json = nlohmann::json;

constexpr double kMaxStep = 9e18;
constexpr double kMaxEtaSeconds = 1e10;

std::optional<double> Number(const Json& object, std::string_view key) {
  const Json& value = base::At(object, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

int64_t Step(const Json& object, std::string_view key) {
  const Json& value = base::At(object, key);
  if (value.is_number_integer() && value <= kMaxStep) {
    return std::max<int64_t>(0, value.get<int64_t>());
  }
  return static_cast<int64_t>(std::clamp(Number(object, key).value_or(0), 0.0, kMaxStep));
}

std::optional<double> SixDigits(std::optional<double> number) {
  if (!number) return std::nullopt;
  return std::strtod(absl::StrFormat("%.6g", *number).c_str(), nullptr);
}

std::optional<int64_t> Seconds(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return std::llround(std::clamp(*seconds, 0.0, kMaxEtaSeconds));
}

}  // namespace

std::optional<Progress> ParseProgress(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!Number(object, "global_step")) return std::nullopt;
  return Progress{.global_step = Step(object, "global_step"),
                  .last_step = Step(object, "last_step"),
                  .loss = SixDigits(Number(object, "loss")),
                  .examples_per_sec = SixDigits(Number(object, "examples_per_sec")),
                  .eta_seconds = Seconds(Number(object, "eta_seconds"))};
}

std::string ProgressSummary(const Progress& progress) {
  if (progress.last_step <= 0) return absl::StrCat("step ", progress.global_step);
  const double done = static_cast<double>(progress.global_step) / progress.last_step;
  const int percent =
      progress.global_step >= progress.last_step ? 100 : std::min(99, static_cast<int>(100 * done));
  return absl::StrCat(progress.global_step, "/", progress.last_step, " ", percent, "%");
}

Json ProgressStatusToJson(const ProgressStatus& progress) {
  const Progress& read = progress.read;
  Json out = {{"summary", ProgressSummary(read)},
              {"globalStep", read.global_step},
              {"lastUpdateTime", base::TimeText(progress.last_update_time)},
              {"lastStepTime", base::TimeText(progress.last_step_time)}};
  if (read.last_step > 0) out["lastStep"] = read.last_step;
  if (read.loss) out["loss"] = *read.loss;
  if (read.examples_per_sec) out["examplesPerSecond"] = *read.examples_per_sec;
  if (read.eta_seconds) out["etaSeconds"] = *read.eta_seconds;
  return out;
}

std::optional<ProgressStatus> ProgressStatusFromJson(const Json& json) {
  if (!Number(json, "globalStep")) return std::nullopt;
  ProgressStatus out{.read = {.global_step = Step(json, "globalStep"),
                              .last_step = Step(json, "lastStep"),
                              .loss = Number(json, "loss"),
                              .examples_per_sec = Number(json, "examplesPerSecond"),
                              .eta_seconds = Seconds(Number(json, "etaSeconds"))}};
  out.last_update_time = base::TimeAt(json, "lastUpdateTime").value_or(absl::Time());
  out.last_step_time = base::TimeAt(json, "lastStepTime").value_or(out.last_update_time);
  return out;
}

}  // namespace tfjob
