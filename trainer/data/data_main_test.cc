#include "trainer/data/data_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_example.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

struct Result {
  int exit_code;
  std::string out;
  std::string error;
};

Result RunData(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "data");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int exit_code = DataMain(static_cast<int>(argv.size()), argv.data());
  std::string out = testing::internal::GetCapturedStdout();
  return {exit_code, std::move(out), testing::internal::GetCapturedStderr()};
}

TEST(DataMainTest, SynthesizesThenConverts) {
  TempFolder folder;
  const std::string idx = folder.File("idx");
  const Result drawn =
      RunData({"synthesize", "--data_dir", idx, "--train=120", "--test", "20", "--seed=3"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  EXPECT_THAT(drawn.out, HasSubstr("--data_dir=" + idx));
  const std::string records = folder.File("records");
  const Result converted =
      RunData({"to-tfrecord", "--data_dir=" + idx, "--output_dir=" + records, "--files=3"});
  EXPECT_EQ(converted.exit_code, 0) << converted.error;
  const auto files = FindRecordFiles(records);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->train.size(), 3u);
  EXPECT_EQ(files->validation.size(), 1u);
  const auto loaded = LoadIdxFolder(idx, {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(LoadImageRecords(files->train)->pixels, loaded->train->pixels);
  EXPECT_EQ(LoadImageRecords(files->test)->pixels, loaded->test->pixels);
}

TEST(DataMainTest, HelpIsNoError) {
  const Result help = RunData({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("synthesize"));
  EXPECT_THAT(RunData({"download", "--help"}).out, HasSubstr("--mirror"));
}

struct BadUse {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;
};

TEST(DataMainTest, BadUseSaysWhatIsWrongAndWhatToDo) {
  TempFolder folder;
  WriteFile(folder.File("plain"), "");
  const std::string dir = "--data_dir=" + folder.path();
  const std::vector<BadUse> table = {
      {{}, base::kExitUsage, "expected synthesize, download or to-tfrecord"},
      {{"sinthesize"}, base::kExitUsage, "did you mean synthesize?"},
      {{"synthesize"}, base::kExitUsage, "--data_dir is required"},
      {{"synthesize", dir, "--sead=1"}, base::kExitUsage, "--sead=1; did you mean --seed?"},
      {{"synthesize", dir, "--train=0"}, base::kExitUsage, "--train"},
      {{"synthesize", dir, "--train=many"}, base::kExitUsage, "many"},
      {{"synthesize", dir, "--train"}, base::kExitUsage, "--train"},
      {{"synthesize", "--data_dir=" + folder.File("plain/x")}, base::kExitData, "plain"},
      {{"download", dir}, base::kExitUsage, "--mirror is required"},
      {{"download", "--mirror=http://127.0.0.1:1"}, base::kExitUsage, "--data_dir is required"},
      {{"download", dir, "--mirror=nowhere"}, base::kExitUsage, "'nowhere'"},
      {{"download", dir, "--mirror=http://127.0.0.1:1"}, base::kExitCluster, "127.0.0.1:1"},
      {{"to-tfrecord", dir}, base::kExitUsage, "--output_dir is required"},
      {{"to-tfrecord", dir, "--output_dir=" + folder.path()}, base::kExitData, "train-images-idx3"},
      {{"to-tfrecord", dir, "--output_dir=x", "--files=0"}, base::kExitUsage, "--files"},
  };
  for (const BadUse& bad : table) {
    const Result result = RunData(bad.arguments);
    SCOPED_TRACE(bad.message);
    EXPECT_EQ(result.exit_code, bad.exit_code);
    EXPECT_THAT(result.error, HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace trainer
