#include "operator/runtime/health_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "operator/runtime/http_endpoint.h"
#include "operator/runtime/listen_address.h"

namespace runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Answer {
  int code = 0;
  std::string body;
  bool operator==(const Answer&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Answer& answer) {
    return out << answer.code << " " << answer.body;
  }
};

Answer Get(int port, const std::string& path, const std::string& host = "127.0.0.1") {
  httplib::Client client(host, port);
  client.set_read_timeout(std::chrono::seconds(30));
  const httplib::Result result = client.Get(path);
  return result ? Answer{result->status, result->body} : Answer{};
}

std::unique_ptr<HealthServer> Start(const HealthServerOptions& options) {
  absl::StatusOr<std::unique_ptr<HealthServer>> server = HealthServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(ListenAddress, ReadsTheFormsOfGo) {
  const auto parse = [](std::string_view text) { return ParseListenAddress(text).value(); };
  EXPECT_EQ(parse(":8080"), (ListenAddress{"", 8080}));
  EXPECT_EQ(parse("0.0.0.0:8080"), (ListenAddress{"0.0.0.0", 8080}));
  EXPECT_EQ(parse("[::]:8080"), (ListenAddress{"::", 8080}));
  EXPECT_EQ(parse("localhost:0"), (ListenAddress{"localhost", 0}));
  EXPECT_EQ(parse("0"), std::nullopt);
  EXPECT_EQ(parse(""), std::nullopt);
}

TEST(ListenAddress, SaysWhatIsWrong) {
  const auto problem = [](std::string_view text) {
    const absl::Status status = ParseListenAddress(text).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(problem("8080"), AllOf(HasSubstr("\"8080\""), HasSubstr("port is missing")));
  EXPECT_THAT(problem(":http"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(problem(":"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(problem(":70000"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(problem(":-1"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(problem("[::1:80"), HasSubstr("] is missing"));
  EXPECT_THAT(problem("[]:80"), HasSubstr("between [ and ]"));
  EXPECT_THAT(problem("::1:80"), HasSubstr("into [ ]"));
}

TEST(HealthServer, ServesPagesOnOneAddressAndChecksOnTheOther) {
  std::atomic<bool> ready = false;
  HealthServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.probe_address = ":0";
  options.ready = [&] {
    return ready ? absl::OkStatus() : absl::UnavailableError("pods are not listed yet");
  };
  options.metrics = [] { return "depth 1\n"; };
  options.debug = {{"jobs", [] { return "two jobs\n"; }}, {"queue", [] { return "empty\n"; }}};
  const auto server = Start(options);
  ASSERT_TRUE(server);
  EXPECT_EQ(Get(server->metrics_port(), "/metrics"), (Answer{200, "depth 1\n"}));
  EXPECT_EQ(Get(server->metrics_port(), "/debug/"), (Answer{200, "/debug/jobs\n/debug/queue\n"}));
  EXPECT_EQ(Get(server->metrics_port(), "/debug/jobs"), (Answer{200, "two jobs\n"}));
  EXPECT_EQ(Get(server->metrics_port(), "/healthz").code, 404);
  EXPECT_EQ(Get(server->probe_port(), "/healthz"), (Answer{200, "ok\n"}));
  EXPECT_EQ(Get(server->probe_port(), "/readyz"), (Answer{503, "pods are not listed yet\n"}));
  ready = true;
  EXPECT_EQ(Get(server->probe_port(), "/readyz"), (Answer{200, "ok\n"}));
  EXPECT_EQ(Get(server->probe_port(), "/metrics").code, 404);
}

TEST(HealthServer, OneAddressMayServeAll) {
  HealthServerOptions options;
  options.metrics_address = options.probe_address = "localhost:0";
  options.metrics = [] { return "depth 1\n"; };
  const auto server = Start(options);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->metrics_port(), server->probe_port());
  EXPECT_EQ(Get(server->probe_port(), "/metrics", "localhost").code, 200);
  EXPECT_EQ(Get(server->probe_port(), "/healthz", "localhost").code, 200);
}

TEST(HealthServer, MayBeOff) {
  HealthServerOptions options;
  options.metrics_address = "0";
  options.probe_address = "0";
  const auto server = Start(options);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->metrics_port(), 0);
  EXPECT_EQ(server->probe_port(), 0);
}

TEST(HealthServer, ATakenPortIsTheUsersMistake) {
  HealthServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.probe_address = "0";
  const auto first = Start(options);
  ASSERT_TRUE(first);
  for (const std::string host : {"127.0.0.1", ""}) {
    options.metrics_address = "0";
    options.probe_address = absl::StrCat(host, ":", first->metrics_port());
    const absl::Status status = HealthServer::Start(options).status();
    EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("--health-probe-bind-address"),
                                        HasSubstr(options.probe_address), HasSubstr("in use")));
  }
}

TEST(HealthServer, AMalformedAddressIsNamedWithItsFlag) {
  HealthServerOptions options;
  options.metrics_address = "8080";
  const absl::Status status = HealthServer::Start(options).status();
  EXPECT_EQ(base::ExitCodeFor(status), base::kExitUsage);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("--metrics-bind-address"), HasSubstr("\"8080\"")));
}

TEST(HealthServer, AnExceptionInAPageIsThatPagesFailure) {
  HealthServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.probe_address = "0";
  options.debug = {{"bad", []() -> std::string { throw std::runtime_error("oops"); }}};
  const auto server = Start(options);
  ASSERT_TRUE(server);
  EXPECT_EQ(Get(server->metrics_port(), "/debug/bad").code, 500);
  EXPECT_EQ(Get(server->metrics_port(), "/debug/").code, 200);
}

TEST(HealthServer, StartsAndStopsAtOnceAndUnderLoad) {
  for (int round = 0; round < 20; ++round) {
    HealthServerOptions options;
    options.metrics_address = options.probe_address = "127.0.0.1:0";
    auto server = Start(options);
    ASSERT_TRUE(server);
    std::jthread caller([port = server->probe_port(), round] {
      for (int i = 0; i < round % 5; ++i) (void)Get(port, "/healthz");
    });
    server.reset();
  }
}

TEST(HttpEndpoint, AnswersEveryoneOfACrowdThatIsLargerThanItsQueue) {
  HttpEndpoint endpoint(2);
  endpoint.Handle("/", [](const HttpRequest& request) {
    return HttpAnswer{.code = 418, .body = request.parameters.at("a") + request.authorization};
  });
  ASSERT_TRUE(endpoint.Bind({"127.0.0.1", 0}, "--flag", "127.0.0.1:0").ok());
  endpoint.Serve();
  std::atomic<int> answered = 0;
  std::vector<std::jthread> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.emplace_back(
        [&] { answered += Get(endpoint.port(), "/?a=x%20y") == Answer{418, "x y"}; });
  }
  crowd.clear();  // joins
  EXPECT_EQ(answered, 100);
}

}  // namespace
}  // namespace runtime
