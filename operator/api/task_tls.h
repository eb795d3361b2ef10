// Which jobs' tasks speak TLS with each other, and what of it is seen in their objects: annotation,
// Secret, volume, variable. PURE.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tfjob.h"

namespace tfjob {

// On the TFJob: "true" or "false". Without it the images decide.
inline constexpr char kAnnotationTaskTls[] = "trainyard.dev/task-tls";
inline constexpr char kTaskTlsVolume[] = "trainyard-task-tls";
inline constexpr char kTaskTlsMountPath[] = "/var/run/secrets/trainyard.dev/task-tls";

// Image repositories of the trainer, whatever registry and path stand before them.
const std::vector<std::string>& TrainerImages();

// Whether `image` is of one of `repositories`: registry, tag and digest do not matter.
bool IsImageOf(std::string_view image, const std::vector<std::string>& repositories);

// Whether a new job's tasks are to speak TLS: as its annotation says, else if it has parameter
// servers, every container `tensorflow` runs one of `images`, and nothing of its own is in the way.
bool WantsTaskTls(const TfJob& job, const std::vector<std::string>& images);

// A wrong annotation; and, of a job that asks for TLS, what of its manifest stands in the way.
std::vector<FieldError> CheckTaskTls(const TfJob& job);

// <job>-tls-<last letters of its uid>, at most 63 characters: a job of the same name that comes
// later has another one.
std::string TaskTlsSecretName(const TfJob& job);

// The pod gets the job's Secret as a volume, and its tensorflow container the mount and the
// variable.
void AddTaskTls(Json& pod, const std::string& secret, int file_mode);
bool HasTaskTls(const Json& pod);

}  // namespace tfjob
