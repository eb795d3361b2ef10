// What is known of the fields of a pod template: wrong types that the API server would refuse, and
// field names that it does not know. Values themselves pass through untouched.
#pragma once

#include "operator/api/object_reader.h"

namespace tfjob {

// Notes problems of a PodTemplateSpec in the reader's result.
void CheckPodTemplate(ObjectReader pod_template);

}  // namespace tfjob
