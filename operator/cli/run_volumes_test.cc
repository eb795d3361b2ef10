// `trainyard run` with real processes: volumes at their mount paths, and manifests that are
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/str_cat.h"
#include "operator/cli/run_harness.h"
#include "operator/cli/sandbox.h"

namespace tfjob {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class RunVolumes : public testing::Test {
 protected:
  void SetUp() override {
    const SandboxSupport support = ProbeSandbox();
    if (support.isolation == Isolation::kNone) GTEST_SKIP() << support.why_not;
  }
  TestRun run_;
};

constexpr char kClaim[] = "volumes: [{name: d, persistentVolumeClaim: {claimName: digits}}]";

TEST_F(RunVolumes, AreSharedBetweenPodsAndSeenAtTheirMountPath) {
  const RunOutcome outcome = run_.Run(
      TestJob("j")
          .Replica("Chief",
                   "for i in $(seq 500); do [ -e /no-such-folder/data/x ] && exec cat "
                   "/no-such-folder/data/x; sleep 0.02; done; exit 1",
                   {.container = "volumeMounts: [{name: d, mountPath: /no-such-folder/data}]",
                    .pod = kClaim})
          .Replica(
              "Worker",
              "echo from the worker > /elsewhere/y; mv /elsewhere/y /elsewhere/x; ls -d "
              "/no-such-folder; sleep 60",
              {.container = "volumeMounts: [{name: d, mountPath: /elsewhere/}]", .pod = kClaim})
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("chief-0   | from the worker"));
  EXPECT_EQ(run_.ReadFile("work/volumes/digits/x"), "from the worker\n");
  EXPECT_FALSE(fs::exists("/no-such-folder"));
  EXPECT_FALSE(fs::exists("/elsewhere"));
}

// The script of a task that says who may read its certificate, and what it is.
constexpr char kShowTls[] =
    "cd ${TRAINYARD_TLS_DIR:-/nowhere} && stat -c '%n %a' ca.crt tls.crt tls.key && cksum < "
    "tls.crt";

TEST_F(RunVolumes, HoldTheCertificateOfTheTasksWhereTheJobAsksForOne) {
  const std::string yaml = TestJob("j")
                               .Replica("PS", "sleep 60")
                               .Replica("Worker", kShowTls, {.replicas = 2})
                               .Spec("successPolicy: AllWorkers")
                               .Yaml();
  std::string asking = yaml;
  const std::string name = "metadata: {name: j";
  ASSERT_NE(asking.find(name), std::string::npos) << yaml;
  asking.insert(asking.find(name) + name.size(), ", annotations: {trainyard.dev/task-tls: 'true'}");
  const RunOutcome outcome = run_.Run(asking);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* file : {"ca.crt 600", "tls.crt 600", "tls.key 600"}) {
    EXPECT_THAT(outcome.output, HasSubstr(base::StrCat("worker-0  | ", file)));
  }
  EXPECT_EQ(run_.ReadFile("work/logs/j-worker-0.log"), run_.ReadFile("work/logs/j-worker-1.log"));
  EXPECT_NE(run_.Run(yaml).code, 0);  // nobody asked
}

TEST_F(RunVolumes, LeaveTheRestOfTheMachineAsItIs) {
  const std::string file = run_.WriteFile("beside/file", "content");
  // The mount point is missing in a folder that the machine has.
  const RunOutcome outcome = run_.Run(
      TestJob("j")
          .Replica("Worker",
                   base::StrCat("cat ", file, " && ls -A ", run_.folder(), "/beside; echo out > ",
                                file, "; cat /proc/self/comm; ls /proc | grep -c '^[0-9]'"),
                   {.container = base::StrCat("volumeMounts: [{name: d, mountPath: ", run_.folder(),
                                              "/beside/new/deep}]"),
                    .pod = kClaim})
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| content"));
  EXPECT_THAT(outcome.output, HasSubstr("| new\n"));
  EXPECT_FALSE(fs::exists(run_.folder() + "/beside/new"));
  EXPECT_EQ(run_.ReadFile("beside/file"), "out\n");
}

TEST_F(RunVolumes, CanBeNestedReadOnlyAndParts) {
  const RunOutcome outcome =
      run_.Run(TestJob("j")
                   .Replica("Worker",
                            "echo a > /data/part/file; cat /only/file; echo b > /only/file || echo "
                            "refused; ls /data",
                            {.container = "volumeMounts: [{name: scratch, mountPath: "
                                          "/data/scratch}, {name: d, mountPath: /data}, "
                                          "{name: d, mountPath: /only, subPathExpr: '$(PART)', "
                                          "readOnly: true}], env: [{name: PART, value: part}]",
                             .pod = "volumes: [{name: scratch, emptyDir: {}}, {name: d, "
                                    "persistentVolumeClaim: {claimName: digits}}]"})
                   .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| a\n"));
  EXPECT_THAT(outcome.output, HasSubstr("| refused\n"));
  EXPECT_THAT(outcome.output, HasSubstr("| part\n"));
  EXPECT_THAT(outcome.output, HasSubstr("| scratch\n"));
  EXPECT_EQ(run_.ReadFile("work/volumes/digits/part/file"), "a\n");
}

TEST_F(RunVolumes, EmptyDirIsEachPodsOwnAndHostPathIsTheHosts) {
  run_.WriteFile("host/file", "of the host\n");
  const RunOutcome outcome = run_.Run(
      TestJob("j")
          .Replica(
              "Worker",
              "ls -A /scratch | wc -l; touch /scratch/$TASK_INDEX; sleep 0.2; ls /scratch; cat "
              "/host/file",
              {.replicas = 2,
               .container =
                   "volumeMounts: [{name: s, mountPath: /scratch}, {name: h, mountPath: /host}]",
               .pod = base::StrCat("volumes: [{name: s, emptyDir: {}}, {name: h, hostPath: {path: ",
                                   run_.folder(), "/host}}]")})
          .Spec("successPolicy: AllWorkers")
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* line :
       {"worker-0  | 0\n", "worker-1  | 0\n", "worker-0  | of the host\n", "worker-1  | 1\n"}) {
    EXPECT_THAT(outcome.output, HasSubstr(line));
  }
}

TEST_F(RunVolumes, ReplicasHaveClaimsOfTheirOwnWhichStay) {
  const std::string yaml =
      TestJob("j")
          .Spec("successPolicy: AllWorkers")
          .Replica("Worker", "cat /data/x; echo $TASK_INDEX > /data/x",
                   {.replicas = 2,
                    .container = "volumeMounts: [{name: own, mountPath: /data}]",
                    .type = "volumeClaimTemplates: [{metadata: {name: own}, spec: {}}]"})
          .Yaml();
  EXPECT_EQ(run_.Run(yaml).code, 0);
  EXPECT_EQ(run_.ReadFile("work/volumes/own-j-worker-0/x"), "0\n");
  EXPECT_EQ(run_.ReadFile("work/volumes/own-j-worker-1/x"), "1\n");
  EXPECT_THAT(run_.Run(yaml).output, HasSubstr("worker-1  | 1"));
}

TEST_F(RunVolumes, VolumeFlagMapsAClaimToAFolder) {
  run_.WriteFile("mine/x", "mapped\n");
  const RunOutcome outcome = run_.Run(
      TestJob("j")
          .Replica("Worker", "cat /data/x",
                   {.container = "volumeMounts: [{name: d, mountPath: /data}]", .pod = kClaim})
          .Yaml(),
      {"--volume=digits=mine", "--volume=other=mine"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| mapped"));
  EXPECT_THAT(outcome.output, HasSubstr("--volume other: no pod mounts"));
}

TEST_F(RunVolumes, ShowConfigMapsSecretsAndFieldsOfTheSameFile) {
  const std::string yaml = base::StrCat(
      TestJob("j")
          .Replica(
              "Worker", "cat /config/train.py /secret/key /info/name; echo; echo $A $P_B",
              {.container =
                   "volumeMounts: [{name: c, mountPath: /config}, {name: s, mountPath: /secret}, "
                   "{name: i, mountPath: /info}], "
                   "env: [{name: A, valueFrom: {configMapKeyRef: {name: script, key: train.py}}}], "
                   "envFrom: [{prefix: P_, configMapRef: {name: more}}]",
               .pod = "volumes: [{name: c, configMap: {name: script}}, {name: s, secret: "
                      "{secretName: hush}}, "
                      "{name: i, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: "
                      "metadata.name}}]}}]"})
          .Yaml(),
      "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\ndata: {train.py: "
      "\"print(1)\"}\n"
      "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {B: bee, 1no: skipped}\n"
      "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hush}\ndata: {key: c2VjcmV0}\n");
  const RunOutcome outcome = run_.Run(yaml);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| print(1)secretj-worker-0\n"));
  EXPECT_THAT(outcome.output, HasSubstr("| print(1) bee\n"));
}

TEST_F(RunVolumes, WorkForOthersThanRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "not root: then the other tests show it";
  constexpr unsigned kNobody = 65534;
  ASSERT_EQ(chown(run_.folder().c_str(), kNobody, kNobody), 0);
  run_.SetUser(kNobody);
  const RunOutcome outcome = run_.Run(
      TestJob("j")
          .Replica("Worker", "id -u; echo mine > /no-such-folder/data/x",
                   {.container = "volumeMounts: [{name: d, mountPath: /no-such-folder/data}]",
                    .pod = kClaim})
          .Yaml());
  if (outcome.code == 99) GTEST_SKIP() << "that user may not run " << TRAINYARD_BINARY;
  if (outcome.Says("does not permit mount namespaces")) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| 65534\n"));
  EXPECT_EQ(run_.ReadFile("work/volumes/digits/x"), "mine\n");
}

TEST(RunNoSandbox, RewritesMountPathsToFolders) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("Worker",
                           "echo x > /data/raw/file; echo $WHERE; cat $WHERE; ls -d /database "
                           "/other/data || true",
                           {.container = "volumeMounts: [{name: d, mountPath: /data}], env: "
                                         "[{name: WHERE, value: /data/raw/file}]",
                            .pod = kClaim})
                  .Yaml(),
              {"--no_sandbox", base::StrCat(
                                   "--volume=digits=",
                                   [&] {
                                     run.WriteFile("d/raw/old", "");
                                     return run.folder();
                                   }(),
                                   "/d")});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr(base::StrCat("| ", run.folder(), "/d/raw/file\n")));
  EXPECT_EQ(run.ReadFile("d/raw/file"), "x\n");
}

TEST(RunRefusals, SayWhatIsWrongAndExitWithTwo) {
  const std::string good = TestJob("j").Replica("Worker", "true").Yaml();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string yaml = good;
    yaml.replace(yaml.find(from), from.size(), to);
    return yaml;
  };
  const auto with = [](TestJob::Options options, const char* script = "true") {
    return TestJob("j").Replica("Worker", script, std::move(options)).Yaml();
  };
  const struct {
    std::string yaml;
    std::vector<std::string> flags;
    std::string says;
  } kTable[] = {
      {"{", {}, "job.yaml:"},
      {"", {}, "no TFJob"},
      {"kind: ConfigMap\nmetadata: {name: x}\n", {}, "ConfigMap"},
      {replaced("kind: TFJob", "kind: PyTorchJob"), {}, "no TFJob"},
      {replaced("name: tensorflow", "name: main"), {}, "tensorflow"},
      {replaced("{name: j}", "{name: J_J}"), {}, "metadata.name"},
      {base::StrCat(good, "---\n", good), {}, "--job"},
      {good, {"--job=other"}, "no TFJob named other"},
      {with({}, ""), {}, "no command"},
      {with({.container = "command: [no-such-program-at-all]"}),
       {},
       "is not on PATH of this machine"},
      {with({.container = "command: [/no/such/file]"}),
       {},
       "cannot run \"/no/such/file\": No such file"},
      {with({.container = "command: [/etc/passwd]"}), {}, "Permission denied"},
      {with({.container = "workingDir: /no/such/folder"}),
       {},
       "workingDir /no/such/folder: No such file"},
      {with({.container = "volumeMounts: [{name: d, mountPath: /data}]"}),
       {},
       "volume \"d\": spec.volumes has no volume"},
      {with({.container = "volumeMounts: [{name: d, mountPath: /data}]",
             .pod = "volumes: [{name: d, configMap: {name: gone}}]"}),
       {},
       "ConfigMap \"gone\" is not in the manifest"},
      {with({.container = "volumeMounts: [{name: d, mountPath: /data}]",
             .pod = "volumes: [{name: d, hostPath: {path: /no/such}}]"}),
       {},
       "hostPath /no/such does not exist"},
      {with({.container = "volumeMounts: [{name: d, mountPath: /data, subPath: ../up}]",
             .pod = kClaim}),
       {},
       "must stay inside"},
      {with(
           {.container = "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.nothing}}}]"}),
       {},
       "metadata.nothing"},
      {with({.container = "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"}),
       {},
       "Secret \"s\""},
      {with({.container = "resources: {limits: {nvidia.com/gpu: 1.5}}"}), {}, "nvidia.com/gpu"},
      {good, {"--volume=nothing"}, "NAME=FOLDER"},
      {good, {"--volume=a=/no/such/folder"}, "No such file"},
      {good, {"--gpus=many"}, "--gpus many"},
      {good, {"--grace=9"}, "--grace 9"},
      {good, {"--no_such_flag"}, "no_such_flag"},
  };
  for (const auto& row : kTable) {
    TestRun run;
    const RunOutcome outcome = run.Run(row.yaml, row.flags);
    EXPECT_EQ(outcome.code, 2) << row.says << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(row.says));
    EXPECT_THAT(outcome.output, Not(HasSubstr("succeeded"))) << row.says;
  }
}

}  // namespace
}  // namespace tfjob
