// `trainyard run` with real processes: restart, success, clean-up and other policies, and exit
// codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "operator/cli/run_harness.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RunPolicies, EndWithTheCodeOfTheTable) {
  const struct {
    const char* restart;
    const char* script;
    int expected;
  } kTable[] = {
      {"Never", "exit 0", 0},     {"Never", "exit 1", 1},       {"Never", "exit 2", 2},
      {"Never", "exit 3", 3},     {"Never", "exit 4", 4},       {"Never", "exit 5", 1},
      {"Never", "exit 138", 1},   {"Never", "kill -9 $$$$", 1}, {"Never", "kill -TERM $$$$", 1},
      {"ExitCode", "exit 0", 0},  {"ExitCode", "exit 1", 1},    {"ExitCode", "exit 3", 3},
      {"OnFailure", "exit 0", 0},
  };
  for (const auto& row : kTable) {
    TestRun run;
    const RunOutcome outcome =
        run.Run(TestJob("j").Replica("Worker", row.script, {.restart = row.restart}).Yaml());
    EXPECT_EQ(outcome.code, row.expected) << row.restart << ": " << row.script << "\n"
                                          << outcome.output;
  }
}

TEST(RunPolicies, WarnOfOldFieldsThatItTakes) {
  TestRun run;
  const RunOutcome outcome = run.Run(TestJob("j")
                                         .Replica("Worker", "exit 1", {.restart = "OnFailure"})
                                         .Spec("backoffLimit: 0")
                                         .Yaml());
  EXPECT_THAT(outcome.output, HasSubstr("warning: spec.backoffLimit: belongs in "
                                        "spec.runPolicy.backoffLimit; taken as if it stood there"));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
}

TEST(RunPolicies, ReportsTheExitCodeOfASignal) {
  TestRun run;
  const RunOutcome outcome = run.Run(TestJob("j").Replica("Worker", "kill -9 $$$$").Yaml());
  EXPECT_THAT(outcome.output, HasSubstr("worker-0 has exited with code 137 (SIGKILL)"));
  EXPECT_THAT(outcome.output, HasSubstr("worker-0  exit 137"));
}

// A script that fails with `code` until it has run `times` times; counts in a volume.
std::string FailsUntil(int times, int code) {
  return base::StrCat("echo x >> /state/runs; [ $(wc -l < /state/runs) -ge ", times, " ] || exit ",
                      code, "; echo at last");
}

TestJob::Options WithState(const std::string& restart) {
  return {.restart = restart,
          .container = "volumeMounts: [{name: state, mountPath: /state}]",
          .pod = "volumes: [{name: state, persistentVolumeClaim: {claimName: state}}]"};
}

TEST(RunPolicies, RestartsInPlaceOnFailure) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("Worker", FailsUntil(4, 1), WithState("OnFailure")).Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.ReadFile("work/volumes/state/runs"), "x\nx\nx\nx\n");
  EXPECT_THAT(outcome.output, HasSubstr("worker-0 has exited with code 1; restart 3 in 500ms"));
  EXPECT_THAT(outcome.output, HasSubstr("3 restarts"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("is restarting because")));  // in place: no condition
}

TEST(RunPolicies, RestartsAlwaysEvenAfterSuccess) {
  TestRun run;
  run.Start(TestJob("j")
                .Replica("Worker", "sleep 60")
                .Replica("PS", "echo again", {.restart = "Always"})
                .Yaml());
  EXPECT_TRUE(run.WaitFor("ps-0 has finished; restart 2"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 130);
}

TEST(RunPolicies, ReplacesAPodWithARetryableExitCode) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("Worker", FailsUntil(3, 138), WithState("ExitCode")).Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.ReadFile("work/volumes/state/runs"), "x\nx\nx\n");
  EXPECT_THAT(outcome.output, HasSubstr("job j is restarting because Worker replica(s) failed."));
}

TEST(RunPolicies, TakesTheCodeOfThePodThatFailedForGood) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("Worker",
                   "echo x >> /state/runs; [ $(wc -l < /state/runs) -ge 2 ] && exit 3; exit 137",
                   WithState("ExitCode"))
          .Yaml());
  EXPECT_EQ(outcome.code, 3) << outcome.output;
}

TEST(RunPolicies, GivesUpAtTheBackoffLimit) {
  TestRun run;
  const RunOutcome outcome = run.Run(TestJob("j")
                                         .Replica("Worker", "exit 3", {.restart = "OnFailure"})
                                         .Policy("backoffLimit: 2")
                                         .Yaml());
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("reached the specified backoff limit"));
}

TEST(RunPolicies, EndsAtTheActiveDeadline) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("Worker", "sleep 60").Policy("activeDeadlineSeconds: 1").Yaml());
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("active longer than specified deadline"));
  EXPECT_LT(outcome.duration, absl::Seconds(5));
  EXPECT_GT(outcome.duration, absl::Seconds(1));
}

TEST(RunPolicies, SucceedsWithTheChiefWhateverWorkersDo) {
  TestRun run;
  const RunOutcome outcome = run.Run(TestJob("j")
                                         .Replica("Chief", "sleep 0.2; exit 0")
                                         .Replica("Worker", "sleep 60", {.replicas = 2})
                                         .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty());
}

TEST(RunPolicies, SucceedsWithWorkerZeroByDefault) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("Worker", "[ $TASK_INDEX = 0 ] || exec sleep 60", {.replicas = 3})
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("worker-2  stopped, exit 143"));
}

TEST(RunPolicies, WaitsForAllWorkersIfAsked) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("Worker", "[ $TASK_INDEX = 0 ] || sleep 0.6; echo done", {.replicas = 3})
                  .Spec("successPolicy: AllWorkers")
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "| done\n"), 3) << outcome.output;
}

TEST(RunPolicies, FailsWhenAParameterServerFails) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("PS", "exit 1").Replica("Worker", "sleep 60").Yaml());
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("PS replica(s) failed"));
}

TEST(RunPolicies, EndsParameterServersWithTheJobUnderEveryCleanPodPolicy) {
  for (const char* policy : {"Running", "All", "None"}) {
    TestRun run;
    const RunOutcome outcome = run.Run(
        TestJob("j")
            .Replica("PS", "trap 'echo told to end; exit 0' TERM; while :; do sleep 0.05; done")
            .Replica("Worker", "sleep 0.2")
            .Policy(base::StrCat("cleanPodPolicy: ", policy))
            .Yaml());
    EXPECT_EQ(outcome.code, 0) << policy << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("ps-0      | told to end")) << policy;
    EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty()) << policy;
  }
}

TEST(RunPolicies, LetsParameterServersEndByThemselves) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j")
                  .Replica("PS", "trap 'echo told to end; exit 1' TERM; sleep 0.6; echo by myself")
                  .Replica("Worker", "sleep 0.3")
                  .Policy("cleanPodPolicy: Running")
                  .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("by myself"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("told to end\n")));
}

TEST(RunPolicies, RefusesASuspendedJobUnlessResumed) {
  const std::string yaml =
      TestJob("j").Replica("Worker", "echo ran").Policy("suspend: true").Yaml();
  TestRun run;
  const RunOutcome outcome = run.Run(yaml);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("is suspended"));
  EXPECT_THAT(outcome.output, HasSubstr("--resume"));
  const RunOutcome resumed = run.Run(yaml, {"--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("| ran\n"));
}

TEST(RunPolicies, SaysWhenNothingIsLeftToRun) {
  TestRun run;
  const RunOutcome outcome = run.Run(TestJob("j").Replica("PS", "true", {.replicas = 2}).Yaml());
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("nothing is left to run"));
}

TEST(RunPolicies, ReportsConditionsAndFoldersAtTheEnd) {
  TestRun run;
  const RunOutcome outcome =
      run.Run(TestJob("j").Replica("Worker", "true", WithState("Never")).Yaml());
  for (const char* text :
       {"TFJob j succeeded after", "worker-0  exit 0", "Created=True", "Running=False",
        "Succeeded=True", "/work/logs/j-worker-0.log", "volume state: "}) {
    EXPECT_THAT(outcome.output, HasSubstr(text));
  }
}

TEST(RunPolicies, StartTypesInOrder) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Spec("startupPolicy: {startupPolicyOrder: InOrder}")
          .Replica("PS", "sleep 100",
                   {.pod = "initContainers: [{name: slow, image: i, command: [sleep, '1']}]"})
          .Replica("Worker", "echo here I am")
          .Yaml());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const size_t ps = outcome.output.find("ps-0/slow has finished");
  ASSERT_NE(ps, std::string::npos) << outcome.output;
  EXPECT_LT(ps, outcome.output.find("here I am"));
}

#ifndef TRAINYARD_SANITIZED
// The shortest stallSeconds there is takes a minute.
TEST(RunPolicies, FailAStalledTraining) {
  constexpr char kServer[] =
      "exec python3 -c 'import http.server, os\n"
      "class Same(http.server.BaseHTTPRequestHandler):\n"
      "  def do_GET(self):\n"
      "    self.send_response(200)\n"
      "    self.end_headers()\n"
      "    self.wfile.write(b\"{\\\"global_step\\\":7}\")\n"
      "http.server.HTTPServer((\"127.0.0.1\", int(os.environ[\"TRAINYARD_METRICS_PORT\"])), "
      "Same).serve_forever()'";
  TestRun run;
  run.Start(TestJob("j")
                .Spec("progress: {port: 9100, stallSeconds: 60, stallAction: FailJob}")
                .Replica("Worker", kServer)
                .Yaml());
  const RunOutcome outcome = run.Wait(absl::Minutes(2));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("pod j-worker-0 made no step for 60 s"));
  EXPECT_GE(outcome.duration, absl::Seconds(60));
}
#endif

}  // namespace
}  // namespace tfjob
