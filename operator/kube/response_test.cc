#include "operator/kube/response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string StatusBody(const std::string& reason, const std::string& message) {
  return Json{{"kind", "Status"}, {"reason", reason}, {"message", message}}.dump();
}

TEST(ResponseTest, EachHttpCodeHasItsStatus) {
  const struct {
    int http;
    const char* reason;
    absl::StatusCode want;
  } cases[] = {
      {400, "BadRequest", absl::StatusCode::kInvalidArgument},
      {401, "Unauthorized", absl::StatusCode::kUnauthenticated},
      {403, "Forbidden", absl::StatusCode::kPermissionDenied},
      {404, "NotFound", absl::StatusCode::kNotFound},
      {409, "AlreadyExists", absl::StatusCode::kAlreadyExists},
      {409, "Conflict", absl::StatusCode::kAborted},
      {410, "Expired", absl::StatusCode::kOutOfRange},
      {422, "Invalid", absl::StatusCode::kInvalidArgument},
      {429, "TooManyRequests", absl::StatusCode::kResourceExhausted},
      {500, "InternalError", absl::StatusCode::kUnavailable},
      {502, "", absl::StatusCode::kUnavailable},
      {503, "ServiceUnavailable", absl::StatusCode::kUnavailable},
      {504, "Timeout", absl::StatusCode::kUnavailable},
      {302, "", absl::StatusCode::kInternal},
      {418, "", absl::StatusCode::kInternal},
  };
  for (const auto& c : cases) {
    const absl::Status status =
        StatusOf("get pods x/a", Response{c.http, StatusBody(c.reason, "because"), {}});
    EXPECT_EQ(status.code(), c.want) << c.http;
    EXPECT_THAT(std::string(status.message()), HasSubstr("get pods x/a: because (HTTP "));
    EXPECT_EQ(RetryAfter(status), std::nullopt);
  }
  EXPECT_TRUE(StatusOf("x", Response{200, "", {}}).ok());
  EXPECT_TRUE(StatusOf("x", Response{201, "", {}}).ok());
}

TEST(ResponseTest, QuotesAnAnswerThatIsNoStatus) {
  const auto message = [](const std::string& body) {
    return std::string(StatusOf("get x", Response{503, body, {}}).message());
  };
  EXPECT_EQ(message("upstream\ngone"), "get x: the server answered: upstream gone (HTTP 503)");
  EXPECT_EQ(message(""), "get x: the answer is empty (HTTP 503)");
  EXPECT_LT(message(std::string(10'000, 'x')).size(), 500);
  EXPECT_THAT(message("[1]"), HasSubstr("[1]"));
  EXPECT_THAT(message("{\"message\":7}"), HasSubstr("message"));
}

TEST(ResponseTest, RetryAfterComesFromHeaderOrDetails) {
  const std::string plain = StatusBody("TooManyRequests", "slow down");
  EXPECT_EQ(RetryAfter(StatusOf("x", Response{429, plain, {{"retry-after", "7"}}})),
            absl::Seconds(7));
  EXPECT_EQ(RetryAfter(StatusOf("x", Response{429, plain, {{"retry-after", "soon"}}})),
            std::nullopt);
  EXPECT_EQ(RetryAfter(StatusOf("x", Response{429, plain, {{"retry-after", "-1"}}})), std::nullopt);
  const std::string detailed = R"({"message":"m","details":{"retryAfterSeconds":3}})";
  EXPECT_EQ(RetryAfter(StatusOf("x", Response{503, detailed, {}})), absl::Seconds(3));
  EXPECT_EQ(RetryAfter(absl::UnavailableError("x")), std::nullopt);
}

TEST(ResponseTest, DropsManagedFieldsOnly) {
  const auto object = ParseObject(
      R"({"metadata":{"name":"a","managedFields":[{"x":{"y":[1]}}],"uid":"u"},"spec":{"a":[1,null]}})");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(*object, Json::parse(R"({"metadata":{"name":"a","uid":"u"},"spec":{"a":[1,null]}})"));
}

TEST(ResponseTest, DropsManagedFieldsWhereverTheyStand) {
  const struct {
    const char* text;
    const char* want;
  } cases[] = {
      {R"({"managedFields":[]})", "{}"},
      {R"({"managedFields":[],"b":1})", R"({"b":1})"},
      {R"({"a":1,"managedFields":[]})", R"({"a":1})"},
      {R"({"a":1, "managedFields" : [ ] , "b":2})", R"({"a":1,"b":2})"},
      {R"({"a":{"managedFields":[{"x":"]}\""}]},"b":[]})", R"({"a":{},"b":[]})"},
      {"{\"a\": 1,\n \"managedFields\": [] \n}", R"({"a":1})"},
      {R"({"managedFields":null,"a":1})", R"({"a":1})"},
      {R"({"managedFields":"}","a":1})", R"({"a":1})"},
      {R"({"managedFields":{"a":[]},"b":[1]})", R"({"b":[1]})"},
      // Not keys.
      {R"({"a":"managedFields"})", R"({"a":"managedFields"})"},
      {R"(["managedFields"])", R"(["managedFields"])"},
      {R"({"a":"\"managedFields\":[1]"})", R"({"a":"\"managedFields\":[1]"})"},
      {R"({"a\\":1,"xmanagedFields":2})", R"({"a\\":1,"xmanagedFields":2})"},
  };
  for (const auto& c : cases) {
    const auto object = ParseObject(c.text);
    ASSERT_TRUE(object.ok()) << c.text << object.status();
    EXPECT_EQ(object->dump(), Json::parse(c.want).dump()) << c.text;
  }
  for (const char* bad : {R"({"managedFields")", R"({"managedFields":)", R"({"managedFields":[)",
                          R"({"managedFields":["}])", R"({"a":"\)"}) {
    EXPECT_FALSE(ParseObject(bad).ok()) << bad;
  }
}

TEST(ResponseTest, RefusesWhatIsNoJson) {
  for (const std::string body : {"", "{", "nonsense", "{} {}", "\xff"}) {
    EXPECT_TRUE(absl::IsInternal(ParseObject(body).status())) << body;
  }
  EXPECT_TRUE(absl::IsInternal(ParseObject(std::string(100'000, '[')).status()));
  EXPECT_TRUE(
      absl::IsInternal(ParseObject(std::string(5000, '[') + std::string(5000, ']')).status()));
}

TEST(ResponseTest, ReadsPagesOfLists) {
  const auto page = ParseList(
      R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":"c"},"items":[{"a":1}]})");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->items, Json::parse(R"([{"a":1}])"));
  EXPECT_EQ(page->resource_version, "9");
  EXPECT_EQ(page->continue_token, "c");
  EXPECT_TRUE(ParseList(R"({"metadata":{},"items":null})")->items.empty());
  for (const char* bad : {"[]", "{}", R"({"items":{}})", R"({"items":3})", "null"}) {
    EXPECT_TRUE(absl::IsInternal(ParseList(bad).status())) << bad;
  }
}

std::string EventLine(const std::string& type, int n) {
  return Json{{"type", type}, {"object", {{"n", n}}}}.dump() + "\n";
}

TEST(WatchSplitterTest, GivesTheSameEventsHoweverTheyAreCut) {
  const std::string all =
      EventLine("ADDED", 1) + "\r\n" + EventLine("MODIFIED", 2) + EventLine("DELETED", 3);
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    WatchSplitter splitter;
    std::vector<std::string> seen;
    const auto on_event = [&](WatchEvent& event) {
      seen.push_back(event.type + event.object.at("n").dump());
      return true;
    };
    for (size_t at = 0; at < all.size(); at += piece) {
      ASSERT_TRUE(splitter.Add(std::string_view(all).substr(at, piece), on_event).ok());
    }
    EXPECT_THAT(seen, ElementsAre("ADDED1", "MODIFIED2", "DELETED3"));
    EXPECT_TRUE(splitter.at_boundary());
  }
}

TEST(WatchSplitterTest, KnowsWhenALineIsLeftOver) {
  WatchSplitter splitter;
  const auto on_event = [](WatchEvent&) { return true; };
  ASSERT_TRUE(splitter.Add("{\"type\":", on_event).ok());
  EXPECT_FALSE(splitter.at_boundary());
}

TEST(WatchSplitterTest, ErrorEventsBecomeStatuses) {
  const auto status = [](const std::string& line) {
    WatchSplitter splitter;
    return splitter.Add(line, [](WatchEvent&) { return true; });
  };
  EXPECT_TRUE(absl::IsOutOfRange(status(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}})"
      "\n")));
  EXPECT_TRUE(absl::IsUnavailable(status(R"({"type":"ERROR","object":{"code":500,"message":"m"}})"
                                         "\n")));
  EXPECT_TRUE(absl::IsInternal(status(R"({"type":"ERROR","object":{}})"
                                      "\n")));
  for (const char* bad : {"nonsense\n", "{}\n", "[]\n",
                          R"({"type":"ADDED"})"
                          "\n",
                          R"({"type":3,"object":{}})"
                          "\n"}) {
    EXPECT_TRUE(absl::IsInternal(status(bad))) << bad;
  }
}

TEST(WatchSplitterTest, StopsWhenTheReaderHasEnough) {
  WatchSplitter splitter;
  int seen = 0;
  const absl::Status status =
      splitter.Add(EventLine("ADDED", 1) + EventLine("ADDED", 2), [&](WatchEvent&) {
        ++seen;
        return false;
      });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(seen, 1);
}

TEST(WatchSplitterTest, RefusesALineWithoutEnd) {
  WatchSplitter splitter;
  const std::string piece(1 << 20, 'x');
  absl::Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    status = splitter.Add(piece, [](WatchEvent&) { return true; });
  }
  EXPECT_TRUE(absl::IsInternal(status));
}

}  // namespace
}  // namespace kube
