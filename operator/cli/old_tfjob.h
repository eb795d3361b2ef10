// TFJobs of versions before kubeflow.org/v1 (and of v1 as tf-operator up to 1.0 read it) as v1 that
// means the same. PURE.
#pragma once

#include <string>
#include <vector>

#include "operator/api/tfjob.h"

namespace tfjob {

// What became of one field, or what is wrong with it. `path` is the field's in the old manifest.
struct ConversionNote {
  std::string path;
  std::string message;
  bool operator==(const ConversionNote&) const = default;
};

struct Conversion {
  Json job;  // kubeflow.org/v1; as it was given where nothing had to change
  std::vector<ConversionNote> notes;   // what was changed, or cannot be kept and what to do
  std::vector<ConversionNote> errors;  // not empty: a form that is not known, and `job` is useless
};

// An apiVersion before kubeflow.org/v1.
bool IsOldVersion(const std::string& api_version);

// A TFJob of any version, in the spellings TFJob and TfJob of its kind.
bool IsAnyTfJob(const Json& object);

// REQUIRES: IsAnyTfJob(job). Total: never fails otherwise. Says nothing about what v1 knows as well
// and refuses (see Validate).
Conversion ConvertTfJob(const Json& job);

}  // namespace tfjob
