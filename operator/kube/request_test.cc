#include "operator/kube/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kube {
namespace {

using ::testing::HasSubstr;

TEST(RequestTest, PathsOfCoreAndGroupsWithAndWithoutNamespace) {
  const struct {
    ObjectPath path;
    const char* want;
  } cases[] = {
      {{kPods, "default", "a", ""}, "/api/v1/namespaces/default/pods/a"},
      {{kPods, "", "", ""}, "/api/v1/pods"},
      {{kTfJobs, "ns", "", ""}, "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"},
      {{kTfJobs, "ns", "j", "status"}, "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j/status"},
      {{{"v1", "nodes"}, "", "n 1", ""}, "/api/v1/nodes/n%201"},
      {{kLeases, "a", "b?c", ""}, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b%3Fc"},
  };
  for (const auto& c : cases) EXPECT_EQ(PathOf(c.path), c.want);
}

TEST(RequestTest, EncodesEverythingThatHasAMeaning) {
  EXPECT_EQ(PercentEncode("aZ0-._~"), "aZ0-._~");
  EXPECT_EQ(PercentEncode("a=b,c in (d)&%/?#+"), "a%3Db%2Cc%20in%20%28d%29%26%25%2F%3F%23%2B");
  EXPECT_EQ(PercentEncode("\xc3\xbc"), "%C3%BC");
}

TEST(RequestTest, ListsInPages) {
  ListOptions options;
  options.label_selector = "a=b,!c";
  auto request = ListRequest(kPods, "x", options);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/api/v1/namespaces/x/pods?labelSelector=a%3Db%2C%21c&limit=500");
  options = {.limit = 0, .resource_version = "0"};
  EXPECT_EQ(ListRequest(kPods, "", options)->path, "/api/v1/pods?resourceVersion=0");
  options = {.limit = 2, .continue_token = "t/1", .resource_version = "7"};
  EXPECT_EQ(ListRequest(kPods, "", options)->path, "/api/v1/pods?limit=2&continue=t%2F1");
}

TEST(RequestTest, WatchesWithBookmarksAndATimeout) {
  const WatchOptions options{.label_selector = "k",
                             .resource_version = "12",
                             .timeout = absl::Milliseconds(1500),
                             .idle_timeout = absl::Seconds(9)};
  const auto request = WatchRequest(kTfJobs, "", options);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->path,
            "/apis/kubeflow.org/v1/tfjobs?watch=true&allowWatchBookmarks=true&labelSelector=k&"
            "resourceVersion=12&timeoutSeconds=2");
  EXPECT_EQ(request->timeout, absl::Seconds(9));
}

TEST(RequestTest, LogsOfOneContainer) {
  EXPECT_EQ(LogRequest("x", "a", {})->path, "/api/v1/namespaces/x/pods/a/log");
  const auto request = LogRequest("x", "a",
                                  {.container = "c",
                                   .follow = true,
                                   .previous = true,
                                   .timestamps = true,
                                   .tail_lines = 0,
                                   .since_time = "2026-01-01T00:00:00Z",
                                   .idle_timeout = absl::Seconds(9)});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->path,
            "/api/v1/namespaces/x/pods/a/log?container=c&follow=true&previous=true&timestamps=true&"
            "tailLines=0&sinceTime=2026-01-01T00%3A00%3A00Z");
  EXPECT_EQ(request->timeout, absl::Seconds(9));
  EXPECT_FALSE(LogRequest("x", "", {}).ok());
}

TEST(RequestTest, WritesCarryTheirBodies) {
  const Json object = {{"metadata", {{"name", "a"}}}};
  auto request = CreateRequest(kPods, "x", object);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/api/v1/namespaces/x/pods");
  EXPECT_EQ(request->content_type, "application/json");
  EXPECT_EQ(request->body, object.dump());
  request = ReplaceRequest(kPods, "x", object, "");
  EXPECT_EQ(request->method, "PUT");
  EXPECT_EQ(request->path, "/api/v1/namespaces/x/pods/a");
  EXPECT_EQ(ReplaceRequest(kPods, "x", object, "status")->path,
            "/api/v1/namespaces/x/pods/a/status");
}

TEST(RequestTest, TextThatIsNotUtf8IsReplacedNotThrown) {
  const auto request = CreateRequest(kEvents, "x", {{"message", "a\xff"}});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->body, "{\"message\":\"a\xEF\xBF\xBD\"}");
}

TEST(RequestTest, EachPatchHasItsContentType) {
  const struct {
    PatchType type;
    const char* content_type;
    const char* path;
  } cases[] = {
      {PatchType::kMerge, "application/merge-patch+json", "/api/v1/namespaces/x/pods/a"},
      {PatchType::kStrategicMerge, "application/strategic-merge-patch+json",
       "/api/v1/namespaces/x/pods/a"},
      {PatchType::kJson, "application/json-patch+json", "/api/v1/namespaces/x/pods/a"},
      {PatchType::kApply, "application/apply-patch+yaml",
       "/api/v1/namespaces/x/pods/a?fieldManager=me&force=true"},
  };
  for (const auto& c : cases) {
    const auto request = PatchRequest({kPods, "x", "a", ""}, c.type, {{"k", 1}}, "me");
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->method, "PATCH");
    EXPECT_EQ(request->content_type, c.content_type);
    EXPECT_EQ(request->path, c.path);
    EXPECT_EQ(request->body, "{\"k\":1}");
  }
}

TEST(RequestTest, DeletesCarryUidAndPropagation) {
  const ObjectPath path{kPods, "x", "a", ""};
  auto request = DeleteRequest(path, {.uid = "u1"});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->method, "DELETE");
  EXPECT_EQ(Json::parse(request->body), (Json{{"apiVersion", "v1"},
                                              {"kind", "DeleteOptions"},
                                              {"propagationPolicy", "Background"},
                                              {"preconditions", {{"uid", "u1"}}}}));
  request = DeleteRequest(path, {.propagation = ""});
  EXPECT_EQ(Json::parse(request->body), (Json{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}}));
}

TEST(RequestTest, DeletesOfManyNeedANamespaceAndASelector) {
  const auto request = DeleteCollectionRequest(kPods, "x", "job=a b");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->method, "DELETE");
  EXPECT_EQ(request->path, "/api/v1/namespaces/x/pods?labelSelector=job%3Da%20b");
  EXPECT_EQ(Json::parse(request->body)["propagationPolicy"], "Background");
  EXPECT_TRUE(absl::IsInvalidArgument(DeleteCollectionRequest(kPods, "x", "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DeleteCollectionRequest(kPods, "", "a=b").status()));
}

TEST(RequestTest, RefusesNamesThatWouldLeadElsewhere) {
  const ObjectPath bad[] = {
      {kPods, "x", "", ""},    {kPods, "x", "..", ""},    {kPods, "..", "a", ""},
      {kPods, "x", "a/b", ""}, {kPods, "x", "a", "../b"}, {{"", "pods"}, "x", "a", ""},
  };
  for (const ObjectPath& path : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(GetRequest(path).status())) << PathOf(path);
    EXPECT_TRUE(absl::IsInvalidArgument(DeleteRequest(path, {}).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(PatchRequest(path, PatchType::kMerge, {}, "").status()));
  }
  for (const Json& object : {Json(), Json::array(), Json::object(), Json{{"metadata", 1}},
                             Json{{"metadata", {{"name", 1}}}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReplaceRequest(kPods, "x", object, "").status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CreateRequest(kPods, "x", Json::array()).status()));
  EXPECT_THAT(std::string(GetRequest({kPods, "x", "", ""}).status().message()),
              HasSubstr("pods x: the name is missing"));
}

}  // namespace
}  // namespace kube
