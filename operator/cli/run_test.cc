// `trainyard run` with real processes: what containers see, how they end and what becomes of the
// job.
#include "operator/cli/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/cluster_spec.h"
#include "base/str_cat.h"
#include "operator/cli/run_harness.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What follows `prefix` on its line.
std::string After(const std::string& output, const std::string& prefix) {
  const size_t at = output.find(prefix);
  if (at == std::string::npos) return "";
  return output.substr(at + prefix.size(), output.find('\n', at) - at - prefix.size());
}

TEST(Run, GivesEachTaskItsTfConfigWithLoopbackPorts) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("PS", "echo ps-says=$TF_CONFIG", {.restart = "Never"})
                  .Replica("Worker", "echo $TASK_INDEX-says=$TF_CONFIG", {.replicas = 2})
                  .Spec("successPolicy: AllWorkers")
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const auto config = base::ParseTfConfig(After(outcome.output, " | 1-says="));
  ASSERT_TRUE(config.ok()) << config.status() << outcome.output;
  EXPECT_EQ(config->task, (base::Task{"worker", 1}));
  EXPECT_EQ(config->cluster.TaskCount("ps"), 1);
  EXPECT_EQ(config->cluster.TaskCount("worker"), 2);
  EXPECT_THAT(config->cluster.Address({"ps", 0}), testing::StartsWith("127.0.0.1:"));
  const auto of_ps = base::ParseTfConfig(After(outcome.output, " | ps-says="));
  ASSERT_TRUE(of_ps.ok()) << outcome.output;
  EXPECT_EQ(of_ps->cluster, config->cluster);
}

TEST(Run, TasksCanListenOnTheirPortsAndReachEachOther) {
  TestRun run;
  const std::string server = run.WriteFile("server.py", R"(
import json, os, socket
config = json.loads(os.environ["TF_CONFIG"])
host, port = config["cluster"]["ps"][0].split(":")
listener = socket.socket()
listener.bind((host, int(port)))
listener.listen()
connection, _ = listener.accept()
connection.sendall(b"weights")
)");
  const std::string client = run.WriteFile("client.py", R"(
import socket, sys, time
host, port = sys.argv[1].removeprefix("--ps_hosts=").split(":")
deadline = time.monotonic() + 10
while True:
    try:
        print("got", socket.create_connection((host, int(port))).recv(100).decode())
        break
    except ConnectionRefusedError:
        if time.monotonic() > deadline: raise
        time.sleep(0.02)
)");
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("PS", "", {.container = base::StrCat("command: [python3, ", server, "]")})
          .Replica("Worker", "",
                   {.container = base::StrCat("command: [python3, ", client,
                                              ", \"--ps_hosts=$(PS_HOSTS)\"]")})
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("worker-0  | got weights"));
}

TEST(Run, ReplacesHostNamesThatTheManifestSpellsOut) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("PS", "sleep 60")
                  .Replica("Worker", "echo $0 $1 \"=\" $PS_HOSTS",
                           {.container = "args: ['j-ps-0.default.svc:2222', 'other-ps-0:2222']"})
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const std::string line = After(outcome.output, "worker-0  | ");
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  ASSERT_EQ(words.size(), 4) << line;
  EXPECT_EQ(words[0], words[3]);
  EXPECT_EQ(words[1], "other-ps-0:2222");
}

TEST(Run, ExpandsVariablesAsKubernetesDoes) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("Worker", "",
                   {.container = "env: [{name: A, value: one}, {name: B, value: '$(A)-two'}, "
                                 "{name: C, value: '$$(A)'}, "
                                 "{name: LATE, value: '$(LATER)'}, {name: LATER, value: x}, "
                                 "{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, "
                                 "{name: INDEX, valueFrom: {fieldRef: {fieldPath: "
                                 "'metadata.labels[''training.kubeflow.org/replica-index'']'}}}], "
                                 "command: [echo, '$(A)', '$(B)', '$(C)', '$(LATE)', '$(POD)', "
                                 "'$(INDEX)', '$(NONE)', '$$(B)', '$(JOB_NAME)']"})
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(After(outcome.output, "worker-0  | "),
            "one one-two $(A) $(LATER) j-worker-0 0 $(NONE) $(B) worker");
}

TEST(Run, GivesOneProcessPerContainerAndRunsInitContainersFirst) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica(
              "Worker",
              "cat /shared/first; echo second >> /shared/first; sleep 0.2; cat /shared/side",
              {.container = "volumeMounts: [{name: s, mountPath: /shared}]",
               .pod =
                   "volumes: [{name: s, emptyDir: {}}], initContainers: [{name: prepare, image: x, "
                   "command: [sh, -c, 'echo prepared > /shared/first'], volumeMounts: [{name: s, "
                   "mountPath: /shared}]}, "
                   "{name: side, image: x, restartPolicy: Always, command: [sh, -c, 'echo beside > "
                   "/shared/side; sleep 60'], "
                   "volumeMounts: [{name: s, mountPath: /shared}]}]"})
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| prepared\n"));
  EXPECT_THAT(outcome.output, HasSubstr("| beside\n"));
  EXPECT_LT(outcome.duration, absl::Seconds(10));
}

TEST(Run, HandsOutDisjointGpusAndNoneToThoseWithoutLimits) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("PS", "echo devices=[$CUDA_VISIBLE_DEVICES]; sleep 60")
                  .Replica("Worker", "echo devices=[$CUDA_VISIBLE_DEVICES]",
                           {.replicas = 2, .container = "resources: {limits: {nvidia.com/gpu: 2}}"})
                  .Spec("successPolicy: AllWorkers")
                  .Yaml(),
              {"--gpus=4"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ps-0      | devices=[]"));
  EXPECT_THAT(outcome.output, HasSubstr("worker-0  | devices=[0,1]"));
  EXPECT_THAT(outcome.output, HasSubstr("worker-1  | devices=[2,3]"));
}

TEST(Run, KeepsAPodPendingUntilGpusAreFree) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("Worker", "echo devices=[$CUDA_VISIBLE_DEVICES]; sleep 0.2",
                   {.replicas = 2, .container = "resources: {limits: {nvidia.com/gpu: '1'}}"})
          .Spec("successPolicy: AllWorkers")
          .Yaml(),
      {"--gpus=7,"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("worker-1 is pending: it asks for 1 nvidia.com/gpu, 0 of 1 are free"));
  EXPECT_THAT(outcome.output, HasSubstr("worker-1  | devices=[7]"));
}

TEST(Run, RefusesAPodThatAsksForMoreGpusThanThereAre) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("Worker", "true", {.container = "resources: {limits: {nvidia.com/gpu: 3}}"})
          .Yaml(),
      {"--gpus=2"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("asks for 3 nvidia.com/gpu and this machine has 2"));
}

TEST(Run, SharesTheCoresUnlessTheUserSaysOtherwise) {
  TestRun run;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("PS", "sleep 60")
                  .Replica("Chief", "echo threads=$OMP_NUM_THREADS; sleep 0.2",
                           {.container = "env: [{name: OMP_NUM_THREADS, value: '7'}]"})
                  .Replica("Worker", "echo threads=$OMP_NUM_THREADS")
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("chief-0   | threads=7"));
  EXPECT_THAT(outcome.output,
              HasSubstr(base::StrCat("worker-0  | threads=", std::max(1L, cores / 2))));
}

TEST(Run, WritesWholeLinesAndALogFileForEachPod) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("Worker",
                           "for i in 1 2 3 4 5; do printf 'first half %s,' $i; printf ' second "
                           "half\\n' >&2; done; printf end",
                           {.replicas = 3})
                  .Spec("successPolicy: AllWorkers")
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (int worker = 0; worker < 3; ++worker) {
    for (int i = 1; i <= 5; ++i) {
      EXPECT_THAT(outcome.output, HasSubstr(base::StrCat("worker-", worker, "  | first half ", i,
                                                         ", second half\n")));
    }
    EXPECT_THAT(outcome.output, HasSubstr(base::StrCat("worker-", worker, "  | end\n")));
    EXPECT_THAT(run.ReadFile(base::StrCat("work/logs/j-worker-", worker, ".log")),
                testing::EndsWith("second half\nend"));
  }
  EXPECT_THAT(outcome.output, Not(HasSubstr("\033[")));
}

TEST(Run, ColoursPrefixesWhenAsked) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("Worker", "echo hello").Yaml(), {"--color=always"});
  EXPECT_THAT(outcome.output, HasSubstr("worker-0  |\033[0m hello\n"));
}

TEST(Run, RunsTwentyPodsAtOnce) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("many")
          .Replica("Worker",
                   "touch /all/$TASK_INDEX; for i in $(seq 500); do [ $(ls /all | wc -l) = 20 ] && "
                   "exit 0; sleep 0.02; done; exit 1",
                   {.replicas = 20,
                    .container = "volumeMounts: [{name: all, mountPath: /all}]",
                    .pod = "volumes: [{name: all, persistentVolumeClaim: {claimName: all}}]"})
          .Spec("successPolicy: AllWorkers")
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty());
}

TEST(Run, RunsTheTrainerForItsImageAndFindsItBesideTheProgramOrOnPath) {
  TestRun run;
  run.WriteFile("bin/trainer", "#!/bin/sh\necho trainer got \"$@\"\n");
  std::filesystem::permissions(run.folder() + "/bin/trainer", std::filesystem::perms::owner_all);
  run.SetEnv("PATH", run.folder() + "/bin:/usr/bin:/bin");
  std::string yaml =
      TestJob("j").Replica("Worker", "", {.container = "args: [--preset=mnist-mlp]"}).Yaml();
  yaml.replace(yaml.find("image: test"), 11, "image: 'registry:5000/trainyard/trainer:v1'");
  const RunOutcome outcome = run.Run(yaml);
  if (std::filesystem::exists(std::filesystem::path(TRAINYARD_BINARY).parent_path() / "trainer")) {
    EXPECT_THAT(outcome.output, Not(HasSubstr("not on PATH")));
  } else {
    EXPECT_THAT(outcome.output, HasSubstr("trainer got --preset=mnist-mlp"));
  }
  EXPECT_THAT(outcome.output, Not(HasSubstr("images are not used")));
}

}  // namespace
}  // namespace tfjob
