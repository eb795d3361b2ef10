// `trainyard run` with real processes: however it ends, no process is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/str_cat.h"
#include "operator/cli/run_harness.h"

namespace tfjob {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One pod that ends when told, one that does not listen, one whose processes hide: a grandchild in
// a session of its own, whose parent has gone.
TestJob Stubborn() {
  TestJob job("stubborn");
  job.Replica("PS", "trap '' TERM INT HUP; echo ready; while :; do sleep 0.1; done");
  job.Replica("Chief", "echo ready; exec sleep 1000");
  job.Replica("Worker",
              "python3 -c 'import os, signal, time\n"
              "if os.fork() == 0:\n"
              "  os.setsid()\n"
              "  if os.fork() == 0:\n"
              "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
              "    print(\"ready\", flush=True)\n"
              "    time.sleep(1000)\n"
              "  os._exit(0)\n"
              "os.wait()'; sleep 1000 & wait");
  return job;
}

void AwaitReady(TestRun& run) {
  for (const char* pod : {"ps-0", "chief-0", "worker-0"}) {
    ASSERT_TRUE(
        run.WaitFor(base::StrCat(pod, std::string(9 - std::string(pod).size(), ' '), " | ready")));
  }
}

class RunSignals : public testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> Flags() const {
    return std::string(GetParam()).empty() ? std::vector<std::string>{}
                                           : std::vector<std::string>{GetParam()};
  }
};

TEST_P(RunSignals, CtrlCEndsEverythingWithinFiveSeconds) {
  TestRun run;
  run.Start(Stubborn().Yaml(), Flags());
  AwaitReady(run);
  EXPECT_GE(run.CountProcesses(), 4);
  run.Signal(SIGINT);
  const RunOutcome outcome = run.Wait(absl::Seconds(5));
  EXPECT_EQ(outcome.code, 130) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("TFJob stubborn interrupted"));
  EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty());
}

TEST_P(RunSignals, SecondCtrlCEndsEverythingAtOnce) {
  TestRun run;
  run.Start(Stubborn().Yaml(), Flags());
  AwaitReady(run);
  run.Signal(SIGINT);
  ASSERT_TRUE(run.WaitFor("ending all pods"));
  const absl::Time second = absl::Now();
  run.Signal(SIGINT);
  const RunOutcome outcome = run.Wait(absl::Seconds(5));
  EXPECT_EQ(outcome.code, 130) << outcome.output;
  EXPECT_LT(absl::Now() - second, absl::Seconds(2));
  EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty());
}

TEST_P(RunSignals, SigtermGivesPodsTheirGrace) {
  TestRun run;
  run.Start(
      TestJob("j")
          .Replica(
              "Worker",
              "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
          .Yaml(),
      Flags());
  ASSERT_TRUE(run.WaitFor("| ready"));
  run.Signal(SIGTERM);
  const RunOutcome outcome = run.Wait(absl::Seconds(5));
  EXPECT_EQ(outcome.code, 143) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("| saved"));
}

TEST_P(RunSignals, KillingTheProgramEndsItsPods) {
  TestRun run;
  run.Start(Stubborn().Yaml(), Flags());
  AwaitReady(run);
  run.Signal(SIGKILL);
  EXPECT_THAT(run.Survivors(absl::Seconds(5)), IsEmpty());
  EXPECT_EQ(run.Wait(absl::Seconds(5)).code, 137);
}

TEST_P(RunSignals, KillingTheProgramWhileItStartsEndsItsPods) {
  for (int i = 0; i < 10; ++i) {
    TestRun run;
    run.Start(TestJob("j").Replica("Worker", "echo ready; sleep 1000", {.replicas = 10}).Yaml(),
              Flags());
    ASSERT_TRUE(run.WaitFor("| ready"));  // the first of ten
    run.Signal(SIGKILL);
    EXPECT_EQ(run.Wait(absl::Seconds(5)).code, 137);
    EXPECT_THAT(run.Survivors(absl::Seconds(5)), IsEmpty());
  }
}

TEST_P(RunSignals, AnEndedContainerTakesItsDescendantsAlong) {
  TestRun run;
  const RunOutcome outcome = run.Run(
      TestJob("j")
          .Replica("Worker", "setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 0.2; exit 0")
          .Yaml(),
      Flags());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_LT(outcome.duration, absl::Seconds(4));
  EXPECT_THAT(run.Survivors(absl::ZeroDuration()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutNamespaces, RunSignals, testing::Values("", "--no_sandbox"),
                         [](const auto& info) {
                           return std::string(info.param).empty() ? "Sandbox" : "NoSandbox";
                         });

TEST(RunOutput, AReaderThatGoesAwayDoesNotEndTheRun) {
  TestRun run;
  run.Start(TestJob("j").Replica("Worker", "for i in $(seq 20000); do echo line $i; done").Yaml());
  EXPECT_TRUE(run.WaitFor("line 3"));
  const RunOutcome outcome = run.Wait();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("line 20000"));
}

}  // namespace
}  // namespace tfjob
