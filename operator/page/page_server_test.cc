// The page over HTTP: what is public, what needs which right, and in which words it is refused.
#include "operator/page/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "base/exit_codes.h"
#include "operator/api/names.h"
#include "operator/page/assets.h"
#include "operator/page/test_api.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Got {
  int code = 0;
  Json json;
  httplib::Headers headers;
  std::string body;
};

class PageServerTest : public ::testing::Test {
 protected:
  PageServerTest() {
    api_->rights = {{"all", {"tfjobs/", "tfjobs/a", "pods/a", "events/"}}, {"a", {"tfjobs/a"}}};
    Put("a", "one", "Running");
    Put("a", "two", "Failed");
    Put("ab", "three", "Blocked");
    absl::StatusOr<std::unique_ptr<PageServer>> server =
        PageServer::Start({.cache = &cache_,
                           .history = &history_,
                           .nobody = api_,
                           .ready = [this] { return ready_; }},
                          {.address = "127.0.0.1:0"});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Put(const std::string& ns, const std::string& name, const std::string& state) {
    Json job = {
        {"apiVersion", kApiVersion},
        {"kind", kKind},
        {"metadata", {{"name", name}, {"namespace", ns}, {"uid", name}, {"resourceVersion", "1"}}},
        {"spec", {{"tfReplicaSpecs", {{"Worker", {{"replicas", 2}}}}}}},
        {"status",
         {{"conditions",
           Json::array({{{"type", state}, {"status", "True"}, {"message", "<b>" + name}}})}}}};
    sink_->OnObject(job);
  }

  Got Get(const std::string& path, const std::string& token = "", const char* scheme = "Bearer ") {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(std::chrono::seconds(30));
    httplib::Headers headers;
    if (!token.empty()) headers.emplace("Authorization", scheme + token);
    const httplib::Result result = client.Get(path, headers);
    if (!result) return {};
    return {result->status, Json::parse(result->body, nullptr, false), result->headers,
            result->body};
  }
  std::string Error(const Got& got) { return got.json.value("error", ""); }
  static std::vector<std::string> Names(const Got& got) {
    std::vector<std::string> out;
    for (const Json& job : got.json["jobs"]) out.push_back(job["name"]);
    return out;
  }

  std::shared_ptr<TestApi> api_ = std::make_shared<TestApi>();
  absl::Status ready_;
  JobCache cache_{{}};
  ProgressHistory history_;
  std::unique_ptr<runtime::WatchSink> sink_ = cache_.MakeJobSink("");
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, FilesArePublicAndHoldNoData) {
  const Got page = Get("/");
  EXPECT_EQ(page.code, 200);
  EXPECT_THAT(page.body, HasSubstr("<!doctype html>"));
  for (const PageFile& file : PageFiles()) {
    if (file.path != "/index.html") {
      EXPECT_EQ(Get(std::string(file.path)).body, file.text);
    }
    EXPECT_THAT(std::string(file.text), Not(HasSubstr("innerHTML"))) << file.path;
  }
  EXPECT_EQ(Get("/nothing").code, 404);
  EXPECT_TRUE(api_->calls().empty());
}

TEST_F(PageServerTest, TheBrowserIsToldToLoadNothingElse) {
  const Got page = Get("/");
  const auto header = [&](const char* name) { return page.headers.find(name)->second; };
  EXPECT_THAT(header("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(header("Content-Security-Policy"), Not(HasSubstr("unsafe")));
  EXPECT_EQ(header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(header("Cache-Control"), "no-store");
  EXPECT_EQ(header("X-Frame-Options"), "DENY");
}

TEST_F(PageServerTest, WithoutATokenThereIsNothing) {
  for (const char* path : {"/api/jobs", "/api/job?namespace=a&name=one", "/api/events"}) {
    const Got got = Get(path);
    EXPECT_EQ(got.code, 401) << path;
    EXPECT_EQ(got.headers.find("WWW-Authenticate")->second, "Bearer");
  }
  EXPECT_EQ(Get("/api/jobs", "all", "Basic ").code, 401);
  EXPECT_EQ(Get("/api/jobs", "two tokens").code, 401);
  EXPECT_EQ(Get("/api/session").json, (Json{{"hasToken", false}}));
  EXPECT_EQ(Get("/api/session", "any").json, (Json{{"hasToken", true}}));
  EXPECT_TRUE(api_->calls().empty());
}

TEST_F(PageServerTest, RefusalsSayWhy) {
  EXPECT_EQ(Get("/api/jobs", "wrong").code, 401);
  const Got all = Get("/api/jobs", "a");
  EXPECT_EQ(all.code, 403);
  EXPECT_EQ(Error(all), "this token may not list tfjobs in all namespaces");
  EXPECT_EQ(Get("/api/job?namespace=ab&name=three", "a").code, 403);
  EXPECT_EQ(Get("/api/events?namespace=ab&name=three", "a").code, 403);
  // Whether it is there is not for those to know who may not list it.
  EXPECT_EQ(Get("/api/job?namespace=ab&name=none", "a").code, 403);
  api_->broken_code = 503;
  const Got broken = Get("/api/jobs", "all");
  EXPECT_EQ(broken.code, 503);
  EXPECT_EQ(broken.headers.find("Retry-After")->second, "5");
}

TEST_F(PageServerTest, ListsWhatNeedsSomebodyFirst) {
  const Got all = Get("/api/jobs", "all", "bearer ");
  ASSERT_EQ(all.code, 200) << all.body;
  EXPECT_THAT(Names(all), ElementsAre("three", "one", "two"));
  EXPECT_EQ(all.json["states"], (Json{{"Blocked", 1}, {"Failed", 1}, {"Running", 1}}));
  EXPECT_THAT(Names(Get("/api/jobs?namespace=a", "a")), ElementsAre("one", "two"));
  EXPECT_THAT(Names(Get("/api/jobs?state=Failed", "all")), ElementsAre("two"));
  EXPECT_THAT(Names(Get("/api/jobs?name=hre", "all")), ElementsAre("three"));
}

TEST_F(PageServerTest, LongListsComeInPages) {
  for (int i = 100; i < 400; ++i) Put("a", "many-" + std::to_string(i), "Running");
  const Got first = Get("/api/jobs?namespace=a", "a");
  EXPECT_EQ(first.json["total"], 302);
  EXPECT_EQ(Names(first).size(), 100U);
  const Got last = Get("/api/jobs?namespace=a&offset=300&limit=5", "a");
  EXPECT_THAT(Names(last), ElementsAre("one", "two"));
  EXPECT_EQ(Names(Get("/api/jobs?namespace=a&offset=900", "a")).size(), 0U);
  EXPECT_EQ(Get("/api/jobs?namespace=a&limit=501", "a").code, 400);
  EXPECT_EQ(Get("/api/jobs?namespace=a&offset=-1", "a").code, 400);
  EXPECT_EQ(Get("/api/jobs?namespace=A%2F..", "a").code, 400);
}

TEST_F(PageServerTest, AJobHasItsCurveAndItsEvents) {
  history_.Note("a/one", "one",
                {.read = {.global_step = 7, .loss = 0.5}, .last_update_time = absl::Now()});
  const Got job = Get("/api/job?namespace=a&name=one", "all");
  ASSERT_EQ(job.code, 200) << job.body;
  EXPECT_EQ(job.json["curve"][0][1], 7);
  EXPECT_EQ(job.json["pods"]["total"], 0);
  EXPECT_EQ(job.json["conditions"][0]["message"], "<b>one");
  EXPECT_EQ(job.headers.find("Content-Type")->second, "application/json");
  const Got events = Get("/api/events?namespace=a&name=one", "all");
  ASSERT_EQ(events.code, 200) << events.body;
  EXPECT_EQ(events.json["events"][0]["last"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(events.json["events"][0]["message"],
            "of /api/v1/namespaces/a/events?fieldSelector=involvedObject.uid%3Done&limit=500");
  EXPECT_EQ(Get("/api/job?namespace=a&name=none", "all").code, 404);
  EXPECT_EQ(Get("/api/job?namespace=a", "all").code, 400);
}

TEST_F(PageServerTest, WhoMayNotListPodsOrEventsIsTold) {
  const Got job = Get("/api/job?namespace=a&name=one", "a");
  EXPECT_EQ(job.code, 200);
  EXPECT_EQ(job.json["podsRefused"], "this token may not list pods in namespace a");
  const Got events = Get("/api/events?namespace=a&name=one", "a");
  EXPECT_EQ(events.code, 403);
  EXPECT_THAT(Error(events), HasSubstr("events is forbidden"));
}

TEST_F(PageServerTest, HalfAPictureIsNotShown) {
  ready_ = absl::UnavailableError("tfjobs: listing");
  const Got got = Get("/api/jobs", "all");
  EXPECT_EQ(got.code, 503);
  EXPECT_THAT(Error(got), HasSubstr("still reading the cluster: tfjobs: listing"));
}

TEST(PageServer, IsOffWithoutAnAddressAndNamesABadOne) {
  EXPECT_EQ(PageServer::Start({}, {.address = "0"}).value(), nullptr);
  const absl::Status status = PageServer::Start({}, {.address = "8082"}).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--page-bind-address"));
}

TEST(PageServer, ServesOnlyItsNamespaces) {
  const auto api = std::make_shared<TestApi>();
  api->rights = {{"t", {"tfjobs/b"}}};
  const JobCache cache({});
  const auto server = PageServer::Start({.cache = &cache, .nobody = api},
                                        {.address = "127.0.0.1:0", .namespaces = {"a"}});
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const httplib::Result got = client.Get("/api/jobs?namespace=b", {{"Authorization", "Bearer t"}});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 404);
  EXPECT_THAT(got->body, HasSubstr("does not serve namespace b"));
}

}  // namespace
}  // namespace tfjob
