// Ends or fails a checkpoint writer at each of its system calls in turn: whatever happens, the
// newest complete checkpoint stays loadable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "base/exit_codes.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/test_folder.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts the calls and does something else at the n-th.
class TroubledFiles : public Files {
 public:
  enum class Trouble { kNone, kDie, kDieAfter, kNoSpace };
  TroubledFiles(Trouble trouble, int at) : trouble_(trouble), at_(at) {}
  int calls() const { return calls_; }

  int Open(const std::string& path, int flags) override {
    return Do([&] { return Files::Open(path, flags); });
  }
  ssize_t Write(int fd, const void* data, size_t size) override {
    if (trouble_ == Trouble::kDie && calls_ + 1 == at_) {
      // A torn write: half of the bytes reach the file.
      (void)Files::Write(fd, data, size / 2);
    }
    return Do([&] { return Files::Write(fd, data, size); });
  }
  int Sync(int fd) override {
    return Do([&] { return Files::Sync(fd); });
  }
  int Close(int fd) override {
    // A failing close still frees the descriptor.
    return Do([&] { return Files::Close(fd); }, [&] { Files::Close(fd); });
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Do([&] { return Files::Rename(from, to); });
  }
  int Unlink(const std::string& path) override {
    return Do([&] { return Files::Unlink(path); });
  }

 private:
  template <typename Call>
  auto Do(Call call, const std::function<void()>& instead = [] {}) -> decltype(call()) {
    const bool now = ++calls_ == at_;
    if (now && trouble_ == Trouble::kDie) ::_exit(9);
    if (now && trouble_ == Trouble::kNoSpace) {
      instead();
      errno = ENOSPC;
      return -1;
    }
    const auto result = call();
    if (now && trouble_ == Trouble::kDieAfter) ::_exit(9);
    return result;
  }

  const Trouble trouble_;
  const int at_;
  int calls_ = 0;
};
using Trouble = TroubledFiles::Trouble;

ShardState StateAt(int64_t step, int shard) {
  const std::vector<float> values(5, static_cast<float>(step));
  return {step, {{"v" + std::to_string(shard), {5}, 0, -1, values}}};
}

// Saves as the chief and two ps do, then sweeps.
absl::Status Save(const std::string& dir, int64_t step, Files* files) {
  const auto prefix = PrepareCheckpoint(dir, step, files);
  if (!prefix.ok()) return prefix.status();
  if (!*prefix) return absl::OkStatus();
  std::vector<std::string> entries;
  for (int shard = 0; shard < 2; ++shard) {
    const auto entry = WriteShard(StateAt(step, shard), **prefix, shard, 2, {}, files);
    if (!entry.ok()) return entry.status();
    entries.push_back(*entry);
  }
  const absl::Status status = FinishCheckpoint(**prefix, entries, files);
  if (!status.ok()) return status;
  return Sweep(dir, 1, "", files).status();
}

// The step that a restart would find; -1 for none. Checks the values on the way.
int64_t LoadableStep(const std::string& dir) {
  const auto newest = FindNewestComplete(dir);
  if (!newest.ok() || !*newest) return -1;
  const auto checkpoint = ReadTensors((*newest)->prefix);
  if (!checkpoint.ok()) return -1;
  const std::vector<float> expected(5, static_cast<float>((*newest)->step));
  EXPECT_EQ(checkpoint->tensors.at("v0").values, expected);
  EXPECT_EQ(checkpoint->tensors.at("v1").values, expected);
  EXPECT_EQ(checkpoint->global_step, (*newest)->step);
  return (*newest)->step;
}

int CallsOfOneSave() {
  const TestFolder folder;
  EXPECT_TRUE(Save(folder.path(), 1, Files::Real()).ok());
  TroubledFiles files(Trouble::kNone, 0);
  EXPECT_TRUE(Save(folder.path(), 2, &files).ok());
  return files.calls();
}

class DyingWriterTest : public ::testing::TestWithParam<Trouble> {};

TEST_P(DyingWriterTest, LeavesTheNewestCompleteOneLoadable) {
  const int calls = CallsOfOneSave();
  ASSERT_GT(calls, 25);
  int64_t before = 1;
  for (int at = 1; at <= calls; ++at) {
    SCOPED_TRACE(at);
    const TestFolder folder;
    ASSERT_TRUE(Save(folder.path(), 1, Files::Real()).ok());
    const pid_t child = ::fork();
    if (child == 0) {
      TroubledFiles files(GetParam(), at);
      (void)Save(folder.path(), 2, &files);
      ::_exit(0);
    }
    int wait_status = 0;
    ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
    ASSERT_EQ(WEXITSTATUS(wait_status), 9);
    const int64_t loadable = LoadableStep(folder.path());
    ASSERT_GE(loadable, before) << "a later death found an older checkpoint";
    before = loadable;
    // The next life saves and sweeps as if nothing had happened.
    ASSERT_TRUE(Save(folder.path(), 2, Files::Real()).ok());
    ASSERT_TRUE(Save(folder.path(), 3, Files::Real()).ok());
    EXPECT_EQ(LoadableStep(folder.path()), 3);
    EXPECT_THAT(*ListFolder(folder.path()),
                ElementsAre("checkpoint", "model.ckpt-3.data-00000-of-00002",
                            "model.ckpt-3.data-00001-of-00002", "model.ckpt-3.index"));
  }
  EXPECT_EQ(before, 2);
}

INSTANTIATE_TEST_SUITE_P(AtEveryCall, DyingWriterTest,
                         ::testing::Values(Trouble::kDie, Trouble::kDieAfter),
                         [](const ::testing::TestParamInfo<Trouble>& trouble) {
                           return trouble.param == Trouble::kDie ? "InPlaceOfTheCall"
                                                                 : "AfterTheCall";
                         });

TEST(FailingVolumeTest, KeepsThePreviousCheckpointAndNamesThePath) {
  const int calls = CallsOfOneSave();
  for (int at = 1; at <= calls; ++at) {
    SCOPED_TRACE(at);
    const TestFolder folder;
    ASSERT_TRUE(Save(folder.path(), 1, Files::Real()).ok());
    TroubledFiles files(Trouble::kNoSpace, at);
    const absl::Status status = Save(folder.path(), 2, &files);
    EXPECT_GE(LoadableStep(folder.path()), 1);
    if (status.ok()) continue;  // e.g. the close of a folder, which means nothing
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
    EXPECT_THAT(status.message(), HasSubstr(folder.path()));
    const auto names = ListFolder(folder.path());
    for (const std::string& name : *names) {
      EXPECT_EQ(name.find(kTemporaryMark), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace trainer
