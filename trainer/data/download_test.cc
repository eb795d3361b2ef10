#include "trainer/data/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/data/idx.h"
#include "trainer/data/sha256.h"
#include "trainer/data/test_util.h"

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Sum(const std::string& bytes) {
  Sha256 sha256;
  sha256.Update({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  return sha256.Finish();
}

// A mirror on a port that the kernel chose. Serves /files/NAME; a file may be cut once.
class Mirror {
 public:
  Mirror() {
    server_.Get(R"(/files/(.+))",
                [this](const httplib::Request& request, httplib::Response& response) {
                  Serve(request, response);
                });
    server_.Get(R"(/moved/(.+))", [](const httplib::Request& request, httplib::Response& response) {
      response.set_redirect("/files/" + request.matches[1].str());
    });
    server_.Get(R"(/broken/(.+))", [](const httplib::Request&, httplib::Response& response) {
      response.status = 503;
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Mirror() { server_.stop(); }

  void Put(const std::string& name, const std::string& bytes) { files_[name] = bytes; }
  // The next `times` answers end after `size` bytes of the file.
  void CutAt(size_t size, int times) {
    cut_at_ = size;
    cuts_ = times;
  }
  std::string Url(const std::string& folder = "files") const {
    return base::StrCat("http://127.0.0.1:", port_, "/", folder);
  }
  // The Range headers of the requests so far, "" for none.
  std::vector<std::string> Ranges() {
    const std::lock_guard lock(mutex_);
    return ranges_;
  }

 private:
  void Serve(const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mutex_);
    ranges_.push_back(request.get_header_value("Range"));
    const auto file = files_.find(request.matches[1].str());
    if (file == files_.end()) {
      response.status = 404;
      return;
    }
    const std::string& bytes = file->second;
    const size_t end = cuts_-- > 0 ? cut_at_ : bytes.size();
    response.set_content_provider(
        bytes.size(), "application/octet-stream",
        [&bytes, end](size_t offset, size_t length, httplib::DataSink& sink) {
          if (offset >= end) return false;
          sink.write(bytes.data() + offset, std::min({length, end - offset, size_t{1000}}));
          return true;
        });
  }

  std::map<std::string, std::string> files_;
  std::mutex mutex_;
  std::vector<std::string> ranges_;  // these three: guarded by mutex_
  size_t cut_at_ = 0;
  int cuts_ = 0;
  int port_ = 0;
  httplib::Server server_;
  std::jthread thread_;
};

class DownloadTest : public ::testing::Test {
 protected:
  DownloadTest() : bytes_(100000, '\0') {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i * i >> 3);
    mirror_.Put("a.gz", bytes_);
  }

  DownloadOptions Options(const std::string& url) {
    DownloadOptions options;
    options.mirror = url;
    options.folder = folder_.File("data");
    options.files = {{"a.gz", Sum(bytes_)}};
    options.timeout = absl::Seconds(10);
    options.on_file = [this](std::string_view name, std::string_view what) {
      log_.push_back(base::StrCat(name, " ", what));
    };
    return options;
  }
  std::vector<std::string> FolderNames() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("data"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  std::string bytes_;
  std::vector<std::string> log_;
  TempFolder folder_;
  Mirror mirror_;
};

TEST_F(DownloadTest, FetchesChecksAndDoesNotFetchAgain) {
  const DownloadOptions options = Options(mirror_.Url() + "/");
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Download(options);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
  EXPECT_THAT(FolderNames(), ElementsAre("a.gz"));
  EXPECT_THAT(log_, ElementsAre("a.gz fetched", "a.gz already there"));
  EXPECT_THAT(mirror_.Ranges(), ElementsAre(""));
}

TEST_F(DownloadTest, FollowsRedirects) {
  const absl::Status status = Download(Options(mirror_.Url("moved")));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
}

TEST_F(DownloadTest, GoesOnAfterACutInTheNextRun) {
  DownloadOptions options = Options(mirror_.Url());
  options.attempts = 1;
  mirror_.CutAt(40000, 1);
  const absl::Status cut = Download(options);
  EXPECT_EQ(base::ExitCodeFor(cut), base::kExitCluster) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr("goes on from there"));
  EXPECT_THAT(FolderNames(), ElementsAre("a.gz.part"));
  const auto size = std::filesystem::file_size(folder_.File("data/a.gz.part"));
  EXPECT_EQ(size, 40000u);
  const absl::Status status = Download(options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
  EXPECT_THAT(mirror_.Ranges(), ElementsAre("", "bytes=40000-"));
}

TEST_F(DownloadTest, GoesOnByItselfWhileAttemptsLast) {
  mirror_.CutAt(70000, 1);
  const absl::Status status = Download(Options(mirror_.Url()));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
  EXPECT_THAT(mirror_.Ranges(), ElementsAre("", "bytes=70000-"));
}

TEST_F(DownloadTest, BeginsAgainWhenThePartBelongsToAnotherFile) {
  for (const size_t size : {size_t{500}, bytes_.size(), bytes_.size() + 5}) {
    std::filesystem::remove_all(folder_.File("data"));
    std::filesystem::create_directory(folder_.File("data"));
    WriteFile(folder_.File("data/a.gz.part"), std::string(size, 'x'));
    const absl::Status status = Download(Options(mirror_.Url()));
    ASSERT_TRUE(status.ok()) << size << ' ' << status;
    EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
  }
}

TEST_F(DownloadTest, AWrongChecksumIsAnErrorThatLeavesNothing) {
  mirror_.Put("a.gz", "something else");
  const absl::Status status = Download(Options(mirror_.Url()));
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitData) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/files/a.gz"), HasSubstr("expected SHA-256 " + Sum(bytes_)),
                    HasSubstr("found " + Sum("something else"))));
  EXPECT_TRUE(FolderNames().empty());
}

TEST_F(DownloadTest, AWrongFileInPlaceIsReplaced) {
  std::filesystem::create_directory(folder_.File("data"));
  WriteFile(folder_.File("data/a.gz"), "old");
  ASSERT_TRUE(Download(Options(mirror_.Url())).ok());
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
}

TEST_F(DownloadTest, CopiesFromAFolder) {
  WriteFile(folder_.File("a.gz"), bytes_);
  const absl::Status status = Download(Options("file://" + folder_.path()));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(folder_.File("data/a.gz")), bytes_);
}

TEST_F(DownloadTest, BadMirrorsSayWhatIsWrong) {
  struct BadMirror {
    std::string url;
    int exit_code;
    std::string message;
  };
  const std::vector<BadMirror> table = {
      {"", base::kExitUsage, "--mirror"},
      {"ftp://host/mnist", base::kExitUsage, "'ftp://host/mnist'"},
      {"http://", base::kExitUsage, "no http://"},
      {"file://relative/path", base::kExitUsage, "ABSOLUTE"},
      {mirror_.Url("nothing"), base::kExitData, "HTTP 404"},
      {mirror_.Url("broken"), base::kExitCluster, "HTTP 503"},
      {"http://127.0.0.1:1/files", base::kExitCluster, "Connection"},
      {"file://" + folder_.File("none"), base::kExitData, "No such file"},
  };
  for (const BadMirror& bad : table) {
    SCOPED_TRACE(bad.url);
    const absl::Status status = Download(Options(bad.url));
    EXPECT_EQ(base::ExitCodeFor(status), bad.exit_code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
}

TEST(MnistFilesTest, TheRealSetHasThePublishedSums) {
  const std::string folder = "../shared/data/mnist";
  if (!IsIdxFolder(folder)) GTEST_SKIP() << "SKIPPED: no real MNIST files in " << folder;
  for (const DownloadFile& file : MnistFiles()) {
    EXPECT_EQ(Sum(ReadFile(folder + "/" + file.name)), file.sha256) << file.name;
  }
}

TEST(Sha256Test, GivesThePublishedValues) {  // FIPS 180-2, appendix B
  EXPECT_EQ(Sum(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sum("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace trainer
