#include "operator/api/task_tls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/task_tls.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

constexpr char kYes[] = "true";
constexpr char kNo[] = "false";
constexpr size_t kMaxName = 63;
constexpr size_t kUidLetters = 8;

std::string AnnotationOf(const TfJob& job) {
  const auto found = job.metadata.annotations.find(kAnnotationTaskTls);
  return found == job.metadata.annotations.end() ? "" : found->second;
}

void Conflict(const std::string& path, const std::string& what, std::vector<FieldError>& out) {
  out.push_back(
      {path,
       absl::StrCat(what, ", which TLS between tasks (annotation ", kAnnotationTaskTls,
                    ") needs for itself; rename it or set the annotation to \"", kNo, "\""),
       "Forbidden"});
}

// A container's own variable, mount or probe that would be in the way.
void CheckContainer(const Json& container, const std::string& path, std::vector<FieldError>& out) {
  const bool is_task = base::StringAt(container, "name") == kContainerName;
  const Json& mounts = base::ArrayAt(container, "volumeMounts");
  for (size_t i = 0; i < mounts.size(); ++i) {
    if (base::StringAt(mounts[i], "mountPath") != kTaskTlsMountPath) continue;
    Conflict(absl::StrCat(path, ".volumeMounts[", i, "].mountPath"), "is where the Secret goes",
             out);
  }
  if (!is_task) return;
  const Json& env = base::ArrayAt(container, "env");
  for (size_t i = 0; i < env.size(); ++i) {
    if (base::StringAt(env[i], "name") != base::kTaskTlsDirEnv) continue;
    Conflict(absl::StrCat(path, ".env[", i, "].name"),
             absl::StrCat("is the variable ", base::kTaskTlsDirEnv), out);
  }
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    if (base::At(base::At(container, probe), "grpc").is_null()) continue;
    out.push_back({absl::StrCat(path, ".", probe, ".grpc"),
                   absl::StrCat("the kubelet cannot ask a task that speaks TLS (annotation ",
                                kAnnotationTaskTls,
                                "); ask /healthz of its --metrics_port by httpGet instead"),
                   "Forbidden"});
  }
}

std::vector<FieldError> Conflicts(const TfJob& job) {
  std::vector<FieldError> out;
  if (!job.spec.replicas) return out;
  for (const auto& [type, replica] : *job.spec.replicas) {
    const std::string path = absl::StrCat("spec.tfReplicaSpecs[", type, "].template.spec");
    const Json& spec = base::At(replica.pod_template, "spec");
    const Json& volumes = base::ArrayAt(spec, "volumes");
    for (size_t i = 0; i < volumes.size(); ++i) {
      if (base::StringAt(volumes[i], "name") != kTaskTlsVolume) continue;
      Conflict(absl::StrCat(path, ".volumes[", i, "].name"), "is the name of the Secret's volume",
               out);
    }
    for (const char* list : {"initContainers", "containers"}) {
      const Json& containers = base::ArrayAt(spec, list);
      for (size_t i = 0; i < containers.size(); ++i) {
        CheckContainer(containers[i], absl::StrCat(path, ".", list, "[", i, "]"), out);
      }
    }
  }
  return out;
}

// A foreign program could not talk to a trainer that speaks TLS.
bool RunsOnly(const TfJob& job, const std::vector<std::string>& images) {
  return std::all_of(job.spec.replicas->begin(), job.spec.replicas->end(), [&](const auto& entry) {
    const Json& pod_template = entry.second.pod_template;
    const std::optional<size_t> task = TensorflowContainer(pod_template);
    return task &&
           IsImageOf(base::StringAt(pod_template["spec"]["containers"][*task], "image"), images);
  });
}

Json& ListAt(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_array()) value = Json::array();
  return value;
}

}  // namespace

const std::vector<std::string>& TrainerImages() {
  static const auto* const images =
      new std::vector<std::string>{"trainyard/trainer", "trainyard-trainer"};
  return *images;
}

bool IsImageOf(std::string_view image, const std::vector<std::string>& repositories) {
  image = image.substr(0, image.find('@'));
  const size_t slash = image.rfind('/');
  const size_t colon = image.rfind(':');
  // A colon before the last slash belongs to the registry's port.
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
    image = image.substr(0, colon);
  }
  const std::string path = absl::StrCat("/", std::string(image));
  return std::any_of(repositories.begin(), repositories.end(), [&](const std::string& repository) {
    return path.ends_with("/" + repository);
  });
}

bool WantsTaskTls(const TfJob& job, const std::vector<std::string>& images) {
  const std::string annotation = AnnotationOf(job);
  if (!annotation.empty()) return annotation == kYes;
  return ReplicaCount(job.spec, kPs) > 0 && RunsOnly(job, images) && Conflicts(job).empty();
}

std::vector<FieldError> CheckTaskTls(const TfJob& job) {
  const std::string annotation = AnnotationOf(job);
  if (annotation == kYes) return Conflicts(job);
  if (annotation.empty() || annotation == kNo) return {};
  return {{absl::StrCat("metadata.annotations[", kAnnotationTaskTls, "]"),
           absl::StrCat("\"", annotation, "\": must be \"", kYes, "\" or \"", kNo, "\""),
           "Unsupported value"}};
}

std::string TaskTlsSecretName(const TfJob& job) {
  std::string end = "-tls";
  const std::string& uid = job.metadata.uid;
  if (!uid.empty()) {
    absl::StrAppend(&end, "-", uid.substr(uid.size() - std::min(uid.size(), kUidLetters)));
  }
  std::string name = job.metadata.name.substr(0, kMaxName - end.size());
  while (name.ends_with('-')) name.pop_back();
  return name + end;
}

void AddTaskTls(Json& pod, const std::string& secret, int file_mode) {
  const std::optional<size_t> task = TensorflowContainer(pod);
  if (!task) return;
  Json& spec = pod["spec"];
  ListAt(spec, "volumes")
      .push_back({{"name", kTaskTlsVolume},
                  {"secret", {{"secretName", secret}, {"defaultMode", file_mode}}}});
  Json& container = spec["containers"][*task];
  ListAt(container, "volumeMounts")
      .push_back({{"name", kTaskTlsVolume}, {"mountPath", kTaskTlsMountPath}, {"readOnly", true}});
  Json& env = ListAt(container, "env");
  env.insert(env.begin(), Json{{"name", base::kTaskTlsDirEnv}, {"value", kTaskTlsMountPath}});
}

bool HasTaskTls(const Json& pod) {
  const Json& volumes = base::ArrayAt(base::At(pod, "spec"), "volumes");
  return std::any_of(volumes.begin(), volumes.end(), [](const Json& volume) {
    return base::StringAt(volume, "name") == kTaskTlsVolume &&
           base::At(volume, "secret").is_object();
  });
}

}  // namespace tfjob
