// volumeClaimTemplates as they are written, what is wrong with them, and the volumes of a pod.
#include "operator/api/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> ClaimProblems(const Json& templates, const Json& retention = nullptr) {
  Json worker = Json::parse(
      R"({"template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}})");
  worker["volumeClaimTemplates"] = templates;
  if (!retention.is_null()) worker["persistentVolumeClaimRetentionPolicy"] = retention;
  const ParsedTfJob parsed = FromJson({{"apiVersion", kApiVersion},
                                       {"kind", kKind},
                                       {"metadata", {{"name", "j"}}},
                                       {"spec", {{"tfReplicaSpecs", {{"Worker", worker}}}}}});
  std::vector<std::string> problems;
  for (const auto& errors : {parsed.errors, parsed.warnings, Validate(parsed.job)}) {
    for (const FieldError& error : errors) problems.push_back(ToString(error));
  }
  return problems;
}

TEST(ClaimFields, AreTakenAsInAStatefulSet) {
  EXPECT_THAT(ClaimProblems(Json::parse(R"([
      {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {}},
      {"metadata": {"name": "b", "labels": {"x": "y"}}, "spec": {"storageClassName": "fast"}}])"),
                            {{"whenDeleted", "Delete"}, {"whenScaled", "Retain"}}),
              IsEmpty());
}

TEST(ClaimFields, AreRefusedWhereTheyMakeNoSense) {
  constexpr char kPath[] = "spec.tfReplicaSpecs[Worker].volumeClaimTemplates";
  EXPECT_THAT(ClaimProblems(Json::parse(R"([{"spec": {}}])")),
              ElementsAre(HasSubstr(std::string(kPath) + "[0].metadata.name: Required value")));
  EXPECT_THAT(ClaimProblems(Json::parse(R"([{"metadata": {"name": "A"}, "spec": {}}])")),
              ElementsAre(HasSubstr("metadata.name: Invalid value")));
  EXPECT_THAT(ClaimProblems(Json::parse(R"([{"metadata": {"name": "a"}, "spec": {}},
                                         {"metadata": {"name": "a"}, "spec": {}}])")),
              ElementsAre(HasSubstr("[1].metadata.name: Duplicate value")));
  EXPECT_THAT(ClaimProblems(Json::parse(R"([{"metadata": {"name": "a"}}])")),
              ElementsAre(HasSubstr("[0].spec: Required value")));
  EXPECT_THAT(ClaimProblems(Json::array(), {{"whenDeleted", "Keep"}}),
              ElementsAre(HasSubstr("whenDeleted: Unsupported value")));
}

TEST(ClaimVolumes, TakeThePlaceOfThePodsOwnOfThatName) {
  ReplicaSpec replica;
  replica.claim_templates = Json::parse(R"([{"metadata": {"name": "scratch"}, "spec": {}}])");
  Json pod = Json::parse(
      R"({"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "data"}]}})");
  AddClaims(pod, "j-worker-0", replica);
  EXPECT_EQ(pod["spec"]["volumes"], Json::parse(R"([{"name": "data"}, {"name": "scratch",
                "persistentVolumeClaim": {"claimName": "scratch-j-worker-0"}}])"));
}

TEST(ClaimVolumes, LeavePodsWithoutTemplatesAlone) {
  Json pod = Json::parse(R"({"spec": {"containers": []}})");
  const Json before = pod;
  AddClaims(pod, "j-worker-0", ReplicaSpec());
  EXPECT_EQ(pod, before);
}

}  // namespace
}  // namespace tfjob
