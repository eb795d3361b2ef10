#include "operator/cli/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tfjob {
namespace {

namespace fs = std::filesystem;
using Kind = MountStep::Kind;
using ::testing::Contains;
using ::testing::Not;

class PlanRootTest : public testing::Test {
 protected:
  PlanRootTest() : folder_(fs::temp_directory_path() / "trainyard-root-XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    for (const char* name : {"volume", "host/there", "host/other"})
      fs::create_directories(fs::path(folder_) / name);
    std::ofstream(fs::path(folder_) / "file") << "x";
  }
  ~PlanRootTest() override { fs::remove_all(folder_); }
  std::vector<MountStep> Plan(const std::vector<Mount>& mounts) {
    auto steps = PlanRoot(mounts, "/new");
    EXPECT_TRUE(steps.ok()) << steps.status();
    return *std::move(steps);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

TEST_F(PlanRootTest, BindsTheHostAndAMountPointThatItLacks) {
  const auto steps = Plan({{Path("volume"), "/no-such-folder/data", false}});
  EXPECT_THAT(steps, Contains(MountStep{Kind::kFolder, "", "/new/no-such-folder", true}));
  EXPECT_THAT(steps, Contains(MountStep{Kind::kFolder, "", "/new/no-such-folder/data", true}));
  EXPECT_THAT(steps,
              Contains(MountStep{Kind::kBind, Path("volume"), "/new/no-such-folder/data", true}));
  EXPECT_THAT(steps, Contains(MountStep{Kind::kBind, "/usr", "/new/usr", false}));
  EXPECT_THAT(steps, Contains(MountStep{Kind::kProc, "/proc", "/new/proc", true}));
}

TEST_F(PlanRootTest, BindsAFolderWholeWhenItHasTheMountPoint) {
  const auto steps = Plan({{Path("volume"), Path("host/there"), false}});
  EXPECT_THAT(steps, Not(Contains(testing::Field(&MountStep::source, Path("host/other")))));
  EXPECT_THAT(steps,
              Contains(MountStep{Kind::kBind, Path("volume"), "/new" + Path("host/there"), true}));
}

TEST_F(PlanRootTest, OpensAFolderThatLacksTheMountPoint) {
  const auto steps = Plan({{Path("volume"), Path("host/missing"), true}});
  EXPECT_THAT(steps, Contains(MountStep{Kind::kBind, Path("host/other"),
                                        "/new" + Path("host/other"), false}));
  EXPECT_THAT(steps, Contains(MountStep{Kind::kFolder, "", "/new" + Path("host/missing"), true}));
  EXPECT_THAT(steps, Contains(MountStep{Kind::kReadOnly, "", "/new" + Path("host/missing"), true}));
}

TEST_F(PlanRootTest, MountsFilesOverFiles) {
  const auto steps = Plan({{Path("file"), "/no-such-folder/file", false}});
  EXPECT_THAT(steps, Contains(MountStep{Kind::kFile, "", "/new/no-such-folder/file", true}));
}

TEST_F(PlanRootTest, RefusesWhatCannotBeMounted) {
  EXPECT_FALSE(PlanRoot({{Path("volume"), "data", false}}, "/new").ok());
  EXPECT_FALSE(PlanRoot({{Path("volume"), "/", false}}, "/new").ok());
  EXPECT_FALSE(PlanRoot({{Path("missing"), "/data", false}}, "/new").ok());
  EXPECT_FALSE(
      PlanRoot({{Path("volume"), "/data", false}, {Path("host"), "/data/", false}}, "/new").ok());
}

}  // namespace
}  // namespace tfjob
