// How far a training is, as its chief tells it by GET /progress. PURE and total.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace tfjob {

// What the trainer's /progress says; a program of the user may serve the same.
struct Progress {
  int64_t global_step = 0;
  int64_t last_step = 0;  // 0: unknown
  std::optional<double> loss;
  std::optional<double> examples_per_sec;
  std::optional<int64_t> eta_seconds;
  bool operator==(const Progress&) const = default;
};

// From {"global_step":…,"last_step":…,"loss":…,"examples_per_sec":…,"eta_seconds":…}, of which only
// the first must be there; nullopt if it is no such object. Numbers are rounded to what people
// read: six digits, whole seconds.
std::optional<Progress> ParseProgress(std::string_view json);

// "500/1000 50%", never 100% before the end; "step 500" where the end is unknown.
std::string ProgressSummary(const Progress& progress);

// What a job's status keeps of it.
struct ProgressStatus {
  Progress read;
  absl::Time last_update_time;  // when it was first read so
  absl::Time last_step_time;    // when its step was first read
  bool operator==(const ProgressStatus&) const = default;
};
nlohmann::json ProgressStatusToJson(const ProgressStatus& progress);
// nullopt if it is no such object.
std::optional<ProgressStatus> ProgressStatusFromJson(const nlohmann::json& json);

}  // namespace tfjob
