// What a pod becomes on this machine: environments, command lines, GPUs, hosts, folders.
#include "operator/cli/local_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/str_cat.h"
#include "operator/cli/gpus.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LocalPod : public testing::Test {
 protected:
  LocalPod() : folder_(std::filesystem::temp_directory_path() / "trainyard-pod-XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    options_.job = "j";
    options_.namespace_name = "default";
    options_.work_dir = folder_;
    options_.program_dir = folder_ + "/bin";
    options_.inherited = {{"PATH", "/usr/bin:/bin"},
                          {"HOME", "/root"},
                          {"TF_CONFIG", "stale"},
                          {"CUDA_VISIBLE_DEVICES", "5"}};
    options_.sandbox = {Isolation::kNone, "because it is a test"};
  }
  ~LocalPod() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  absl::StatusOr<PodSetup> Prepare(const std::string& container, const std::string& more = "") {
    PodPreparer preparer(options_, {}, ports_);
    return preparer.Prepare(
        {.name = "j-worker-1",
         .type = "worker",
         .index = 1,
         .object = Json::parse(base::StrCat(
             R"({"metadata": {"name": "j-worker-1", "namespace": "default", "labels": {"a": "b"}},
                                     "spec": {"containers": [{"name": "tensorflow", "image": "x", )",
             container, "}]", more, "}}"))});
  }
  std::string folder_;
  LocalPodOptions options_;
  PortReserver ports_;
};

TEST_F(LocalPod, InheritsTheEnvironmentButNotWhoItIs) {
  const auto pod = Prepare(R"("command": ["true"], "env": [{"name": "HOME", "value": "/data"}])");
  ASSERT_TRUE(pod.ok()) << pod.status();
  const Environment& environment = pod->containers[0].environment;
  EXPECT_EQ(environment.at("HOME"), "/data");
  EXPECT_EQ(environment.at("HOSTNAME"), "j-worker-1");
  EXPECT_EQ(environment.at("TRAINYARD_METRICS_PORT"), base::StrCat(pod->metrics_port));
  EXPECT_FALSE(environment.contains("TF_CONFIG"));
  EXPECT_FALSE(environment.contains("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(pod->label, "worker-1");
}

TEST_F(LocalPod, ResolvesFieldsAndResources) {
  options_.cores = 6;
  const auto pod = Prepare(
      R"json("command": ["echo", "$(LABEL)", "$(CPU)", "$(MEMORY)", "$(NODE_CPU)"], "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}},
      "env": [{"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
              {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
              {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
              {"name": "NODE_CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}])json");
  ;
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_THAT(pod->containers[0].process.argv, ElementsAre("echo", "b", "2", "2048", "1500"));
}

TEST_F(LocalPod, RefusesVolumesWhereNamespacesAreNotPermitted) {
  const char* const kMount =
      R"("command": ["true"], "volumeMounts": [{"name": "d", "mountPath": "/data"}])";
  const char* const kVolume =
      R"(, "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "digits"}}])";
  const auto pod = Prepare(kMount, kVolume);
  ASSERT_FALSE(pod.ok());
  EXPECT_EQ(pod.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pod.status().message()),
              testing::AllOf(HasSubstr("pod j-worker-1"), HasSubstr("/data"),
                             HasSubstr("because it is a test"), HasSubstr("--no_sandbox")));
}

TEST_F(LocalPod, NeedsNoNamespaceForAPathThatIsInPlaceAlready) {
  const auto pod = Prepare(
      base::StrCat(R"("command": ["true"], "volumeMounts": [{"name": "d", "mountPath": ")", folder_,
                   R"("}])"),
      base::StrCat(R"(, "volumes": [{"name": "d", "hostPath": {"path": ")", folder_, R"("}}])"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_THAT(pod->containers[0].process.root, IsEmpty());
}

TEST_F(LocalPod, SaysWhereItLooksForTheTrainer) {
  const auto pod = Prepare(R"("command": ["trainer"])");
  EXPECT_THAT(std::string(pod.status().message()), HasSubstr(folder_ + "/bin/trainer"));
}

TEST_F(LocalPod, FindsTheFolderOfTheCheckpoints) {
  options_.no_sandbox = true;
  const auto pod = Prepare(
      R"("command": ["x", "--checkpoint_dir=/checkpoints/a"], "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}])",
      R"(, "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}])");
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(CheckpointFolder(*pod), folder_ + "/volumes/c/a");
}

TEST(TrainerImage, IsKnownByItsRepository) {
  for (const char* image :
       {"trainyard/trainer", "trainyard/trainer:latest", "host:5000/x/trainyard/trainer:v1",
        "trainyard-trainer", "ghcr.io/a/trainyard-trainer:1@sha256:00",
        "trainyard/trainer@sha256:00"}) {
    EXPECT_TRUE(IsTrainerImage(image)) << image;
  }
  for (const char* image : {"", "trainer", "trainyard/trainer-extra", "mytrainyard/trainer",
                            "tensorflow/tensorflow:2.14", "trainyard:trainer"}) {
    EXPECT_FALSE(IsTrainerImage(image)) << image;
  }
}

TEST(LocalHostsTest, RewritesOnlyKnownHostsWithTheirPort) {
  const LocalHosts hosts = {{"j-ps-0", {2222, "127.0.0.1:5"}}, {"j-ps-1", {2222, "127.0.0.1:6"}}};
  const std::pair<const char*, const char*> kTable[] = {
      {"--ps_hosts=j-ps-0:2222,j-ps-1:2222", "--ps_hosts=127.0.0.1:5,127.0.0.1:6"},
      {"grpc://j-ps-0.default.svc:2222", "grpc://127.0.0.1:5"},
      {"j-ps-0.default:2222/x", "127.0.0.1:5/x"},
      {"j-ps-0.default.svc.cluster.local:2222", "127.0.0.1:5"},
      {"j-ps-0.other.svc:2222", "j-ps-0.other.svc:2222"},
      {"j-ps-0:2223", "j-ps-0:2223"},
      {"j-ps-0:22222", "j-ps-0:22222"},
      {"j-ps-01:2222", "j-ps-01:2222"},
      {"my.j-ps-0:2222", "my.j-ps-0:2222"},
      {"j-ps-0", "j-ps-0"},
      {"j-ps-0:", "j-ps-0:"},
      {"", ""},
  };
  for (const auto& [text, expected] : kTable)
    EXPECT_EQ(RewriteHosts(text, hosts, "default"), expected);
}

TEST(RewriteHostsTest, KnowsTheSubdomainOfTheJob) {
  const LocalHosts hosts = {{"j-ps-0", {2222, "127.0.0.1:5", "net"}}};
  for (const char* text : {"j-ps-0:2222", "j-ps-0.net:2222", "j-ps-0.net.default.svc:2222",
                           "j-ps-0.net.default.svc.cluster.local:2222"}) {
    EXPECT_EQ(RewriteHosts(text, hosts, "default"), "127.0.0.1:5") << text;
  }
  EXPECT_EQ(RewriteHosts("j-ps-0.other:2222", hosts, "default"), "j-ps-0.other:2222");
}

TEST(RewritePathsTest, ReplacesWholePathsOnly) {
  const std::vector<Mount> mounts = {{"/w/d", "/data", false}, {"/w/raw", "/data/raw", false}};
  const std::pair<const char*, const char*> kTable[] = {
      {"/data", "/w/d"},
      {"--dir=/data/x", "--dir=/w/d/x"},
      {"/data/raw/x:/data", "/w/raw/x:/w/d"},
      {"/data/rawer", "/w/d/rawer"},
      {"/database /data-old /data.d", "/database /data-old /data.d"},
      {"/other/data", "/other/data"},
      {"x/data", "x/data"},
      {"cat '/data'", "cat '/w/d'"},
      {"file:///data", "file:///data"},
  };
  for (const auto& [text, expected] : kTable) EXPECT_EQ(RewritePaths(text, mounts), expected);
}

TEST(Gpus, AreFoundByFlagByEnvironmentAndByDevice) {
  EXPECT_THAT(*FindGpus("3", std::nullopt), ElementsAre("0", "1", "2"));
  EXPECT_THAT(*FindGpus("10,9,", "1"), ElementsAre("9", "10"));
  EXPECT_THAT(*FindGpus("0", std::nullopt), IsEmpty());
  EXPECT_THAT(*FindGpus(std::nullopt, "2,GPU-8932f937"), ElementsAre("2", "GPU-8932f937"));
  EXPECT_THAT(*FindGpus(std::nullopt, ""), IsEmpty());
  EXPECT_THAT(*FindGpus(std::nullopt, std::nullopt, "/no/such/folder"), IsEmpty());
  for (const char* bad : {"", "-1", "x", "1,1", "1,x", ",", "99999"})
    EXPECT_FALSE(FindGpus(bad, std::nullopt).ok()) << bad;
}

TEST(Gpus, ManifestsIndexesCountWithinWhatWasAssigned) {
  EXPECT_EQ(VisibleDevices({"4", "6"}, std::nullopt), "4,6");
  EXPECT_EQ(VisibleDevices({"4", "6"}, "1"), "6");
  EXPECT_EQ(VisibleDevices({"4", "6"}, "1, 0"), "6,4");
  EXPECT_EQ(VisibleDevices({"4"}, "1"), "");
  EXPECT_EQ(VisibleDevices({"4"}, ""), "");
  EXPECT_EQ(VisibleDevices({}, "0"), "");
}

TEST(Gpus, AreTakenLowestFirstAndGivenBack) {
  GpuPool pool({"0", "1", "2"});
  EXPECT_THAT(*pool.Take(2), ElementsAre("0", "1"));
  EXPECT_FALSE(pool.Take(2).has_value());
  pool.GiveBack({"0", "1"});
  EXPECT_THAT(*pool.Take(3), ElementsAre("0", "1", "2"));
}

TEST(Ports, AreHeldUntilReleasedAndStayTheSame) {
  PortReserver ports;
  const int port = *ports.Reserve("a");
  EXPECT_EQ(*ports.Reserve("a"), port);
  EXPECT_NE(*ports.Reserve("b"), port);
  PortReserver others;
  for (int i = 0; i < 50; ++i) EXPECT_NE(*others.Reserve(base::StrCat(i)), port);
  ports.Release("a");
  EXPECT_EQ(*ports.Reserve("a"), port);
}

}  // namespace
}  // namespace tfjob
