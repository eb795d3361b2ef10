#include "trainer/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/exit_codes.h"
#include "trainer/checkpoint/checkpoint_names.h"
#include "trainer/data/test_folder.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<float> CountFrom(int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

Variable MakeVariable(std::string name, std::vector<int64_t> shape, int64_t offset) {
  Variable variable;
  variable.name = std::move(name);
  variable.size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  variable.shape = std::move(shape);
  variable.offset = offset;
  return variable;
}

class CheckpointTest : public ::testing::Test {
 protected:
  // Two shards: shard 0 has the first rows of w (6, 2) and its average, shard 1 the rest and b (2).
  std::vector<ShardState> TwoShards(int64_t step) {
    const float first = static_cast<float>(step);
    ShardState a = {step,
                    {{"w", {6, 2}, 0, 4, CountFrom(8, first)},
                     {"w/ExponentialMovingAverage", {6, 2}, 0, 4, CountFrom(8, first + 50)}}};
    ShardState b = {step,
                    {{"w", {6, 2}, 4, 2, CountFrom(4, first + 8)},
                     {"w/ExponentialMovingAverage", {6, 2}, 4, 2, CountFrom(4, first + 58)},
                     {"b", {2}, 0, -1, {-1, -2}}}};
    return {a, b};
  }

  absl::Status Save(int64_t step) {
    auto prefix = PrepareCheckpoint(dir_, step);
    if (!prefix.ok()) return prefix.status();
    if (!*prefix) return absl::AlreadyExistsError("");
    const std::vector<ShardState> shards = TwoShards(step);
    std::vector<std::string> entries;
    for (int i = 0; i < 2; ++i) {
      auto entry = WriteShard(shards[static_cast<size_t>(i)], **prefix, i, 2);
      if (!entry.ok()) return entry.status();
      entries.push_back(*entry);
    }
    return FinishCheckpoint(**prefix, entries);
  }

  std::string NewestPrefix() {
    const auto newest = FindNewestComplete(dir_);
    return newest.ok() && *newest ? (*newest)->prefix : "";
  }

  TestFolder folder_;
  const std::string dir_ = folder_.path() + "/run/checkpoints";
  const std::vector<Variable> variables_ = {MakeVariable("w", {6, 2}, 0),
                                            MakeVariable("b", {2}, 12)};
};

TEST_F(CheckpointTest, HasTensorFlowsFileNames) {
  ASSERT_TRUE(Save(7).ok());
  EXPECT_THAT(*ListFolder(dir_),
              ElementsAre("checkpoint", "model.ckpt-7.data-00000-of-00002",
                          "model.ckpt-7.data-00001-of-00002", "model.ckpt-7.index"));
}

TEST_F(CheckpointTest, ListsAllCheckpointsWithRelativePaths) {
  ASSERT_TRUE(Save(7).ok());
  ASSERT_TRUE(Save(12).ok());
  EXPECT_EQ(folder_.Read("run/checkpoints/checkpoint"),
            "model_checkpoint_path: \"model.ckpt-12\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-7\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-12\"\n");
}

TEST_F(CheckpointTest, RestoresIntoAnyNumberOfShards) {
  ASSERT_TRUE(Save(7).ok());
  ShardState wanted;
  wanted.slices = {{"w", {6, 2}, 3, 2, {}}, {"b", {2}, 0, -1, {}}, {"w", {6, 2}, 0, -1, {}}};
  const auto state = ReadSlices(NewestPrefix(), wanted);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->global_step, 7);
  EXPECT_EQ(state->slices[0].values, CountFrom(4, 13));
  EXPECT_THAT(state->slices[1].values, ElementsAre(-1, -2));
  EXPECT_EQ(state->slices[2].values, CountFrom(12, 7));
}

TEST_F(CheckpointTest, WritesAdamsPowersAsTensorFlowDoes) {
  const auto prefix = PrepareCheckpoint(dir_, 3);
  OptimizerOptions adam;
  adam.beta1 = 0.5f;
  std::vector<std::string> entries;
  for (int shard = 0; shard < 2; ++shard) {
    const std::string name = "v" + std::to_string(shard);
    const ShardState state = {
        3, {{name + "/Adam", {2}, 0, -1, {0, 0}}, {name + "/Adam_1", {2}, 0, -1, {0, 0}}}};
    entries.push_back(*WriteShard(state, **prefix, shard, 2, adam));
  }
  ASSERT_TRUE(FinishCheckpoint(**prefix, entries).ok());
  const auto checkpoint = ReadTensors(**prefix);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_FLOAT_EQ(checkpoint->tensors.at("beta1_power").values[0], 0.0625f);
  EXPECT_FLOAT_EQ(checkpoint->tensors.at("beta2_power").values[0],
                  static_cast<float>(std::pow(0.999, 4)));
  EXPECT_THAT(checkpoint->tensors.at("beta1_power").shape, IsEmpty());
}

TEST_F(CheckpointTest, AnEmptyShardIsSavedToo) {
  const auto prefix = PrepareCheckpoint(dir_, 3);
  const std::string first = *WriteShard({3, {{"b", {2}, 0, -1, {1, 2}}}}, **prefix, 0, 2);
  const std::string second = *WriteShard({3, {}}, **prefix, 1, 2);
  ASSERT_TRUE(FinishCheckpoint(**prefix, {first, second}).ok());
  EXPECT_EQ(NewestPrefix(), **prefix);
}

TEST_F(CheckpointTest, FindsNothingInANewOrMissingFolder) {
  EXPECT_EQ(*FindNewestComplete(dir_), std::nullopt);
  ASSERT_TRUE(MakeFolders(Files::Real(), dir_).ok());
  EXPECT_EQ(*FindNewestComplete(dir_), std::nullopt);
}

TEST_F(CheckpointTest, FindsTheHighestStepNotTheLastName) {
  ASSERT_TRUE(Save(9).ok());
  ASSERT_TRUE(Save(10).ok());
  EXPECT_EQ((*FindNewestComplete(dir_))->step, 10);
}

TEST_F(CheckpointTest, SkipsIncompleteCheckpoints) {
  ASSERT_TRUE(Save(1).ok());
  const std::string complete = NewestPrefix();
  ASSERT_TRUE(Save(2).ok());
  std::filesystem::remove(CheckpointPrefix(dir_, 2) + ".index");
  EXPECT_EQ(NewestPrefix(), complete);
  ASSERT_TRUE(Save(2).ok());
  std::filesystem::remove(CheckpointPrefix(dir_, 2) + ".data-00001-of-00002");
  EXPECT_EQ(NewestPrefix(), complete);
  ASSERT_TRUE(Save(2).ok());
  folder_.FlipByte("run/checkpoints/model.ckpt-2.data-00000-of-00002", 0);
  EXPECT_EQ(NewestPrefix(), complete);
  ASSERT_TRUE(Save(2).ok());
  folder_.Write("run/checkpoints/model.ckpt-2.index", "");
  EXPECT_EQ(NewestPrefix(), complete);
}

TEST_F(CheckpointTest, NamesWhatItSkips) {
  ASSERT_TRUE(Save(2).ok());
  std::filesystem::remove(CheckpointPrefix(dir_, 2) + ".index");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(NewestPrefix(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("skipped an incomplete checkpoint"),
                    HasSubstr("model.ckpt-2.index is missing")));
}

TEST_F(CheckpointTest, DoesNotOverwriteACompleteOneOfTheSameStep) {
  ASSERT_TRUE(Save(2).ok());
  EXPECT_EQ(*PrepareCheckpoint(dir_, 2), std::nullopt);
  EXPECT_EQ(NewestPrefix(), CheckpointPrefix(dir_, 2));
}

TEST_F(CheckpointTest, SweepKeepsTheNewestOnes) {
  for (const int64_t step : {1, 2, 3, 10}) ASSERT_TRUE(Save(step).ok());
  EXPECT_EQ(*Sweep(dir_, 2), 6);
  EXPECT_EQ(folder_.Read("run/checkpoints/checkpoint"),
            "model_checkpoint_path: \"model.ckpt-10\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-3\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-10\"\n");
  EXPECT_EQ(ListFolder(dir_)->size(), 7u);
  EXPECT_EQ(*Sweep(dir_, 2), 0);
}

TEST_F(CheckpointTest, SweepRemovesLeftoversButNotOtherPeoplesFiles) {
  ASSERT_TRUE(Save(5).ok());
  for (const char* name :
       {"model.ckpt-9.data-00000-of-00002", "model.ckpt-7.index.tmp-1-2", "checkpoint.tmp-1-3",
        "model.ckpt-6.index", "notes.txt", "model.ckpt-8.meta", "other.ckpt-1.index"}) {
    folder_.Write(std::string("run/checkpoints/") + name, "x");
  }
  EXPECT_EQ(*Sweep(dir_, 0, CheckpointPrefix(dir_, 9)), 3);
  EXPECT_THAT(
      *ListFolder(dir_),
      ElementsAre("checkpoint", "model.ckpt-5.data-00000-of-00002",
                  "model.ckpt-5.data-00001-of-00002", "model.ckpt-5.index", "model.ckpt-8.meta",
                  "model.ckpt-9.data-00000-of-00002", "notes.txt", "other.ckpt-1.index"));
}

TEST_F(CheckpointTest, SweepNeverRemovesTheNewestCompleteOne) {
  ASSERT_TRUE(Save(5).ok());
  folder_.Write("run/checkpoints/model.ckpt-6.index", "x");
  folder_.Write("run/checkpoints/model.ckpt-7.data-00000-of-00001", "x");
  ASSERT_TRUE(Sweep(dir_, 1).ok());
  EXPECT_EQ(NewestPrefix(), CheckpointPrefix(dir_, 5));
}

TEST_F(CheckpointTest, SaysThatTheFolderIsNotShared) {
  const auto prefix = PrepareCheckpoint(dir_, 2);
  const std::vector<ShardState> shards = TwoShards(2);
  const std::string first = *WriteShard(shards[0], **prefix, 0, 2);
  const std::string second = *WriteShard(shards[1], **prefix, 1, 2);
  std::filesystem::remove(**prefix + ".data-00001-of-00002");
  const absl::Status status = FinishCheckpoint(**prefix, {first, second});
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(status.message(), HasSubstr("volume shared by all tasks"));
  EXPECT_EQ(NewestPrefix(), "");
}

TEST_F(CheckpointTest, RefusesAnswersOfOtherShards) {
  const auto prefix = PrepareCheckpoint(dir_, 2);
  const std::vector<ShardState> shards = TwoShards(2);
  const std::string first = *WriteShard(shards[0], **prefix, 0, 2);
  EXPECT_FALSE(FinishCheckpoint(**prefix, {first, first}).ok());
  EXPECT_FALSE(FinishCheckpoint(**prefix, {first}).ok());
  EXPECT_FALSE(FinishCheckpoint(**prefix, {first, "garbage"}).ok());
}

TEST_F(CheckpointTest, AFittingModelHasNoDifferences) {
  ASSERT_TRUE(Save(2).ok());
  EXPECT_TRUE(CompareToModel(NewestPrefix(), variables_).ok());
}

TEST_F(CheckpointTest, ListsAllDifferencesToAModel) {
  ASSERT_TRUE(Save(2).ok());
  const std::vector<Variable> other = {MakeVariable("w", {6, 3}, 0), MakeVariable("c", {2}, 18)};
  const absl::Status status = CompareToModel(NewestPrefix(), other);
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("w: the checkpoint has shape [6,2], the model [6,3]"),
                    HasSubstr("c [2] is missing in the checkpoint"),
                    HasSubstr("b [2] is in the checkpoint but not in the model"),
                    Not(HasSubstr("Average"))));
}

TEST_F(CheckpointTest, ReadingSlicesListsWhatIsMissing) {
  ASSERT_TRUE(Save(2).ok());
  const auto state =
      ReadSlices(NewestPrefix(), {0, {{"w/Adam", {6, 2}, 0, -1, {}}, {"b", {3}, 0, -1, {}}}});
  EXPECT_EQ(base::ExitCodeFor(state.status()), base::kExitData);
  EXPECT_THAT(state.status().message(), AllOf(HasSubstr("w/Adam [6,2] is missing"),
                                              HasSubstr("b: the checkpoint has shape [2]")));
}

TEST_F(CheckpointTest, FillsParametersWithVariablesOrAverages) {
  ASSERT_TRUE(Save(2).ok());
  const auto checkpoint = ReadTensors(NewestPrefix());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<float> parameters(14);
  ASSERT_TRUE(FillParameters(*checkpoint, variables_, false, parameters).ok());
  EXPECT_EQ(parameters[0], 2);
  EXPECT_EQ(parameters[12], -1);
  ASSERT_TRUE(FillParameters(*checkpoint, variables_, true, parameters).ok());
  EXPECT_EQ(parameters[0], 52);
  EXPECT_EQ(parameters[12], -1);  // has no average
}

TEST_F(CheckpointTest, TheHooksOfAPsWriteAndRead) {
  const auto prefix = PrepareCheckpoint(dir_, 4);
  const auto entry = MakeShardWriter({})({4, {{"b", {2}, 0, -1, {1, 2}}}}, **prefix, 0, 1);
  ASSERT_TRUE(entry.ok()) << entry.status();
  ASSERT_TRUE(FinishCheckpoint(**prefix, {*entry}).ok());
  const auto state = MakeShardReader()(**prefix, {0, {{"b", {2}, 0, -1, {}}}});
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->slices[0].values, ElementsAre(1, 2));
}

TEST(CheckpointNamesTest, KnowsItsOwnFilesOnly) {
  using Kind = CheckpointFileName::Kind;
  EXPECT_EQ(ParseCheckpointFileName("model.ckpt-12.index")->step, 12);
  EXPECT_EQ(ParseCheckpointFileName("model.ckpt-12.data-00000-of-00001")->kind, Kind::kData);
  EXPECT_EQ(ParseCheckpointFileName("model.ckpt-12.index.tmp-5-0")->kind, Kind::kTemporary);
  EXPECT_EQ(ParseCheckpointFileName("checkpoint.tmp-5-0")->step, -1);
  for (const char* name :
       {"checkpoint", "model.ckpt-12.meta", "model.ckpt-.index", "model.ckpt-x.index",
        "model.ckpt-012.index", "model.ckpt-99999999999999999999.index", "model.ckpt-1.data-0-of-",
        "amodel.ckpt-1.index", "", "model.ckpt-1"}) {
    EXPECT_FALSE(ParseCheckpointFileName(name)) << name;
  }
}

}  // namespace
}  // namespace trainer
