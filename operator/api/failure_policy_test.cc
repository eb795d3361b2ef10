// spec.runPolicy.failurePolicy as it is written, and what is wrong with it.
#include "operator/api/failure_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json JobWithFailureRules(const Json& rules) {
  const Json pod = {{"spec", {{"containers", {{{"name", "tensorflow"}, {"image", "i"}}}}}}};
  return {{"apiVersion", kApiVersion},
          {"kind", kKind},
          {"metadata", {{"name", "j"}}},
          {"spec",
           {{"runPolicy", {{"failurePolicy", {{"rules", rules}}}}},
            {"tfReplicaSpecs",
             {{"PS", {{"template", pod}, {"restartPolicy", "Always"}}},
              {"Worker", {{"template", pod}, {"backoffLimit", 2}}}}}}}};
}

std::vector<std::string> FailureRuleProblems(const Json& rules) {
  const ParsedTfJob parsed = FromJson(JobWithFailureRules(rules));
  std::vector<std::string> problems;
  for (const auto& errors : {parsed.errors, Validate(parsed.job)}) {
    for (const FieldError& error : errors) problems.push_back(ToString(error));
  }
  return problems;
}

TEST(FailurePolicyFields, AreKeptAndComeBack) {
  const Json rules = Json::parse(R"([
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}, "replicaTypes": ["worker"]},
    {"action": "RestartJob", "countTowardsBackoffLimit": false,
     "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "Ready", "status": "False"}]},
    {"action": "RestartReplica", "onPodPending": {"timeoutSeconds": 300}},
    {"action": "Ignore"}])");
  EXPECT_THAT(FailureRuleProblems(rules), IsEmpty());
  TfJob job = FromJson(JobWithFailureRules(rules)).job;
  EXPECT_EQ(job.spec.replicas->at("Worker").backoff_limit, 2);
  EXPECT_EQ(FromJson(ToJson(job)).job, job);
  SetDefaults(job);
  const std::vector<FailureRule>& read = job.spec.run_policy.failure_rules;
  ASSERT_EQ(read.size(), 4u);
  EXPECT_THAT(read[0].types, ElementsAre(kWorker));
  EXPECT_EQ(read[0].exit_codes, (ExitCodeSet{.in = true, .values = {1, 2}}));
  EXPECT_TRUE(read[0].counts);
  EXPECT_EQ(read[1].pod_conditions.at(kDisruptionTarget), kTrue);
  EXPECT_EQ(read[1].pod_conditions.at("Ready"), kFalse);
  EXPECT_FALSE(read[1].counts);
  EXPECT_EQ(read[2].pending_seconds, 300);
}

struct Mistake {
  const char* rule;
  const char* problem;
};

class FailurePolicyMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(FailurePolicyMistakes, AreNamed) {
  EXPECT_THAT(FailureRuleProblems(Json::array({Json::parse(GetParam().rule)})),
              ElementsAre(HasSubstr(GetParam().problem)));
}

INSTANTIATE_TEST_SUITE_P(
    All, FailurePolicyMistakes,
    ::testing::Values(
        Mistake{R"({"action": "Restart"})",
                R"(rules[0].action: Unsupported value: "Restart": must be one of FailJob)"},
        Mistake{R"({"action": "FailJob", "onExitCodes": {"operator": "in", "values": [1]}})",
                R"(onExitCodes.operator: Unsupported value: "in": must be one of In, NotIn)"},
        Mistake{R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 256]}})",
                "onExitCodes.values: Invalid value: 256 is no integer from 0 to 255"},
        Mistake{R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0, 1]}})",
                "onExitCodes.values: Invalid value: 0 is the exit code of success"},
        Mistake{R"({"action": "FailJob", "onExitCodes": {"operator": "NotIn"}})",
                "onExitCodes.values: Required value"},
        Mistake{R"({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]},
                    "onPodConditions": [{"type": "DisruptionTarget"}]})",
                "must have one of onExitCodes, onPodConditions and onPodPending"},
        Mistake{R"({"action": "FailJob", "onPodPending": {}})",
                "onPodPending.timeoutSeconds: Required value"},
        Mistake{R"({"action": "FailJob", "onPodPending": {"timeoutSeconds": 0}})",
                "onPodPending.timeoutSeconds: Invalid value"},
        Mistake{R"({"action": "Ignore", "onPodPending": {"timeoutSeconds": 1}})",
                "Ignore means nothing"},
        Mistake{R"({"action": "FailJob", "onPodConditions": [{"status": "True"}]})",
                "onPodConditions[0].type: Required value"},
        Mistake{R"({"action": "Ignore", "countTowardsBackoffLimit": false})",
                "countTowardsBackoffLimit: Forbidden: means nothing for Ignore"},
        Mistake{R"({"action": "FailJob", "replicaTypes": ["Chief"]})",
                R"(replicaTypes: Invalid value: "Chief" is no replica type of this job)"},
        Mistake{R"({"action": "FailJob", "replicaTypes": [3]})",
                "replicaTypes: Invalid value: must be a list of strings, not of 3"},
        Mistake{R"({"action": "FailJob", "replicaTypes": ["PS"],
                    "onExitCodes": {"operator": "In", "values": [1]}})",
                "never matches a pod of PS, whose restartPolicy Always"}));

}  // namespace
}  // namespace tfjob
