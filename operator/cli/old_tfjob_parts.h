// What the conversions of all old versions share. PURE.
#pragma once

#include <string>

#include "operator/cli/old_tfjob.h"

namespace tfjob {

// job["spec"]["replicaSpecs"] of v1alpha1 as tfReplicaSpecs, with its chief, policies and ports.
// REQUIRES: job["spec"] is an object.
void ConvertV1alpha1(Conversion& conversion);

// The field's value, taken out of `object`; null where it is absent. REQUIRES: an object.
Json TakeField(Json& object, const std::string& key);

// object[key] as an object: made where it is absent, null or of another type.
Json& ObjectIn(Json& object, const std::string& key);

// spec.schedulerName as the scheduler of each template that names none (`overwrite`: of all).
void MoveSchedulerName(Conversion& conversion, bool overwrite);

// The default of the old version as spec.runPolicy.cleanPodPolicy, where that is absent.
void WriteOutCleanPodPolicy(Conversion& conversion, const char* policy);

}  // namespace tfjob
