#include "operator/api/claims.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/network.h"

namespace tfjob {
namespace {

constexpr char kTemplates[] = "volumeClaimTemplates";
constexpr char kRetention[] = "persistentVolumeClaimRetentionPolicy";

std::string NameOf(const Json& claim) {
  return base::StringAt(base::At(claim, "metadata"), "name");
}

void CheckRetention(const std::string& path, const std::string& value,
                    std::vector<FieldError>& errors) {
  if (value.empty() || value == kRetain || value == kDelete) return;
  errors.push_back({path, absl::StrCat("\"", value, "\": must be one of ", kRetain, ", ", kDelete),
                    "Unsupported value"});
}

}  // namespace

void ReadClaims(ObjectReader& replica, ReplicaSpec& out) {
  for (ObjectReader& claim : replica.Objects(kTemplates)) {
    claim.Object("metadata");
    claim.Object("spec");
    claim.Know({"apiVersion", "kind", "status"});  // as kubectl writes a StatefulSet's
    claim.WarnUnknown();
  }
  if (const Json* templates = replica.Raw(kTemplates);
      templates != nullptr && templates->is_array() && !templates->empty()) {
    out.claim_templates = *templates;
  }
  ObjectReader retention = replica.Object(kRetention);
  out.claims_when_deleted = retention.String("whenDeleted");
  out.claims_when_scaled = retention.String("whenScaled");
  retention.WarnUnknown();
}

void ClaimsToJson(const ReplicaSpec& replica, Json& out) {
  if (!replica.claim_templates.is_null()) out[kTemplates] = replica.claim_templates;
  if (!replica.claims_when_deleted.empty()) {
    out[kRetention]["whenDeleted"] = replica.claims_when_deleted;
  }
  if (!replica.claims_when_scaled.empty()) {
    out[kRetention]["whenScaled"] = replica.claims_when_scaled;
  }
}

void CheckClaims(const std::string& path, const ReplicaSpec& replica,
                 std::vector<FieldError>& errors) {
  std::set<std::string> names;
  for (size_t i = 0; i < replica.claim_templates.size(); ++i) {
    const Json& claim = replica.claim_templates[i];
    const std::string at = absl::StrCat(path, ".", kTemplates, "[", i, "]");
    const std::string name = NameOf(claim);
    if (!IsDns1035Label(name)) {
      errors.push_back({at + ".metadata.name",
                        absl::StrCat("\"", name,
                                     "\": must be a DNS-1035 label, as the volume in "
                                     "the pod has this name"),
                        name.empty() ? "Required value" : "Invalid value"});
    } else if (!names.insert(name).second) {
      errors.push_back({at + ".metadata.name", absl::StrCat("\"", name, "\""), "Duplicate value"});
    }
    if (!base::At(claim, "spec").is_object()) {
      errors.push_back({at + ".spec",
                        "must be given, e.g. {accessModes: [ReadWriteOnce], resources: {requests: "
                        "{storage: 10Gi}}}",
                        "Required value"});
    }
  }
  const std::string retention = absl::StrCat(path, ".", kRetention);
  CheckRetention(retention + ".whenDeleted", replica.claims_when_deleted, errors);
  CheckRetention(retention + ".whenScaled", replica.claims_when_scaled, errors);
}

std::vector<std::string> ClaimTemplateNames(const ReplicaSpec& replica) {
  std::vector<std::string> names;
  for (const Json& claim : replica.claim_templates) names.push_back(NameOf(claim));
  return names;
}

std::string ClaimName(std::string_view claim_template, std::string_view pod) {
  return absl::StrCat(std::string(claim_template), "-", std::string(pod));
}

void AddClaims(Json& pod, const std::string& name, const ReplicaSpec& replica) {
  if (replica.claim_templates.empty()) return;
  const std::vector<std::string> templates = ClaimTemplateNames(replica);
  Json& volumes = pod["spec"]["volumes"];
  Json kept = Json::array();
  for (Json& volume : volumes) {
    const std::string own = base::StringAt(volume, "name");
    if (std::find(templates.begin(), templates.end(), own) != templates.end()) continue;
    kept.push_back(std::move(volume));
  }
  for (const std::string& claim : templates) {
    kept.push_back(
        {{"name", claim}, {"persistentVolumeClaim", {{"claimName", ClaimName(claim, name)}}}});
  }
  volumes = std::move(kept);
}

}  // namespace tfjob
