// spec.runPolicy.successPolicy as it is written, what is wrong with it, and when a rule holds.
#include "operator/api/success_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/indexes.h"
#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TfJob JobWithSuccessRules(const char* rules, ParsedTfJob* parsed = nullptr) {
  const Json pod = {{"spec", {{"containers", {{{"name", "tensorflow"}, {"image", "i"}}}}}}};
  ParsedTfJob out =
      FromJson({{"apiVersion", kApiVersion},
                {"kind", kKind},
                {"metadata", {{"name", "j"}}},
                {"spec",
                 {{"runPolicy", {{"successPolicy", {{"rules", Json::parse(rules)}}}}},
                  {"tfReplicaSpecs", {{"Worker", {{"template", pod}, {"replicas", 4}}}}}}}});
  if (parsed != nullptr) *parsed = out;
  return out.job;
}

std::vector<std::string> SuccessRuleProblems(const char* rules) {
  ParsedTfJob parsed;
  JobWithSuccessRules(rules, &parsed);
  std::vector<std::string> problems;
  for (const auto& errors : {parsed.errors, parsed.warnings, Validate(parsed.job)}) {
    for (const FieldError& error : errors) problems.push_back(ToString(error));
  }
  return problems;
}

TEST(SuccessPolicyFields, AreTakenAsInAJob) {
  constexpr char kRules[] = R"([{"replicaTypes": ["worker"], "succeededIndexes": "0,2-3"},
      {"replicaTypes": ["Worker"], "succeededIndexes": "1-3", "succeededCount": 2}])";
  EXPECT_THAT(SuccessRuleProblems(kRules), IsEmpty());
  TfJob job = JobWithSuccessRules(kRules);
  SetDefaults(job);
  EXPECT_THAT(job.spec.run_policy.success_rules[0].types, ElementsAre(kWorker));
  EXPECT_THAT(job.spec.run_policy.success_rules[0].indexes, ElementsAre(0, 2, 3));
}

TEST(SuccessPolicyFields, AreRefusedWhereTheyMakeNoSense) {
  EXPECT_THAT(SuccessRuleProblems(R"([{"succeededCount": 1}])"),
              ElementsAre(HasSubstr("rules[0].replicaTypes: Required value")));
  EXPECT_THAT(SuccessRuleProblems(R"([{"replicaTypes": ["Worker"]}])"),
              ElementsAre(HasSubstr("must have succeededIndexes, succeededCount or both")));
  EXPECT_THAT(SuccessRuleProblems(R"([{"replicaTypes": ["Worker"], "succeededCount": 0}])"),
              ElementsAre(HasSubstr("must be 1 or more")));
  EXPECT_THAT(SuccessRuleProblems(R"([{"replicaTypes": ["Worker"], "succeededIndexes": "0-1",
                              "succeededCount": 3}])"),
              ElementsAre(HasSubstr("succeededIndexes has only 2")));
  EXPECT_THAT(SuccessRuleProblems(R"([{"replicaTypes": ["Chief"], "succeededCount": 1}])"),
              ElementsAre(HasSubstr("\"Chief\" is no replica type of this job")));
  EXPECT_THAT(SuccessRuleProblems(R"([{"replicaTypes": ["Worker"], "succeededIndexes": "2-1",
                              "succeededCount": 1}])"),
              ElementsAre(HasSubstr("must be indexes like 0,2-4")));
}

TEST(SuccessPolicyFields, WarnOfRulesThatNeverHold) {
  TfJob job = JobWithSuccessRules(R"([{"replicaTypes": ["Worker"], "succeededIndexes": "4"},
                          {"replicaTypes": ["Worker"], "succeededCount": 5},
                          {"replicaTypes": ["Worker"], "succeededCount": 4}])");
  job.spec.success_policy = kSuccessAllWorkers;
  std::vector<std::string> warnings;
  for (const FieldError& warning : Lint(job)) warnings.push_back(ToString(warning));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("spec.successPolicy: Warning: has no effect"),
                                    HasSubstr("rules[0]"), HasSubstr("rules[1]")));
}

TEST(SuccessRules, CountIndexesAsAJobDoes) {
  const SuccessRule all_of_some = {.indexes = {0, 2}};
  EXPECT_FALSE(Holds(all_of_some, {0, 1}, 4));
  EXPECT_TRUE(Holds(all_of_some, {0, 1, 2}, 4));
  const SuccessRule some_of_some = {.indexes = {0, 2, 3}, .count = 2};
  EXPECT_FALSE(Holds(some_of_some, {0, 1}, 4));
  EXPECT_TRUE(Holds(some_of_some, {0, 3}, 4));
  EXPECT_TRUE(Holds({.count = 2}, {1, 3}, 4));
  EXPECT_FALSE(Holds({.count = 2}, {1}, 4));
}

TEST(Indexes, AreWrittenAsRangesAndReadBack) {
  EXPECT_EQ(IndexRanges({0, 2, 3, 4, 9}), "0,2-4,9");
  EXPECT_EQ(ParseIndexes("0,2-4,9"), (std::set<int>{0, 2, 3, 4, 9}));
  EXPECT_EQ(ParseIndexes(""), std::set<int>());
  for (const char* text : {"a", "2-1", "-1", "0-1000000"}) {
    EXPECT_EQ(ParseIndexes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tfjob
