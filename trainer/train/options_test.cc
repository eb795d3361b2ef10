#include "trainer/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

TEST(OptionsTest, TakesTheFlagsOfTheClassicScripts) {
  const auto options = ParseOptions({"--job_name=worker", "--task_id", "1", "--ps_hosts=a:1",
                                     "--worker_hosts=b:1,c:1", "--sync_replicas",
                                     "--learning_rate=0.8", "--train_steps=200"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job_name, "worker");
  EXPECT_EQ(options->task_index, 1);
  EXPECT_TRUE(options->sync_replicas);
  EXPECT_EQ(options->train_steps, 200);
  EXPECT_DOUBLE_EQ(*options->learning_rate, 0.8);
}

TEST(OptionsTest, BooleanFlagsTakeValuesAndNegations) {
  EXPECT_FALSE(ParseOptions({"--same_node=false"})->same_node);
  EXPECT_FALSE(ParseOptions({"--nosame_node"})->same_node);
  EXPECT_TRUE(ParseOptions({})->same_node);
  EXPECT_FALSE(ParseOptions({"--noallow_soft_placement"})->allow_soft_placement);
}

TEST(OptionsTest, TheLastOfARepeatedFlagCounts) {
  const auto options = ParseOptions({"--train_steps=1", "--train_steps=2"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->train_steps, 2);
}

struct BadCase {
  std::string name;
  std::vector<std::string> args;
  std::vector<std::string> said;  // parts of the message
};

class BadOptionsTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadOptionsTest, SaysWhatIsWrongAndExitsWithTwo) {
  const auto options = ParseOptions(GetParam().args);
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(base::ExitCodeFor(options.status()), base::kExitUsage);
  for (const std::string& part : GetParam().said) {
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadOptionsTest,
    ::testing::Values(
        BadCase{"UnknownFlag", {"--taske_id=1"}, {"--taske_id", "did you mean --task_id?"}},
        BadCase{"QuotedValue", {"--job_name='ps'"}, {"--job_name", "'ps'", "shell quotes"}},
        BadCase{"QuotedNextValue", {"--job_name", "\"ps\""}, {"--job_name", "shell quotes"}},
        BadCase{"UnknownJob", {"--job_name=wroker"}, {"--job_name", "did you mean worker?"}},
        BadCase{"NotANumber", {"--train_steps=many"}, {"--train_steps"}},
        BadCase{"NegativeSteps", {"--train_steps=-1"}, {"--train_steps: -1 is outside"}},
        BadCase{"UnknownStrategy", {"--strategy=asynch"}, {"--strategy", "none of auto, local"}},
        BadCase{"UnknownPlacement", {"--placement=balance"}, {"did you mean balanced?"}},
        BadCase{"UnknownDtype", {"--wire_dtype=f16"}, {"--wire_dtype", "f32, bf16"}},
        BadCase{"Stray", {"worker"}, {"unexpected argument `worker`"}},
        BadCase{"MemoryFraction",
                {"--per_process_gpu_memory_fraction=1.5"},
                {"per_process_gpu_memory_fraction", "outside (0, 1]"}},
        BadCase{"AllAtOnce",
                {"--batch_size=0", "--momentun=1", "--max_to_keep=0"},
                {"--momentun", "did you mean --momentum?"}},
        BadCase{"AllValuesAtOnce",
                {"--batch_size=0", "--max_to_keep=0"},
                {"--batch_size", "--max_to_keep"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trainer
