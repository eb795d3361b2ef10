// Whole lives of jobs whose tasks speak TLS, against the fake API server: one Secret each, made
// before the pods, told to nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "base/log.h"
#include "base/task_tls.h"
#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/life_harness.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const LifeOptions kTls = {.task_tls_images = {"i"}};  // as Submit writes it

// The name that the Secret of job `name` has.
std::string SecretOf(const Life& life, const std::string& name) {
  return TaskTlsSecretName(FromJson(life.Job(name)).job);
}

// One entry of a Secret, decoded.
std::string DataOf(const Json& secret, const char* key) {
  std::string out;
  EXPECT_TRUE(absl::Base64Unescape(secret["data"].value(key, ""), &out)) << key;
  return out;
}

// The position of the first call of this kind, among all.
size_t FirstCall(Life& life, const std::string& verb, const std::string& plural) {
  const std::vector<kube::FakeCall> calls = life.server().Calls();
  const auto found = std::find_if(calls.begin(), calls.end(), [&](const kube::FakeCall& call) {
    return call.verb == verb && call.plural == plural;
  });
  return found - calls.begin();
}

TEST(TaskTlsLife, MakesOneSecretBeforeServicesAndPods) {
  Life life(kTls);
  life.Submit("j", {{"PS", 1}, {"Worker", 2}});
  life.Settle();
  ASSERT_THAT(life.Names(kube::kSecrets), ElementsAre(SecretOf(life, "j")));
  EXPECT_LT(FirstCall(life, "create", "secrets"), FirstCall(life, "create", "services"));
  EXPECT_LT(FirstCall(life, "create", "services"), FirstCall(life, "create", "pods"));
  const Json secret = life.server().Objects(kube::kSecrets)[0];
  EXPECT_THAT(secret["data"], SizeIs(3));
  EXPECT_THAT(DataOf(secret, base::kTaskTlsAuthority), StartsWith("-----BEGIN CERTIFICATE"));
  EXPECT_THAT(DataOf(secret, base::kTaskTlsCertificate), StartsWith("-----BEGIN CERTIFICATE"));
  EXPECT_THAT(DataOf(secret, base::kTaskTlsKey), StartsWith("-----BEGIN PRIVATE KEY"));
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["uid"], life.Job("j")["metadata"]["uid"]);
  for (const Json& pod : life.server().Objects(kube::kPods)) EXPECT_TRUE(HasTaskTls(pod));
  EXPECT_EQ(life.Job("j")["status"]["taskTls"], true);
}

TEST(TaskTlsLife, ARestartOfAPodCostsNoCallMore) {
  Life life(kTls);
  life.Submit("j", {{"PS", 1}, {"Worker", 2}});
  life.Settle();
  life.SetAll("Running");
  life.Settle();
  life.StartOperator();
  life.SetPod("j-worker-1", "Failed", 137);
  life.server().ClearCalls();
  life.Settle(absl::Minutes(1));
  EXPECT_EQ(life.server().Count("create", "pods"), 1);
  EXPECT_EQ(life.server().Count("create", "secrets"), 0);
  EXPECT_EQ(life.server().Count("get", "secrets"), 0);
}

TEST(TaskTlsLife, AForeignImageCostsNoCallMore) {
  const auto calls = [](const LifeOptions& options) {
    Life life(options);
    life.Submit("j", {{"PS", 1}, {"Worker", 2}});
    life.Settle();
    life.SetAll("Running");
    life.Settle();
    life.SetAll("Succeeded");
    life.Settle();
    EXPECT_THAT(life.Names(kube::kSecrets), IsEmpty());
    return life.CallsMade();
  };
  EXPECT_EQ(calls({.task_tls_images = {"trainyard/trainer"}}), calls({}));
}

TEST(TaskTlsLife, IsTheSameHoweverTheOperatorDies) {
  for (const bool lose_answer : {false, true}) {
    for (int write = 1; write <= 8; ++write) {
      Life life(kTls);
      life.transport().DieAfterWrite(write, lose_answer);
      life.Submit("j", {{"PS", 1}, {"Worker", 2}});
      life.Settle();
      EXPECT_THAT(life.Names(kube::kSecrets), ElementsAre(SecretOf(life, "j"))) << write;
      EXPECT_THAT(life.Names(kube::kPods), SizeIs(3)) << write;
      for (const Json& pod : life.server().Objects(kube::kPods)) {
        EXPECT_TRUE(HasTaskTls(pod)) << write;
      }
    }
  }
}

TEST(TaskTlsLife, AnotherJobOfTheNameGetsAnotherSecret) {
  Life life(kTls);
  life.Submit("j", {{"PS", 1}, {"Worker", 1}});
  life.Settle();
  const Json before = life.server().Objects(kube::kSecrets)[0];
  life.server().Remove(kube::kTfJobs, "ns", "j");
  life.Settle();
  EXPECT_THAT(life.Names(kube::kSecrets), IsEmpty());  // the garbage collector's work
  life.Submit("j", {{"PS", 1}, {"Worker", 1}});
  life.Settle();
  const Json after = life.server().Objects(kube::kSecrets)[0];
  EXPECT_NE(NameOf(after), NameOf(before));
  for (const char* key : {base::kTaskTlsAuthority, base::kTaskTlsCertificate, base::kTaskTlsKey}) {
    EXPECT_NE(after["data"][key], before["data"][key]);
  }
}

TEST(TaskTlsLife, AForeignSecretOfTheNameBlocksTheJob) {
  Life life(kTls);
  life.Submit("j", {{"PS", 1}, {"Worker", 1}});
  const std::string name = SecretOf(life, "j");
  life.server().Put(kube::kSecrets, {{"apiVersion", "v1"},
                                     {"kind", "Secret"},
                                     {"metadata", {{"name", name}, {"namespace", "ns"}}}});
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Names(kube::kPods), IsEmpty());
  EXPECT_THAT(life.Events(), Contains("SecretNameTaken: Secret " + name +
                                      " belongs to another owner; delete or rename it"));
  life.server().Remove(kube::kSecrets, "ns", name);
  life.Settle(absl::Minutes(5));
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created"));
  EXPECT_THAT(life.Names(kube::kPods), SizeIs(2));
}

TEST(TaskTlsLife, ARefusedSecretBlocksTheJobWithAdvice) {
  Life life(kTls);
  life.RefuseCreations("secrets", {.code = 403, .reason = "Forbidden"});
  life.Submit("j", {{"PS", 1}, {"Worker", 1}});
  life.Settle();
  EXPECT_THAT(life.Conditions("j"), ElementsAre("Created", "Blocked"));
  EXPECT_THAT(life.Events(), Contains(testing::AllOf(StartsWith("FailedCreateSecret: "),
                                                     HasSubstr("task-tls: \"false\""))));
  EXPECT_THAT(life.Names(kube::kServices), IsEmpty());
}

TEST(TaskTlsLife, IsToldToNobody) {
  base::ConfigureLog(base::LogFormat::kText, base::LogLevel::kDebug);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::string told;
  std::vector<std::string> secrets = {"PRIVATE KEY"};
  {
    Life life(kTls);
    life.Submit("j", {{"PS", 1}, {"Worker", 1}});
    life.Settle();
    const Json secret = life.server().Objects(kube::kSecrets)[0];
    secrets.push_back(secret["data"].value(base::kTaskTlsKey, ""));
    told = life.controller().Debug().dump() + life.Job("j").dump();
    for (const kube::Resource& kind : {kube::kPods, kube::kServices, kube::kEvents}) {
      for (const Json& object : life.server().Objects(kind)) told += object.dump();
    }
  }
  told += testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout();
  base::ConfigureLog(base::LogFormat::kText, base::LogLevel::kInfo);
  EXPECT_THAT(told, HasSubstr("taskTls"));
  for (const std::string& secret : secrets) {
    EXPECT_THAT(told, Not(HasSubstr(secret.substr(0, 40))));
    EXPECT_THAT(told, Not(HasSubstr(secret.substr(secret.size() / 2, 40))));
  }
}

}  // namespace
}  // namespace tfjob
