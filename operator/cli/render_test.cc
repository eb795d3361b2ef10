#include "operator/cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "operator/cli/to_yaml.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] = R"yaml(apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: j
spec:
  backoffLimit: 3
  runPolicy: {suspend: true}
  tfReplicaSpecs:
    Worker:
      restartPolicy: ExitCode
      template:
        spec:
          restartPolicy: Always
          containers:
          - name: tensorflow
            image: i
            args: ["--ps_hosts=$(PS_HOSTS)"]
    PS:
      template:
        spec:
          contaners: []
          containers: [{name: tensorflow, image: i}]
)yaml";

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Validate, ReportsGoodJobsAndWarnings) {
  const std::string path = WriteFile("good.yaml", kJob);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(ValidateFiles({path}, out, err), 0);
  EXPECT_EQ(out.str(), path + ": TFJob j is valid: 1 PS, 1 Worker\n");
  const std::string worker = "spec.tfReplicaSpecs[Worker]";
  EXPECT_EQ(err.str(),
            path +
                ":6: warning: spec.backoffLimit: belongs in spec.runPolicy.backoffLimit; taken as "
                "if it stood there\n" +
                path + ":13: warning: " + worker +
                ".template.spec.restartPolicy: is overwritten by " + worker + ".restartPolicy\n" +
                path +
                ":21: warning: spec.tfReplicaSpecs[PS].template.spec.contaners: unknown field; did "
                "you mean \"containers\"?\n");
}

TEST(Validate, NamesTheLineOfAnAnnotationThatIsNeitherTrueNorFalse) {
  std::string text = kJob;
  text.replace(text.find("  name: j\n"), 10,
               "  name: j\n  annotations:\n    trainyard.dev/task-tls: 'on'\n");
  const std::string path = WriteFile("on.yaml", text);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(ValidateFiles({path}, out, err), 2);
  EXPECT_THAT(err.str(), StartsWith(path + ":6: metadata.annotations[trainyard.dev/task-tls]: "));
}

TEST(Render, ShowsTheTasksSecretWithoutItsData) {
  std::string text = kJob;
  text.replace(text.find("  name: j\n"), 10,
               "  name: j\n  annotations: {trainyard.dev/task-tls: 'true'}\n");
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RenderFile({.manifest = WriteFile("true.yaml", text)}, out, err), 0) << err.str();
  EXPECT_THAT(out.str(), StartsWith("apiVersion: v1\nimmutable: true\nkind: Secret\n"));
  EXPECT_THAT(out.str(), HasSubstr("secretName: j-tls\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("tls.key")));
}

TEST(Validate, GoesOnAfterABadFileAndEndsWithTwo) {
  const std::string bad = WriteFile("bad.yaml", "kind: TFJob\napiVersion: v1\nspec: {}\n");
  const std::string broken = WriteFile("broken.yaml", "a: [");
  const std::string good = WriteFile("good.yaml", kJob);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(ValidateFiles({bad, broken, good}, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr(bad + ":2: apiVersion: \"v1\": must be kubeflow.org/v1\n"));
  EXPECT_THAT(err.str(), HasSubstr(bad + ":3: spec.tfReplicaSpecs: must be required\n"));
  EXPECT_THAT(err.str(), HasSubstr(broken + ":1: not valid YAML"));
  EXPECT_THAT(out.str(), StartsWith(good));
}

TEST(Render, WritesServicesThenPodsThatReadBack) {
  RenderOptions options{.manifest = WriteFile("good.yaml", kJob)};
  std::ostringstream out;
  std::ostringstream err;
  ASSERT_EQ(RenderFile(options, out, err), 0);
  const auto objects = ParseManifests("out.yaml", out.str());
  ASSERT_TRUE(objects.ok()) << objects.status();
  std::vector<std::string> names;
  for (const Manifest& object : *objects) {
    names.push_back(object.kind() + " " + object.json["metadata"]["name"].get<std::string>());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("Service j-ps-0", "Service j-worker-0", "Pod j-ps-0",
                                            "Pod j-worker-0"));
  const Json& worker = objects->back().json;
  EXPECT_EQ(worker["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(worker["spec"]["containers"][0]["args"][0], "--ps_hosts=$(PS_HOSTS)");
  EXPECT_FALSE(worker["metadata"].contains("ownerReferences")) << "no uid is known";
}

TEST(Render, ShowsClaimsAndTheServiceOfTheWholeJob) {
  RenderOptions options{.manifest = WriteFile("shaped.yaml", R"yaml(apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: j}
spec:
  network: {subdomain: net}
  tfReplicaSpecs:
    Worker:
      replicas: 2
      volumeClaimTemplates: [{metadata: {name: own}, spec: {accessModes: [ReadWriteOnce]}}]
      template: {spec: {containers: [{name: tensorflow, image: i}]}}
)yaml")};
  std::ostringstream out;
  std::ostringstream err;
  ASSERT_EQ(RenderFile(options, out, err), 0) << err.str();
  const auto objects = ParseManifests("out.yaml", out.str());
  ASSERT_TRUE(objects.ok()) << objects.status();
  std::vector<std::string> names;
  for (const Manifest& object : *objects) {
    names.push_back(object.kind() + " " + object.json["metadata"]["name"].get<std::string>());
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "Service net", "PersistentVolumeClaim own-j-worker-0", "Pod j-worker-0",
                         "PersistentVolumeClaim own-j-worker-1", "Pod j-worker-1"));
}

TEST(Render, WritesNothingForABadJob) {
  RenderOptions options{.manifest = WriteFile("bad.yaml", "kind: TFJob\n")};
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RenderFile(options, out, err), 2);
  EXPECT_THAT(out.str(), IsEmpty());
  EXPECT_THAT(err.str(), HasSubstr("metadata.name"));
}

TEST(ToYaml, WritesBlocksThatPeopleRead) {
  const Json json = {{"list", {1, "two", {{"a", true}, {"b", {3}}}, Json::array(), nullptr}},
                     {"script", "set -e\nexec trainer\n"},
                     {"config", R"({"it's":1})"},
                     {"text", "yes"}};
  EXPECT_EQ(ToYaml(json), R"(config: '{"it''s":1}'
list:
- 1
- two
- a: true
  b:
  - 3
- []
- null
script: |
  set -e
  exec trainer
text: "yes"
)");
}

TEST(ToYaml, ReadsBackAsTheSame) {
  const std::vector<std::string> texts = {
      "",
      " ",
      "~",
      "null",
      "1",
      "0x1F",
      "1e3",
      "on",
      "2026-01-02",
      "1:20",
      "- a",
      "a: b",
      "a:",
      "#",
      "a #b",
      "'",
      "\"",
      "\\",
      "a\nb",
      "a\n",
      "\na",
      " a\nb",
      "a \nb",
      "a\n\n",
      "\t",
      "a\tb\n",
      "...",
      "---",
      "%x",
      "@x",
      "`x",
      "*x",
      "&x",
      "!x",
      "|",
      ">",
      "?",
      "{",
      "[a]",
      "é",
      "日本",
      "\u0001",
      "\u007f",
      "<<",
      "=",
      "$(X)",
      "a,b",
      "x\r\ny",
      "--flag=1",
      "\u0085",
      "\u2028x\ny",
      "😀",
      std::string(1500, 'k'),
      std::string(1500, '"') + ": #"};  // longer than a simple key may be
  Json list = Json::array();
  Json map = Json::object();
  for (const std::string& text : texts) {
    list.push_back(text);
    list.push_back({{text, text}});
    map[text] = Json::array({Json::array({text}), Json::object(), Json::array()});
    for (const Json& value : {Json(text), Json::array({text}), Json({{text, text}})}) {
      const auto read = ParseManifests("x.yaml", ToYaml(value));
      ASSERT_TRUE(read.ok()) << read.status() << "\n" << ToYaml(value);
      ASSERT_EQ(read->size(), 1u);
      EXPECT_EQ(read->front().json, value) << ToYaml(value);
    }
  }
  const Json all = {
      {"list", list}, {"map", map}, {"numbers", {1.5, -1, 18446744073709551615u, 1e300}}};
  const auto read = ParseManifests("x.yaml", ToYaml(all));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->front().json, all);
}

}  // namespace
}  // namespace tfjob
