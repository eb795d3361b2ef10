#include "trainer/data/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/exit_codes.h"
#include "trainer/data/test_folder.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Fails one kind of call.
class FailingFiles : public Files {
 public:
  ssize_t Write(int fd, const void* data, size_t size) override {
    if (write_error == 0) return Files::Write(fd, data, std::min<size_t>(size, 3));
    errno = write_error;
    return -1;
  }
  int Sync(int fd) override {
    if (sync_error == 0) return Files::Sync(fd);
    errno = sync_error;
    return -1;
  }
  int Open(const std::string& path, int flags) override {
    if (open_error == 0) return Files::Open(path, flags);
    errno = open_error;
    return -1;
  }
  int write_error = 0;
  int sync_error = 0;
  int open_error = 0;
};

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const TestFolder folder;
  auto file = DurableFile::Create(Files::Real(), folder.path() + "/a");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("content").ok());
  EXPECT_EQ(folder.Read("a"), "");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(folder.Read("a"), "content");
  EXPECT_THAT(*ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, LeavesNothingWhenGivenUp) {
  const TestFolder folder;
  {
    auto file = DurableFile::Create(Files::Real(), folder.path() + "/a");
    ASSERT_TRUE((*file)->Append("content").ok());
  }
  EXPECT_THAT(*ListFolder(folder.path()), IsEmpty());
}

TEST(AtomicFileTest, WritesOnAfterShortWrites) {
  const TestFolder folder;
  FailingFiles files;
  ASSERT_TRUE(WriteFileAtomically(&files, folder.path() + "/a", "0123456789").ok());
  EXPECT_EQ(folder.Read("a"), "0123456789");
}

TEST(AtomicFileTest, AFullVolumeNamesThePathAndKeepsTheOldFile) {
  const TestFolder folder;
  folder.Write("a", "old");
  FailingFiles files;
  files.write_error = ENOSPC;
  absl::Status status = WriteFileAtomically(&files, folder.path() + "/a", "new");
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData);
  EXPECT_THAT(status.message(), HasSubstr(folder.path() + "/a: No space left on device"));
  EXPECT_THAT(status.message(), HasSubstr("free space"));
  files.write_error = 0;
  files.sync_error = EIO;
  EXPECT_EQ(base::ExitCodeFor(WriteFileAtomically(&files, folder.path() + "/a", "new")),
            base::kExitData);
  EXPECT_EQ(folder.Read("a"), "old");
  EXPECT_THAT(*ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, AReadOnlyVolumeNamesThePath) {
  FailingFiles files;
  files.open_error = EROFS;
  const absl::Status status = WriteFileAtomically(&files, "/data/run/a", "new");
  EXPECT_THAT(status.message(), HasSubstr("cannot create /data/run/a"));
  EXPECT_THAT(status.message(), HasSubstr("Read-only file system: choose a folder on a writable"));
}

TEST(FoldersTest, AreMadeWithTheirParents) {
  const TestFolder folder;
  ASSERT_TRUE(MakeFolders(Files::Real(), folder.path() + "/x/y/z").ok());
  ASSERT_TRUE(MakeFolders(Files::Real(), folder.path() + "/x/y/z").ok());
  EXPECT_THAT(*ListFolder(folder.path() + "/x/y"), ElementsAre("z"));
}

TEST(FoldersTest, AFileInTheWayIsNamed) {
  const TestFolder folder;
  folder.Write("x", "");
  const absl::Status status = MakeFolders(Files::Real(), folder.path() + "/x/y");
  EXPECT_THAT(status.message(), HasSubstr(folder.path() + "/x: Not a directory"));
}

TEST(FoldersTest, AMissingFolderIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ListFolder("/nowhere/at/all").status()));
}

TEST(ReadTest, RefusesFilesThatAreTooLargeAndFolders) {
  const TestFolder folder;
  folder.Write("a", "0123456789");
  EXPECT_EQ(*ReadWholeFile(folder.path() + "/a", 10), "0123456789");
  EXPECT_THAT(ReadWholeFile(folder.path() + "/a", 9).status().message(), HasSubstr("10 bytes"));
  EXPECT_THAT(ReadWholeFile(folder.path(), 9).status().message(), HasSubstr("not a regular file"));
}

TEST(ReadTest, NamesTheOffsetOfAShortRead) {
  const TestFolder folder;
  folder.Write("a", "0123456789");
  const auto file = ReadableFile::Open(folder.path() + "/a");
  char bytes[8];
  EXPECT_TRUE((*file)->Read(2, 8, bytes).ok());
  EXPECT_THAT((*file)->Read(4, 8, bytes).message(),
              HasSubstr("expected 8 bytes at offset 4, found 6"));
}

TEST(PathTest, SplitsIntoFolderAndName) {
  EXPECT_EQ(FolderOf("/a/b/c"), "/a/b");
  EXPECT_EQ(FolderOf("/c"), "/");
  EXPECT_EQ(FolderOf("c"), ".");
  EXPECT_EQ(BaseName("/a/b/c"), "c");
  EXPECT_EQ(BaseName("c"), "c");
}

}  // namespace
}  // namespace trainer
