// How a job says whom to ask for its progress: spec.progress, and a container port named
// `progress`. PURE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/object_reader.h"
#include "operator/api/tfjob.h"

namespace tfjob {

inline constexpr int kDefaultProgressSeconds = 10;
inline constexpr int kMinProgressSeconds = 10;
inline constexpr int kMinStallSeconds = 60;

// The key in spec.tfReplicaSpecs of the replica type whose first pod reports: Chief or Master if
// the job has one, else Worker; "" if it has none of them.
std::string ReporterType(const TfJobSpec& spec);
// The port on which that pod serves /progress; nullopt if the job names none.
std::optional<int> ProgressPort(const TfJobSpec& spec);

std::optional<ProgressSpec> ReadProgressSpec(ObjectReader progress);
Json ProgressSpecToJson(const ProgressSpec& progress);
// Appends what is wrong with spec.progress.
void CheckProgressSpec(const ProgressSpec& progress, std::vector<FieldError>& errors);
// Why nobody can be asked though the job has spec.progress; "" if somebody can.
std::string WhyNoProgressPort(const TfJobSpec& spec);

}  // namespace tfjob
