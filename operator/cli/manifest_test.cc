#include "operator/cli/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "operator/cli/validate.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(std::string_view yaml, const ManifestLimits& limits = {}) {
  const auto manifests = ParseManifests("f.yaml", yaml, limits);
  if (manifests.ok()) return "parsed";
  EXPECT_EQ(manifests.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(manifests.status().message());
}

Json JsonOf(std::string_view yaml) {
  const auto manifests = ParseManifests("f.yaml", yaml);
  EXPECT_TRUE(manifests.ok()) << manifests.status();
  return manifests.ok() && manifests->size() == 1 ? manifests->front().json : Json();
}

TEST(Manifest, ReadsEveryDocumentAndSkipsEmptyOnes) {
  const auto manifests =
      ParseManifests("f.yaml", "---\n---\nkind: A\n---\n# nothing\n---\n\nkind: B\n");
  ASSERT_TRUE(manifests.ok()) << manifests.status();
  ASSERT_EQ(manifests->size(), 2u);
  EXPECT_EQ((*manifests)[0].kind(), "A");
  EXPECT_EQ((*manifests)[0].line, 3);
  EXPECT_EQ((*manifests)[1].kind(), "B");
  EXPECT_EQ((*manifests)[1].line, 8);
}

TEST(Manifest, KnowsTheLineOfEachField) {
  const auto manifests = ParseManifests("f.yaml", R"(spec:
  tfReplicaSpecs:
    PS:
      template:
        metadata:
          labels:
            training.kubeflow.org/x: y
        spec:
          containers:
          - name: a
          - image: b
            args: [x,
                   y]
)");
  ASSERT_TRUE(manifests.ok()) << manifests.status();
  const Manifest& m = manifests->front();
  const std::string containers = "spec.tfReplicaSpecs[PS].template.spec.containers";
  EXPECT_EQ(m.LineOf("spec.tfReplicaSpecs[PS]"), 3);
  EXPECT_EQ(m.LineOf("spec.tfReplicaSpecs[PS].template.metadata.labels[training.kubeflow.org/x]"),
            7);
  EXPECT_EQ(m.LineOf(containers), 9);
  EXPECT_EQ(m.LineOf(containers + "[0].name"), 10);
  EXPECT_EQ(m.LineOf(containers + "[1]"), 11);
  EXPECT_EQ(m.LineOf(containers + "[1].args[1]"), 13);
  EXPECT_EQ(m.LineOf(containers + "[0].image"), 10) << "absent: its container";
  EXPECT_EQ(m.LineOf("spec.runPolicy.backoffLimit"), 1);
  EXPECT_EQ(m.LineOf("metadata.name"), 1);
}

TEST(Manifest, TellsQuotedTextFromValues) {
  EXPECT_EQ(
      JsonOf("{a: 1, b: '1', c: \"yes\", d: yes, e: !!str 3, f: !!int \"4\", g: !x 5}").dump(),
      R"({"a":1,"b":"1","c":"yes","d":true,"e":"3","f":4,"g":"5"})");
}

TEST(Manifest, MakesTextOfKeys) {
  EXPECT_EQ(JsonOf("{1: a, yes: b, 'no': c, 1.5: d}").dump(),
            R"({"1":"a","1.5":"d","no":"c","true":"b"})");
}

TEST(Manifest, ExpandsAliasesAndMerges) {
  EXPECT_EQ(JsonOf("a: &x {p: 1, q: 2}\nb: *x\nc:\n  <<: *x\n  q: 3\nd: {<<: [*x, {r: 4}]}").dump(),
            R"({"a":{"p":1,"q":2},"b":{"p":1,"q":2},"c":{"p":1,"q":3},"d":{"p":1,"q":2,"r":4}})");
}

TEST(Manifest, NamesFileAndLineOfBrokenYaml) {
  EXPECT_THAT(ErrorOf("a: 1\nb: [1,\nc: }"), HasSubstr("f.yaml:3: not valid YAML"));
  EXPECT_EQ(ErrorOf("a: 1\nb: 2\na: 3"), "f.yaml:3: the key \"a\" is given twice");
  EXPECT_EQ(ErrorOf("a: .inf"), "f.yaml:1: .inf is no value that JSON has");
  EXPECT_EQ(ErrorOf("a: 1\n? [x]\n: 2"), "f.yaml:2: a key must be text, not a map or list");
  EXPECT_THAT(ErrorOf("a: *nobody"), HasSubstr("f.yaml:1: not valid YAML"));
  EXPECT_EQ(ErrorOf("a: x\nb: \xff"), "f.yaml:2: not a text file: a byte that is not UTF-8");
  EXPECT_THAT(ErrorOf("a:\n\t- b"), HasSubstr("f.yaml:2:"));
}

TEST(Manifest, StopsAtItsLimits) {
  EXPECT_THAT(ErrorOf("a: 123456789", {.max_bytes = 5}), HasSubstr("larger than 5 bytes"));
  EXPECT_THAT(ErrorOf(std::string(100, '[') + std::string(100, ']')),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("f.yaml:1:"));
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_THAT(ErrorOf(bomb), HasSubstr("more than 200000 values, aliases expanded"));
  std::string text_bomb = "a: &a " + std::string(1 << 20, 'x') + "\nb: [";
  for (int i = 0; i < 1000; ++i) text_bomb += "*a, ";
  EXPECT_THAT(ErrorOf(text_bomb + "]"), HasSubstr("more than 200000 values"));
  EXPECT_THAT(ErrorOf("a: &a [*a]"), HasSubstr("f.yaml:1: "));
  std::string ladder = "a0: &a0 [x]\n";
  for (int i = 1; i < 80; ++i) absl::StrAppend(&ladder, "a", i, ": &a", i, " [*a", i - 1, "]\n");
  EXPECT_THAT(ErrorOf(ladder), HasSubstr("nested deeper than 64 levels"));
}

TEST(Manifest, SaysWhyAFileHoldsNoJob) {
  const std::string path = ::testing::TempDir() + "/no_job.yaml";
  std::ofstream(path) << "kind: Deployment\n---\na: 1\n";
  const auto none = ReadTfJobManifests(path);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(std::string(none.status().message()),
            path + ":1: no TFJob in this file; it holds Deployment, a document without kind");
  const auto absent = ReadTfJobManifests(path + ".absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("cannot read it: No such file"));
  EXPECT_FALSE(ReadTfJobManifests(::testing::TempDir()).ok()) << "a folder";
}

TEST(Manifest, GivesAJobOrAllItsProblems) {
  const auto good = ParseManifests("f.yaml", R"(apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  generateName: j-
  creationTimestamp: null
spec:
  tfReplicaSpecs:
    WORKER:
      replicas: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: i}
)");
  ASSERT_TRUE(good.ok()) << good.status();
  const Diagnosis diagnosis = Diagnose(good->front());
  EXPECT_THAT(diagnosis.errors, IsEmpty());
  EXPECT_EQ(diagnosis.job.metadata.generate_name, "j-");
  EXPECT_EQ(diagnosis.job.spec.replicas->at("WORKER").replicas, 2);

  const auto bad = ParseManifests("f.yaml", R"(apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: J}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: two
      restartPolicy: Sometimes
      template: {spec: {containers: 3}}
)");
  ASSERT_TRUE(bad.ok()) << bad.status();
  const std::string at = "spec.tfReplicaSpecs[Worker]";
  const std::string message = absl::StrJoin(Diagnose(bad->front()).errors, "\n");
  EXPECT_THAT(message, HasSubstr("f.yaml:3: metadata.name: \"J\": should match"));
  EXPECT_THAT(message,
              HasSubstr("f.yaml:7: " + at + ".replicas: must be an integer, not a string"));
  EXPECT_THAT(message, HasSubstr("f.yaml:8: " + at + ".restartPolicy: \"Sometimes\""));
  EXPECT_THAT(message, HasSubstr("f.yaml:9: " + at + ".template.spec.containers: must be a list"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 3) << message;
}

}  // namespace
}  // namespace tfjob
