// The command line: old deployments' flags, mistakes, environment.
#include "operator/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<OperatorOptions> Parse(const std::vector<std::string>& arguments,
                                      const std::map<std::string, std::string>& environment = {}) {
  return ParseFlags(arguments, [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  });
}

TEST(Flags, HaveDefaults) {
  const auto options = Parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->leader_elect);
  EXPECT_EQ(options->leader_id, "1ca428e5.training-operator.kubeflow.org");
  EXPECT_THAT(options->namespaces, IsEmpty());
  EXPECT_THAT(options->notes, IsEmpty());
  EXPECT_FALSE(options->compat_v19);
}

TEST(Flags, TakeWhatTrainingOperatorTakes) {
  const auto options = Parse({"--metrics-bind-address=:9090",
                              "--health-probe-bind-address=127.0.0.1:9091",
                              "--leader-elect",
                              "--leader-election-id=x",
                              "--enable-scheme=tfjob",
                              "--enable-scheme=PyTorchJob",
                              "--gang-scheduler-name=volcano",
                              "--namespace=a",
                              "--controller-threads=3",
                              "--kube-api-qps=50",
                              "--kube-api-burst=100",
                              "--webhook-server-port=9443",
                              "--webhook-service-name=s",
                              "--webhook-secret-name=s",
                              "--kubeconfig=/k",
                              "--pytorch-init-container-image=i",
                              "--pytorch-init-container-template-file=f",
                              "--pytorch-init-container-max-tries=3",
                              "--mpi-kubectl-delivery-image=i",
                              "--zap-devel",
                              "--zap-encoder=json",
                              "--zap-log-level=debug",
                              "--zap-stacktrace-level=error",
                              "--zap-time-encoding=iso8601"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->metrics_address, ":9090");
  EXPECT_EQ(options->health_address, "127.0.0.1:9091");
  EXPECT_EQ(options->leader_id, "x");
  EXPECT_EQ(options->threads, 3);
  EXPECT_EQ(options->kubeconfig, "/k");
  EXPECT_EQ(options->log_format, base::LogFormat::kJson);
  EXPECT_EQ(options->log_level, base::LogLevel::kDebug);
  EXPECT_EQ(options->gang_scheduler, "volcano");
  EXPECT_EQ(options->notes.size(), 13u);
}

TEST(Flags, TakeTheLabelsAndExitCodesOfOldOperators) {
  EXPECT_FALSE(Parse({})->legacy_labels);
  EXPECT_TRUE(Parse({"--legacy-labels"})->legacy_labels);
  EXPECT_THAT(Parse({})->retryable_exit_codes, IsEmpty());
  EXPECT_THAT(Parse({"--retryable-exit-codes", "143,42,143"})->retryable_exit_codes,
              ElementsAre(42, 143));
  EXPECT_THAT(Parse({"--retryable-exit-codes=v1.4"})->retryable_exit_codes,
              ElementsAre(130, 137, 138, 143));
  EXPECT_THAT(
      Parse({"--retryable-exit-codes=v1.4", "--retryable-exit-codes="})->retryable_exit_codes,
      IsEmpty());
}

TEST(Flags, NameContainersThatNeverEnd) {
  EXPECT_TRUE(Parse({})->sidecar_containers.contains("istio-proxy"));
  EXPECT_THAT(Parse({"--sidecar-containers", "logs,proxy"})->sidecar_containers,
              ElementsAre("logs", "proxy"));
  EXPECT_THAT(Parse({"--sidecar-containers="})->sidecar_containers, IsEmpty());
  EXPECT_THAT(Parse({"--sidecar-containers=proxy,tensorflow"}).status().message(),
              HasSubstr("beside tensorflow"));
}

TEST(Flags, TakeWhatTfOperatorTakes) {
  const auto options =
      Parse({"-threadiness", "10", "--qps", "5", "--burst", "10", "--monitoring-port", "8443",
             "--resyc-period", "12h", "--json-log-format=false", "--enable-gang-scheduling",
             "--gang-scheduler-name", "", "--namespace", "b,c", "--master", "http://m",
             "-alsologtostderr"});
  EXPECT_THAT(options.status().message(), HasSubstr("no flag --alsologtostderr"));
  const auto good = Parse({"-threadiness",
                           "10",
                           "--qps",
                           "5",
                           "--burst",
                           "10",
                           "--monitoring-port",
                           "8443",
                           "--resyc-period",
                           "12h",
                           "--json-log-format=false",
                           "--enable-gang-scheduling",
                           "--gang-scheduler-name",
                           "",
                           "--namespace",
                           "b,c",
                           "--namespace=d",
                           "--master",
                           "http://m",
                           "--version"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->threads, 10);
  EXPECT_EQ(good->metrics_address, ":8443");
  EXPECT_THAT(good->namespaces, ElementsAre("b", "c", "d"));
  EXPECT_EQ(good->master, "http://m");
  EXPECT_TRUE(good->show_version);
}

TEST(Flags, NameTheImagesWhoseTasksSpeakTls) {
  EXPECT_THAT(Parse({})->task_tls_images, ElementsAre("trainyard/trainer", "trainyard-trainer"));
  EXPECT_THAT(Parse({"--task-tls-images=mine/trainer,host:5000/x"})->task_tls_images,
              ElementsAre("mine/trainer", "host:5000/x"));
  EXPECT_THAT(Parse({"--task-tls-images="})->task_tls_images, ElementsAre());
  EXPECT_THAT(Parse({"--task-tls-images=mine/trainer:v1"}).status().message(),
              HasSubstr("a repository without tag"));
}

TEST(Flags, NameAGangScheduler) {
  EXPECT_EQ(Parse({})->gang_scheduler, "");
  EXPECT_EQ(Parse({"--gang-scheduler-name=None"})->gang_scheduler, "");
  EXPECT_EQ(Parse({"--gang-scheduler-name=my.scheduler-2"})->gang_scheduler, "my.scheduler-2");
  // As tf-operator's two flags, in any order.
  EXPECT_EQ(Parse({"--enable-gang-scheduling"})->gang_scheduler, "volcano");
  EXPECT_EQ(Parse({"--enable-gang-scheduling", "--gang-scheduler-name=x"})->gang_scheduler, "x");
  EXPECT_EQ(Parse({"--gang-scheduler-name=x", "--enable-gang-scheduling"})->gang_scheduler, "x");
  EXPECT_EQ(Parse({"--gang-scheduler-name=x", "--enable-gang-scheduling=0"})->gang_scheduler, "");
}

TEST(Flags, SayWhatIsWrongAndWhatIsMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--leader-elct"}, "did you mean --leader-elect?"},
      {{"--controller-threads=0"}, "a whole number from 1"},
      {{"--controller-threads"}, "needs a value"},
      {{"--leader-elect=maybe"}, "must be true or false"},
      {{"--compat=v1.8"}, "must be v1.9 or none"},
      {{"--retryable-exit-codes=130,x"}, "\"130,x\": must be v1.4, or exit codes from 1 to 255"},
      {{"--retryable-exit-codes=0"}, "exit codes from 1 to 255"},
      {{"--legacy-labels=perhaps"}, "must be true or false"},
      {{"--namespace=Bad_Name"}, "the name of a namespace"},
      {{"--metrics-bind-address=8080"}, "an address such as"},
      {{"--default-clean-pod-policy=Some"}, "None, Running or All"},
      {{"--log-format=xml"}, "text or json"},
      {{"--gang-scheduler-name=my scheduler"}, "a scheduler such as volcano"},
      {{"--leader-election-lease-duration=5s"}, "renew deadline < lease duration"},
      {{"run"}, "only flags"},
      {{"--"}, "only flags"}};
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(Parse(arguments).status().message(), HasSubstr(message)) << arguments[0];
  }
}

TEST(Flags, EnableSchemeKnowsTheKindsInAnyCase) {  // K7
  EXPECT_TRUE(Parse({"--enable-scheme="}).ok());
  EXPECT_TRUE(Parse({"--enable-scheme=TFJOB"}).ok());
  EXPECT_THAT(Parse({"--enable-scheme=other"}).status().message(), HasSubstr("must be TFJob"));
  EXPECT_THAT(Parse({"--enable-scheme=mpijob"}).status().message(), HasSubstr("nothing else"));
}

TEST(Flags, ReadTheEnvironmentWhereTheyAreNotGiven) {
  const std::map<std::string, std::string> environment = {{"KUBEFLOW_NAMESPACE", "kf"},
                                                          {"MY_POD_NAMESPACE", "me"},
                                                          {"CUSTOM_CLUSTER_DOMAIN", "my.domain"}};
  const auto options = Parse({}, environment);
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->namespaces, ElementsAre("kf"));
  EXPECT_EQ(options->leader_namespace, "me");
  EXPECT_EQ(options->cluster_domain, "my.domain");
  EXPECT_THAT(Parse({"--namespace=x"}, environment)->namespaces, ElementsAre("x"));
}

TEST(Flags, HelpListsEachOfThem) {
  EXPECT_THAT(FlagsHelp(), HasSubstr("--namespace=VALUE"));
  EXPECT_THAT(FlagsHelp(), HasSubstr("--zap-devel"));
}

}  // namespace
}  // namespace tfjob
