// Admission and defaults of a TFJob. A and B number the behaviours of the conformance table.
#include "operator/api/tfjob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/api/quantity.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json Template(const std::string& container = "tensorflow", const std::string& image = "i") {
  return {{"spec", {{"containers", {{{"name", container}, {"image", image}}}}}}};
}

Json JobJson(Json replicas = {{"Worker", {{"template", Template()}}}}) {
  return {{"apiVersion", "kubeflow.org/v1"},
          {"kind", "TFJob"},
          {"metadata", {{"name", "j"}}},
          {"spec", {{"tfReplicaSpecs", std::move(replicas)}}}};
}

std::vector<FieldError> ErrorsOf(const Json& json) {
  const ParsedTfJob parsed = FromJson(json);
  EXPECT_THAT(parsed.errors, IsEmpty());
  return Validate(parsed.job);
}

auto Error(const std::string& path, const std::string& type, const std::string& message) {
  return AllOf(Field("path", &FieldError::path, path), Field("type", &FieldError::type, type),
               Field("message", &FieldError::message, HasSubstr(message)));
}

TEST(Admission, AcceptsAOneWorkerJobManagedByUs) {  // A1
  Json json = JobJson();
  json["spec"]["runPolicy"]["managedBy"] = "kubeflow.org/training-operator";
  EXPECT_THAT(ErrorsOf(json), IsEmpty());
}

TEST(Admission, RefusesANameThatIsNoDnsLabel) {  // A2
  for (const char* name : {"00test", "Test", "a_b", "a-", "a.b"}) {
    Json json = JobJson();
    json["metadata"]["name"] = name;
    EXPECT_THAT(ErrorsOf(json), ElementsAre(Error("metadata.name", "Invalid value",
                                                  "should match: a DNS-1035 label must consist")))
        << name;
  }
}

TEST(Admission, AsksForANameOrGenerateName) {
  Json json = JobJson();
  json["metadata"] = Json::object();
  EXPECT_THAT(ErrorsOf(json),
              ElementsAre(Error("metadata.name", "Required value", "generateName")));
  json["metadata"]["generateName"] = "j-";
  EXPECT_THAT(ErrorsOf(json), IsEmpty());
}

TEST(Admission, RefusesAnEmptyContainerListTwiceAtOnePath) {  // A3
  const char* path = "spec.tfReplicaSpecs[Worker].template.spec.containers";
  const Json containers = {{"spec", {{"containers", Json::array()}}}};
  EXPECT_THAT(ErrorsOf(JobJson({{"Worker", {{"template", containers}}}})),
              ElementsAre(Error(path, "Required value", "must be specified"),
                          Error(path, "Required value",
                                "must have at least one container with name tensorflow")));
}

TEST(Admission, RefusesAnEmptyImage) {  // A4
  EXPECT_THAT(ErrorsOf(JobJson({{"Worker", {{"template", Template("tensorflow", "")}}}})),
              ElementsAre(Error("spec.tfReplicaSpecs[Worker].template.spec.containers[0].image",
                                "Required value", "must be required")));
}

TEST(Admission, RefusesAJobWithoutATensorflowContainer) {  // A5
  EXPECT_THAT(ErrorsOf(JobJson({{"Worker", {{"template", Template("tensorflo")}}}})),
              ElementsAre(Error("spec.tfReplicaSpecs[Worker].template.spec.containers",
                                "Required value", "\"tensorflo\" is nearly it")));
}

TEST(Admission, RefusesChiefAndMasterTogetherWhateverTheirSpelling) {  // A6
  const Json replica = {{"template", Template()}};
  EXPECT_THAT(ErrorsOf(JobJson({{"CHIEF", replica}, {"master", replica}})),
              ElementsAre(Error("spec.tfReplicaSpecs", "Forbidden",
                                "must not have more than 1 Chief or Master role")));
}

TEST(Admission, RefusesAnUnknownManager) {  // A7
  Json json = JobJson();
  json["spec"]["runPolicy"]["managedBy"] = "other-job-controller";
  EXPECT_THAT(ErrorsOf(json), ElementsAre(Error("spec.runPolicy.managedBy", "Unsupported value",
                                                "\"other-job-controller\": must be one of")));
}

TEST(Admission, RefusesASpecWithoutReplicasAndNamesTheMisspeltField) {  // A8
  Json json = JobJson();
  json["spec"] = {{"tfReplicaSpec", {{"Worker", {{"template", Template()}}}}}};
  EXPECT_THAT(ErrorsOf(json),
              ElementsAre(Error("spec.tfReplicaSpecs", "Required value", "must be required")));
  EXPECT_THAT(FromJson(json).warnings, ElementsAre(Error("spec.tfReplicaSpec", "Warning",
                                                         "did you mean \"tfReplicaSpecs\"")));
}

TEST(Admission, RefusesNoReplicasAndANullReplica) {  // A9
  EXPECT_THAT(ErrorsOf(JobJson(Json::object())),
              ElementsAre(Error("spec.tfReplicaSpecs", "Required value", "at least one")));
  EXPECT_THAT(ErrorsOf(JobJson({{"Worker", nullptr}})),
              Contains(Error("spec.tfReplicaSpecs[Worker].template.spec.containers",
                             "Required value", "must be specified")));
}

TEST(Admission, SuggestsTheNearestSpellingOfAnEnum) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"restartPolicy", "exitcode"}}}});
  json["spec"]["runPolicy"]["cleanPodPolicy"] = "Runing";
  json["spec"]["successPolicy"] = "allWorker";
  EXPECT_THAT(
      ErrorsOf(json),
      ElementsAre(
          Error("spec.runPolicy.cleanPodPolicy", "Unsupported value", "did you mean Running?"),
          Error("spec.successPolicy", "Unsupported value", "did you mean AllWorkers?"),
          Error("spec.tfReplicaSpecs[Worker].restartPolicy", "Unsupported value",
                "did you mean ExitCode?")));
}

TEST(Admission, RefusesNumbersThatMakeNoSense) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"replicas", -1}}}});
  json["spec"]["runPolicy"] = {
      {"activeDeadlineSeconds", 0}, {"ttlSecondsAfterFinished", -1}, {"backoffLimit", -2}};
  EXPECT_THAT(
      ErrorsOf(json),
      ElementsAre(Error("spec.runPolicy.ttlSecondsAfterFinished", "Invalid value", "-1"),
                  Error("spec.runPolicy.activeDeadlineSeconds", "Invalid value", "positive"),
                  Error("spec.runPolicy.backoffLimit", "Invalid value", "-2"),
                  Error("spec.tfReplicaSpecs[Worker].replicas", "Invalid value", "-1")));
}

TEST(Admission, RefusesANameWhosePodsWouldHaveTooLongOnes) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"replicas", 11}}}});
  json["metadata"]["name"] = std::string(54, 'a');  // + "-worker-10" = 64
  EXPECT_THAT(ErrorsOf(json), ElementsAre(Error("metadata.name", "Invalid value",
                                                "would have 64 characters, at most 63")));
  json["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 10;
  EXPECT_THAT(ErrorsOf(json), IsEmpty());
}

TEST(Admission, RefusesMinResourcesThatAreNoQuantities) {
  Json json = JobJson();
  json["spec"]["runPolicy"] = {
      {"schedulingPolicy", {{"minResources", {{"cpu", "many"}, {"memory", "1Gi"}}}}}};
  EXPECT_THAT(ErrorsOf(json), ElementsAre(Error("spec.runPolicy.schedulingPolicy.minResources[cpu]",
                                                "Invalid value", "\"many\" is no quantity")));
}

TEST(Admission, RefusesMoreReplicasThanTfConfigCanList) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"replicas", 5000}}}});
  EXPECT_THAT(ErrorsOf(json),
              ElementsAre(Error("spec.tfReplicaSpecs", "Invalid value", "too many replicas")));
  json["spec"]["enableDynamicWorker"] = true;
  EXPECT_THAT(ErrorsOf(json), IsEmpty());
}

TEST(Admission, RefusesTwoSpellingsOfOneType) {
  const Json replica = {{"template", Template()}};
  EXPECT_THAT(ErrorsOf(JobJson({{"Worker", replica}, {"WORKER", replica}})),
              ElementsAre(Error("spec.tfReplicaSpecs[Worker]", "Duplicate value", "WORKER")));
}

TEST(Admission, RefusesAMistypedTypeButTakesAForeignOne) {
  const Json replica = {{"template", Template()}};
  EXPECT_THAT(ErrorsOf(JobJson({{"Wroker", replica}})),
              ElementsAre(Error("spec.tfReplicaSpecs[Wroker]", "Unsupported value", "Worker?")));
  const Json foreign = JobJson({{"Worker", replica}, {"Dispatcher", replica}});
  EXPECT_THAT(ErrorsOf(foreign), IsEmpty());
  EXPECT_THAT(Lint(FromJson(foreign).job), ElementsAre(Error("spec.tfReplicaSpecs[Dispatcher]",
                                                             "Warning", "not a replica type")));
}

TEST(Admission, RefusesChangesOfImmutableFields) {
  const auto job = [](const char* manager, const char* queue) {
    Json json = JobJson();
    json["spec"]["runPolicy"] = {{"managedBy", manager}, {"schedulingPolicy", {{"queue", queue}}}};
    return FromJson(json).job;
  };
  EXPECT_THAT(ValidateUpdate(job(kManagedByUs, "a"), job(kManagedByMultiKueue, "b")),
              ElementsAre(Error("spec.runPolicy.managedBy", "Invalid value", "field is immutable"),
                          Error("spec.runPolicy.schedulingPolicy.queue", "Invalid value",
                                "spec.runPolicy.schedulingPolicy.queue is immutable")));
}

TEST(Admission, WarnsOfAJobThatNothingEnds) {
  EXPECT_THAT(Lint(FromJson(JobJson({{"PS", {{"template", Template()}}}})).job),
              ElementsAre(Error("spec.tfReplicaSpecs", "Warning", "never succeeds")));
}

TEST(Parsing, ReportsEveryWrongTypeByPath) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"replicas", "2"}}}, {"PS", 7}});
  json["kind"] = "Job";
  json["spec"]["enableDynamicWorker"] = "yes";
  json["spec"]["runPolicy"] = {{"backoffLimit", 1.5}, {"ttlSecondsAfterFinished", 99999999999}};
  EXPECT_THAT(
      FromJson(json).errors,
      ElementsAre(
          Error("kind", "Unsupported value", "must be TFJob"),
          Error("spec.runPolicy.ttlSecondsAfterFinished", "Invalid value", "out of range"),
          Error("spec.runPolicy.backoffLimit", "Invalid value", "must be an integer"),
          Error("spec.enableDynamicWorker", "Invalid value", "must be true or false"),
          Error("spec.tfReplicaSpecs[PS]", "Invalid value", "must be an object"),
          Error("spec.tfReplicaSpecs[Worker].replicas", "Invalid value", "must be an integer")));
}

TEST(Parsing, ReportsWhatTheApiServerWouldRefuseInsidePods) {
  Json pod = Template();
  Json& container = pod["spec"]["containers"][0];
  container["args"] = {"--task_index", 0};
  container["env"] = {{{"name", "N"}, {"value", 1}}};
  container["resources"] = {{"limits", {{"nvidia.com/gpu", "one"}}}};
  container["ports"] = {{{"containerPort", 70000}}};
  const std::string at = "spec.tfReplicaSpecs[Worker].template.spec.containers[0]";
  EXPECT_THAT(FromJson(JobJson({{"Worker", {{"template", pod}}}})).errors,
              ElementsAre(Error(at + ".args[1]", "Invalid value", "must be a string"),
                          Error(at + ".env[0].value", "Invalid value", "put it in quotes"),
                          Error(at + ".ports[0].containerPort", "Invalid value", "out of range"),
                          Error(at + ".resources.limits[nvidia.com/gpu]", "Invalid value",
                                "\"one\" is not a quantity")));
}

TEST(Parsing, TakesNullsAsAbsent) {
  Json json = JobJson();
  json["metadata"]["creationTimestamp"] = nullptr;
  json["status"] = nullptr;
  json["spec"]["runPolicy"] = nullptr;
  const ParsedTfJob parsed = FromJson(json);
  EXPECT_THAT(parsed.errors, IsEmpty());
  EXPECT_THAT(parsed.warnings, IsEmpty());
}

TEST(Parsing, TakesFlatRunPolicyFieldsWithAWarning) {
  Json json = JobJson();
  json["spec"]["backoffLimit"] = 6;
  json["spec"]["cleanPodPolicy"] = "All";
  json["spec"]["runPolicy"]["cleanPodPolicy"] = "None";
  const ParsedTfJob parsed = FromJson(json);
  EXPECT_EQ(parsed.job.spec.run_policy.backoff_limit, 6);
  EXPECT_EQ(parsed.job.spec.run_policy.clean_pod_policy, "None");
  EXPECT_THAT(parsed.warnings,
              ElementsAre(Error("spec.cleanPodPolicy", "Warning", "set too and wins"),
                          Error("spec.backoffLimit", "Warning", "taken as if it stood there")));
  EXPECT_EQ(FromJson(json, {.flat_run_policy = false}).job.spec.run_policy.backoff_limit,
            std::nullopt);
}

TEST(Parsing, ReadsBackWhatItWrites) {
  Json json = JobJson({{"Worker", {{"template", Template()}, {"replicas", 3}}}});
  json["metadata"] = {
      {"name", "j"}, {"namespace", "n"}, {"uid", "u"}, {"generation", 2}, {"labels", {{"a", "b"}}}};
  json["spec"]["runPolicy"] = {{"suspend", true},
                               {"managedBy", ""},
                               {"schedulingPolicy", {{"minAvailable", 2}, {"queue", "q"}}}};
  json["status"] = {{"conditions",
                     {{{"type", "Created"},
                       {"status", "True"},
                       {"reason", "TFJobCreated"},
                       {"message", "m"},
                       {"lastUpdateTime", "2026-01-02T03:04:05Z"},
                       {"lastTransitionTime", "2026-01-02T03:04:05Z"}}}},
                    {"replicaStatuses",
                     {{"Worker", {{"active", 1}, {"ready", 1}, {"succeededIndexes", "0,2-4"}}}}},
                    {"observedGeneration", 2},
                    {"startTime", "2026-01-02T03:04:05Z"},
                    {"chargedPods", {"u1"}},
                    {"taskTls", true},
                    {"progress",
                     {{"summary", "500/1000 50%"},
                      {"globalStep", 500},
                      {"lastStep", 1000},
                      {"lastUpdateTime", "2026-01-02T03:04:05Z"},
                      {"lastStepTime", "2026-01-02T03:04:04Z"}}}};
  json["spec"]["progress"] = {
      {"port", 9100}, {"intervalSeconds", 30}, {"stallSeconds", 60}, {"stallAction", "RestartJob"}};
  json["spec"]["startupPolicy"]["startupPolicyOrder"] = "InOrder";
  Json& workers = json["spec"]["tfReplicaSpecs"]["Worker"];
  workers["minReplicas"] = 1;
  workers["maxReplicas"] = 9;
  workers["cleanPodPolicy"] = "All";
  workers["volumeClaimTemplates"] = Json::parse(
      R"([{"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}])");
  workers["persistentVolumeClaimRetentionPolicy"] = {{"whenDeleted", "Delete"},
                                                     {"whenScaled", "Retain"}};
  json["spec"]["network"] = {{"subdomain", "j"}, {"hostPorts", {{"min", 20000}, {"max", 20999}}}};
  json["spec"]["runPolicy"]["successPolicy"]["rules"] =
      Json::parse(R"([{"replicaTypes": ["Worker"], "succeededIndexes": "0,2-4",
                       "succeededCount": 2}])");
  json["spec"]["tfReplicaSpecs"]["Evaluator"] = {{"inClusterSpec", false},
                                                 {"template", workers["template"]}};
  const ParsedTfJob parsed = FromJson(json);
  EXPECT_THAT(parsed.errors, IsEmpty());
  EXPECT_EQ(parsed.job.status.replica_statuses.at("Worker").succeeded_indexes,
            (std::set<int>{0, 2, 3, 4}));
  EXPECT_EQ(ToJson(parsed.job), json);
  EXPECT_EQ(FromJson(ToJson(parsed.job)).job, parsed.job);
}

TEST(Defaults, FillInReplicasPolicyPortAndSpelling) {  // B1 B2 B3 B5 B6 B7
  TfJob job = FromJson(JobJson({{"WORKER", {{"template", Template()}}}})).job;
  SetDefaults(job);
  ASSERT_EQ(job.spec.replicas->size(), 1u);
  const ReplicaSpec& worker = job.spec.replicas->at("Worker");
  EXPECT_EQ(worker.replicas, 1);
  EXPECT_EQ(worker.restart_policy, "Never");
  EXPECT_EQ(worker.pod_template["spec"]["containers"][0]["ports"],
            Json::parse(R"([{"name":"tfjob-port","containerPort":2222}])"));
  EXPECT_EQ(job.spec.run_policy.clean_pod_policy, "None");
  EXPECT_EQ(job.spec.success_policy, "");
}

TEST(Defaults, KeepWhatIsGiven) {  // B2 B4 B5
  Json pod = Template();
  pod["spec"]["containers"][0]["ports"] = {{{"name", "http"}, {"containerPort", 80}}};
  Json json = JobJson({{"Worker", {{"template", pod}, {"restartPolicy", "Always"}}}});
  json["spec"]["runPolicy"]["cleanPodPolicy"] = "All";
  TfJob job = FromJson(json).job;
  SetDefaults(job);
  const ReplicaSpec& worker = job.spec.replicas->at("Worker");
  EXPECT_EQ(worker.restart_policy, "Always");
  EXPECT_EQ(worker.pod_template["spec"]["containers"][0]["ports"].dump(),
            R"([{"containerPort":80,"name":"http"},{"containerPort":2222,"name":"tfjob-port"}])");
  EXPECT_EQ(job.spec.run_policy.clean_pod_policy, "All");
}

TEST(Defaults, PutThePortOnTheFirstContainerWhenNoneIsTensorflow) {
  TfJob job = FromJson(JobJson({{"Worker", {{"template", Template("main")}}}})).job;
  SetDefaults(job);
  EXPECT_TRUE(
      job.spec.replicas->at("Worker").pod_template["spec"]["containers"][0].contains("ports"));
}

TEST(Names, TellChiefLikeTypes) {  // B8
  EXPECT_TRUE(IsChiefLike(kChief));
  EXPECT_TRUE(IsChiefLike(kMaster));
  EXPECT_FALSE(IsChiefLike(kWorker));
  EXPECT_EQ(ReplicaName("a/b", "PS", 3), "a-b-ps-3");
}

TEST(Quantity, ReadsDecimalAndBinarySuffixes) {
  EXPECT_EQ(*ParseQuantity("2"), 2);
  EXPECT_EQ(*ParseQuantity("500m"), 0.5);
  EXPECT_EQ(*ParseQuantity("1.5Gi"), 1.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(*ParseQuantity("1e3"), 1000);
  EXPECT_EQ(*ParseQuantity("1E"), 1e18);
  for (const char* bad : {"", "one", "1 Gi", "Gi", "1GiB", "--1", "nan", "inf"}) {
    EXPECT_FALSE(ParseQuantity(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace tfjob
