// testdata/convert: NAME.yaml is a manifest of an old version, NAME.v1.yaml what it becomes, and
// NAME.notes.txt what is said about it. After a wanted change run with UPDATE_GOLDENS=1 and read
// the difference.
#include "operator/cli/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "operator/cli/manifest.h"
#include "operator/cli/old_tfjob.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kFolder[] = "operator/cli/testdata/convert/";

struct Converted {
  int code = -1;
  std::string out;
  std::string err;
};

Converted ConvertPath(const std::string& path, const std::string& output = "yaml") {
  std::ostringstream out;
  std::ostringstream err;
  const int code = ConvertFile({.manifest = path, .output = output}, out, err);
  return {code, out.str(), err.str()};
}

Converted ConvertText(const std::string& text, const std::string& output = "yaml") {
  // Tests run side by side, each a process of its own.
  const std::string path = absl::StrCat(::testing::TempDir(), "/old-", getpid(), ".yaml");
  std::ofstream(path) << text;
  return ConvertPath(path, output);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void ExpectGolden(const std::string& path, const std::string& text) {
  if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(text, ReadText(path)) << path;
}

class Golden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Convert, Golden,
                         ::testing::Values("v1alpha1", "v1alpha1-defaults", "v1alpha1-worker-chief",
                                           "v1alpha2", "v1beta1", "v1beta2", "v1-flat", "several"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Golden, BecomesWhatIsOnRecord) {
  const std::string stem = std::string(kFolder) + GetParam();
  const Converted converted = ConvertPath(stem + ".yaml");
  EXPECT_EQ(converted.code, 0) << converted.err;
  ExpectGolden(stem + ".v1.yaml", converted.out);
  ExpectGolden(stem + ".notes.txt", converted.err);
}

TEST_P(Golden, IsValidAndNeedsNoSecondConversion) {
  const std::string path = std::string(kFolder) + GetParam() + ".v1.yaml";
  const auto manifests = ReadManifests(path);
  ASSERT_TRUE(manifests.ok()) << manifests.status();
  for (const Manifest& manifest : *manifests) {
    if (!IsAnyTfJob(manifest.json)) continue;
    const Diagnosis diagnosis = Diagnose(manifest);
    EXPECT_THAT(diagnosis.errors, IsEmpty());
    EXPECT_THAT(diagnosis.warnings, IsEmpty());
  }
  const Converted again = ConvertPath(path);
  EXPECT_EQ(again.out, ReadText(path));
  EXPECT_EQ(again.err, "");
}

TEST(Convert, IsWhatValidateAdvisesForOldVersions) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(ValidateFiles({std::string(kFolder) + "v1beta1.yaml"}, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("v1beta1.yaml:1: apiVersion: \"kubeflow.org/v1beta1\": must be "
                                   "kubeflow.org/v1; `trainyard convert` rewrites it"));
}

TEST(Convert, PrintsJsonToo) {
  const Converted one = ConvertPath(std::string(kFolder) + "v1beta2.yaml", "json");
  EXPECT_EQ(Json::parse(one.out)["spec"]["runPolicy"].dump(),
            R"({"activeDeadlineSeconds":86400,"backoffLimit":6,"cleanPodPolicy":"Running"})");
  const Json several = Json::parse(ConvertPath(std::string(kFolder) + "several.yaml", "json").out);
  EXPECT_EQ(several["kind"], "List");
  EXPECT_EQ(several["items"].size(), 4u);
}

TEST(Convert, ReadsJsonAndListsOfTheOldKind) {
  const Converted converted = ConvertText(
      R"({"apiVersion": "kubeflow.org/v1beta1", "kind": "TFJobList", "items": [{"metadata": )"
      R"({"name": "j"}, "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": )"
      R"({"containers": [{"name": "tensorflow", "image": "i"}]}}}}}}]})",
      "json");
  EXPECT_EQ(converted.code, 0) << converted.err;
  const Json list = Json::parse(converted.out);
  EXPECT_EQ(list["apiVersion"], "kubeflow.org/v1");
  EXPECT_EQ(list["items"][0]["apiVersion"], "kubeflow.org/v1");
  EXPECT_EQ(list["items"][0]["spec"]["runPolicy"]["cleanPodPolicy"], "Running");
}

constexpr char kContainers[] = "template: {spec: {containers: [{name: tensorflow, image: i}]}}";

// A v1alpha1 job with these lines of spec.
std::string ListForm(const std::string& spec) {
  return absl::StrCat(
      "kind: ConfigMap\n---\napiVersion: kubeflow.org/v1alpha1\nkind: TFJob\n"
      "metadata: {name: j}\nspec: {",
      spec, "}\n");
}

TEST(Convert, RefusesWhatItDoesNotKnowAndPrintsNothing) {
  const std::string good = absl::StrCat("{tfReplicaType: MASTER, ", kContainers, "}");
  const struct {
    std::string text;
    std::string error;
  } kTable[] = {
      {"kind: TFJob\napiVersion: kubeflow.org/v2\nspec: {}\n",
       ":2: document 1: apiVersion: \"kubeflow.org/v2\" is no version of TFJob that is known"},
      {"kind: TFJob\nspec: {}\n", "document 1: apiVersion: \"\" is no version"},
      {"kind: TFJob\napiVersion: kubeflow.org/v1beta1\n", "spec: must be an object, not null"},
      {ListForm("replicaSpecs: {MASTER: {}}"),
       ":6: document 2: spec.replicaSpecs: must be a list, not an object"},
      {ListForm(absl::StrCat("replicaSpecs: [", good, ", {tfReplicaType: COORDINATOR}]")),
       "spec.replicaSpecs[1].tfReplicaType: \"COORDINATOR\": must be MASTER, PS or WORKER"},
      {ListForm(absl::StrCat("replicaSpecs: [", good, ", ", good, "]")),
       "spec.replicaSpecs[1].tfReplicaType: MASTER is there twice"},
      {ListForm(absl::StrCat("replicaSpecs: [", good, ", {tfReplicaType: PS}]")),
       "spec.replicaSpecs[1].template: has no spec: the old operator ran a program of its own"},
      {ListForm("replicaSpecs: [3]"), "spec.replicaSpecs[0]: must be an object, not an integer"},
      {ListForm("replicaSpecs: []"), "spec.tfReplicaSpecs: "},
      {ListForm(absl::StrCat("replicaSpecs: [{tfPort: http, ", kContainers, "}]")),
       "spec.replicaSpecs[0].tfPort: must be an integer, not a string"},
      {"apiVersion: kubeflow.org/v1beta2\nkind: TFJob\nmetadata: {name: j}\nspec:\n"
       "  tfReplicaSpecs:\n    PS: {}\n    Ps: {}\n",
       ":7: document 1: spec.tfReplicaSpecs[Ps]: is the same type as PS; leave one of the two"},
      {"apiVersion: kubeflow.org/v1beta2\nkind: TFJob\nmetadata: {name: j}\nspec:\n"
       "  tfReplicaSpecs:\n    Worker: {restartPolicy: Sometimes}\n",
       ":6: document 1: spec.tfReplicaSpecs[Worker].restartPolicy: \"Sometimes\""},
  };
  for (const auto& row : kTable) {
    for (const char* output : {"yaml", "json"}) {
      const Converted converted = ConvertText(row.text, output);
      EXPECT_EQ(converted.code, 2) << row.text;
      EXPECT_EQ(converted.out, "") << row.text;
      EXPECT_THAT(converted.err, HasSubstr(row.error)) << row.text;
    }
  }
  EXPECT_THAT(ConvertText("").err, HasSubstr(".yaml:1: it is empty"));
  EXPECT_THAT(ConvertText("a: [\n").err, HasSubstr(".yaml:"));
  EXPECT_THAT(ConvertPath("/no/such.yaml").err, HasSubstr("cannot read it: No such file"));
}

// The notes of a v1alpha1 job that begin with this path.
std::vector<std::string> NotesAt(const std::string& path, const std::string& spec) {
  const auto manifests = ParseManifests("f.yaml", ListForm(spec));
  EXPECT_TRUE(manifests.ok()) << manifests.status();
  std::vector<std::string> out;
  for (const ConversionNote& note : ConvertTfJob(manifests->back().json).notes) {
    if (note.path == path) out.push_back(note.message);
  }
  return out;
}

TEST(Convert, SaysWhichEndsOfAJobItCannotKeep) {
  const auto entry = [](const char* type) {
    return absl::StrCat("{tfReplicaType: ", type, ", ", kContainers, "}");
  };
  const auto chief = [&](const char* chief_type, const std::string& entries) {
    return NotesAt("spec.terminationPolicy.chief",
                   absl::StrCat("terminationPolicy: {chief: {replicaName: ", chief_type,
                                ", replicaIndex: 0}}, replicaSpecs: [", entries, "]"));
  };
  EXPECT_THAT(chief("MASTER", entry("MASTER")), ElementsAre(StartsWith("dropped: v1 takes")));
  EXPECT_THAT(chief("WORKER", entry("WORKER")),
              ElementsAre("dropped: v1 takes the end of worker 0 for the job's by itself"));
  EXPECT_THAT(chief("WORKER", entry("WORKER") + "," + entry("MASTER")),
              ElementsAre(HasSubstr("cannot be kept: in v1 the Master ends the job")));
  EXPECT_THAT(chief("PS", entry("PS")), ElementsAre(HasSubstr("add one")));
  EXPECT_THAT(NotesAt("spec", absl::StrCat("replicaSpecs: [", entry("WORKER"), "]")),
              testing::Contains(HasSubstr("there is none: in v1 worker 0 ends the job")));
}

TEST(Convert, LeavesAnyV1JobWithoutOldFieldsAsItIs) {
  const std::string text =
      "# mine\napiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: j, uid: x}\nspec:\n"
      "  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: "
      "i}]}}}}\n"
      "status: {startTime: \"2026-01-01T00:00:00Z\"}  # now\n";
  const Converted converted = ConvertText(text);
  EXPECT_EQ(converted.out, text);
  EXPECT_EQ(converted.err, "");
}

}  // namespace
}  // namespace tfjob
