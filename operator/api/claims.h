// A volume of its own for each replica, as in a StatefulSet: volumeClaimTemplates and
// persistentVolumeClaimRetentionPolicy of a replica type. PURE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object_reader.h"
#include "operator/api/tfjob.h"

namespace tfjob {

void ReadClaims(ObjectReader& replica, ReplicaSpec& out);
void ClaimsToJson(const ReplicaSpec& replica, Json& out);

// Each template has a name of its own and a spec. `path` is the replica's.
void CheckClaims(const std::string& path, const ReplicaSpec& replica,
                 std::vector<FieldError>& errors);

// The names of the templates, in their order.
std::vector<std::string> ClaimTemplateNames(const ReplicaSpec& replica);
// <template>-<pod>, as a StatefulSet names them.
std::string ClaimName(std::string_view claim_template, std::string_view pod);

// The pod gets a volume of each template's name, in place of one of its own of that name.
void AddClaims(Json& pod, const std::string& name, const ReplicaSpec& replica);

}  // namespace tfjob
