// The real transport against a real server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "operator/kube/config.h"
#include "operator/kube/test_server.h"
#include "operator/kube/transport.h"

namespace kube {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

Config ConfigFor(const TestServer& server, const std::string& host = "127.0.0.1") {
  Config config;
  config.server = server.url(host);
  config.ca_pem = Pki().ca_pem;
  return config;
}

std::shared_ptr<Transport> Make(Config config) {
  auto transport = MakeTransport(std::move(config));
  EXPECT_TRUE(transport.ok()) << transport.status();
  return *std::move(transport);
}

Request Get(const std::string& path) {
  Request request;
  request.path = path;
  request.timeout = kPatience;
  return request;
}

// Says what it was asked.
void Echo(const ServerRequest& request, ServerConnection& connection) {
  const auto header = [&](const char* name) {
    const auto it = request.headers.find(name);
    return it == request.headers.end() ? std::string("-") : it->second;
  };
  connection.Answer(200, absl::StrCat(request.method, "|", request.path, "|", request.body, "|",
                                      header("content-type"), "|", header("authorization"), "|",
                                      header("user-agent"), "|", header("accept")));
}

TEST(TransportTest, SendsMethodPathBodyAndHeadersAsTheyAre) {
  TestServer server({}, Echo);
  const auto transport = Make(ConfigFor(server));
  Request request = Get("/api/v1/pods?labelSelector=a%3Db%2Cc&limit=2");
  request.user_agent = "me/1";
  auto response = transport->Call(request, {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->code, 200);
  EXPECT_EQ(response->body,
            "GET|/api/v1/pods?labelSelector=a%3Db%2Cc&limit=2||-|-|me/1|application/json");
  for (const char* type : {"application/merge-patch+json", "application/strategic-merge-patch+json",
                           "application/json-patch+json", "application/apply-patch+yaml"}) {
    request.method = "PATCH";
    request.path = "/apis/a/v1/x";
    request.content_type = type;
    request.body = "{\"ü\":1}";
    response = transport->Call(request, {});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->body,
              absl::StrCat("PATCH|/apis/a/v1/x|{\"ü\":1}|", type, "|-|me/1|application/json"));
  }
  // A second one where the first was not yet back in the library's pool.
  EXPECT_LE(server.connections(), 3);
}

TEST(TransportTest, ServesManyCallsAtOnceOverFewConnections) {
  TestServer server({}, Echo);
  const auto transport = Make(ConfigFor(server));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          const std::string path = absl::StrCat("/", t, "/", i);
          const auto response = transport->Call(Get(path), {});
          ASSERT_TRUE(response.ok()) << response.status();
          ASSERT_THAT(response->body, HasSubstr(absl::StrCat("GET|", path, "|")));
        }
      });
    }
  }
  EXPECT_LE(server.connections(), 12);
}

TEST(TransportTest, ReadsLargeAnswersWhole) {
  const std::string large(5 << 20, 'x');
  TestServer server({}, [&](const ServerRequest& request, ServerConnection& connection) {
    if (request.path == "/length") return connection.Answer(200, large);
    connection.StartChunks();
    for (size_t at = 0; at < large.size(); at += 4000) connection.Chunk(large.substr(at, 4000));
    connection.EndChunks();
  });
  const auto transport = Make(ConfigFor(server));
  for (const char* path : {"/length", "/chunks", "/length"}) {
    const auto response = transport->Call(Get(path), {});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->body.size(), large.size());
  }
  EXPECT_LE(server.connections(), 3);
}

TEST(TransportTest, ErrorsOfTheServerAreAnswers) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.Answer(429, "{\"kind\":\"Status\"}", "Retry-After: 7\r\n");
  });
  const auto transport = Make(ConfigFor(server));
  const auto response = transport->Call(Get("/"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->code, 429);
  EXPECT_EQ(response->headers.at("retry-after"), "7");
  const auto stream = transport->Stream(Get("/"),
                                        [](std::string_view) -> bool {
                                          ADD_FAILURE() << "no data";
                                          return true;
                                        },
                                        {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(stream->code, 429);
  EXPECT_EQ(stream->body, "{\"kind\":\"Status\"}");
}

TEST(TransportTest, RefusesAServerOfAnotherAuthority) {
  TestServer server({}, Echo);
  Config config = ConfigFor(server);
  config.ca_pem = Pki().other_ca_pem;
  const auto response = Make(config)->Call(Get("/"), {});
  EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
  EXPECT_THAT(std::string(response.status().message()),
              HasSubstr("certificate is not accepted for 127.0.0.1"));
  config.insecure = true;
  EXPECT_TRUE(Make(config)->Call(Get("/"), {}).ok());
}

TEST(TransportTest, RefusesAServerOfAnotherName) {
  TestServer server({}, [](const ServerRequest& request, ServerConnection& connection) {
    connection.Answer(200, request.server_name);
  });
  Config config = ConfigFor(server);
  config.tls_server_name = "elsewhere.example";
  const auto refused = Make(config)->Call(Get("/"), {});
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("elsewhere.example"));
  config.tls_server_name = "api.example";
  const auto accepted = Make(config)->Call(Get("/"), {});
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->body, "api.example");
}

TEST(TransportTest, ShowsItsClientCertificate) {
  TestServer server({.require_client_certificate = true},
                    [](const ServerRequest& request, ServerConnection& connection) {
                      connection.Answer(200, request.client_name);
                    });
  Config config = ConfigFor(server, "localhost");
  EXPECT_FALSE(Make(config)->Call(Get("/"), {}).ok());
  Config with_pair = config;
  config.client_certificate_pem = Pki().client.certificate_pem;
  config.client_key_pem = Pki().client.key_pem;
  const auto response = Make(config)->Call(Get("/"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "tester");
  with_pair.key_pair = [] { return KeyPair{Pki().client.certificate_pem, Pki().client.key_pem}; };
  const auto changing = Make(with_pair)->Call(Get("/"), {});
  ASSERT_TRUE(changing.ok()) << changing.status();
  EXPECT_EQ(changing->body, "tester");
}

TEST(TransportTest, SendsTheTokenOfNowOrAPassword) {
  TestServer server({}, Echo);
  Config config = ConfigFor(server);
  int calls = 0;
  config.token = [&]() -> absl::StatusOr<std::string> {
    if (++calls == 3) return absl::NotFoundError("the token has gone");
    return absl::StrCat("t", calls);
  };
  const auto transport = Make(config);
  EXPECT_THAT(transport->Call(Get("/"), {})->body, HasSubstr("|Bearer t1|"));
  EXPECT_THAT(transport->Call(Get("/"), {})->body, HasSubstr("|Bearer t2|"));
  const auto none = transport->Call(Get("/"), {});
  EXPECT_TRUE(absl::IsUnauthenticated(none.status())) << none.status();
  config.token = nullptr;
  config.username = "user";
  config.password = "pass";
  EXPECT_THAT(Make(config)->Call(Get("/"), {})->body, HasSubstr("|Basic dXNlcjpwYXNz|"));
}

TEST(TransportTest, AsksWithTheTokenOfSomebodyElse) {
  TestServer server({}, Echo);
  Config own = ConfigFor(server);
  own.token = [] { return "own"; };
  own.username = "user";
  own.client_certificate_pem = Pki().client.certificate_pem;
  own.client_key_pem = Pki().client.key_pem;
  Request request = Get("/");
  request.bearer_token = "other";
  const auto refused = Make(own)->Call(request, {});
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  const auto nobody = Make(WithoutCredentials(own));
  EXPECT_THAT(nobody->Call(request, {})->body, HasSubstr("|Bearer other|"));
  EXPECT_THAT(nobody->Call(Get("/"), {})->body,
              Not(AnyOf(HasSubstr("Bearer"), HasSubstr("Basic"))));
}

TEST(TransportTest, GetsNewCredentialsOnceAfterA401) {
  TestServer server({}, [](const ServerRequest& request, ServerConnection& connection) {
    connection.Answer(request.headers.at("authorization") == "Bearer new" ? 200 : 401, "{}");
  });
  Config config = ConfigFor(server);
  std::atomic<int> refusals = 0;
  config.token = [&] { return std::string(refusals > 0 ? "new" : "old"); };
  config.refused = [&] { ++refusals; };
  EXPECT_EQ(Make(config)->Call(Get("/"), {})->code, 200);
  EXPECT_EQ(refusals, 1);
  config.token = [] { return std::string("never right"); };
  const auto transport = Make(config);
  EXPECT_EQ(transport->Call(Get("/"), {})->code, 401);
  EXPECT_EQ(transport->Call(Get("/"), {})->code, 401);
  EXPECT_EQ(refusals, 2);
}

TEST(TransportTest, StreamsPiecesAsTheyComeWhateverTheirCut) {
  absl::Notification first_seen;
  TestServer server({}, [&](const ServerRequest&, ServerConnection& connection) {
    connection.StartChunks();
    connection.Chunk("{\"a\":");
    ASSERT_TRUE(first_seen.WaitForNotificationWithTimeout(kPatience));
    connection.Write("3\r\n1}");  // a chunk in two writes
    connection.Write("\n\r\n4\r\n{\"b\"\r\n");
    connection.Chunk(":2}\n");
    connection.EndChunks();
  });
  const auto transport = Make(ConfigFor(server));
  std::string all;
  const auto response = transport->Stream(Get("/w"),
                                          [&](std::string_view piece) {
                                            all += piece;
                                            if (!first_seen.HasBeenNotified()) first_seen.Notify();
                                            return true;
                                          },
                                          {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->code, 200);
  EXPECT_EQ(all, "{\"a\":1}\n{\"b\":2}\n");
}

TEST(TransportTest, ASlowReaderSlowsTheServer) {
  std::atomic<size_t> sent = 0;
  constexpr size_t kTotal = 64 << 20;
  TestServer server({.tls = false}, [&](const ServerRequest&, ServerConnection& connection) {
    connection.StartChunks();
    const std::string chunk(32 << 10, 'x');
    while (sent < kTotal && connection.Chunk(chunk)) sent += chunk.size();
    connection.EndChunks();
  });
  Config config = ConfigFor(server);
  const auto transport = Make(config);
  absl::Notification go_on;
  size_t got = 0;
  std::jthread reader([&] {
    const auto response =
        transport->Stream(Get("/"),
                          [&](std::string_view piece) {
                            got += piece.size();
                            return go_on.WaitForNotificationWithTimeout(kPatience);
                          },
                          {});
    EXPECT_TRUE(response.ok()) << response.status();
  });
  // The server comes to a halt: what it could send stays the same from one look to the next.
  size_t before = 1;
  const absl::Time limit = absl::Now() + kPatience;
  absl::Notification never;
  while (sent != before && absl::Now() < limit) {
    before = sent;
    never.WaitForNotificationWithTimeout(absl::Milliseconds(200));
  }
  EXPECT_LT(sent, kTotal / 2);
  go_on.Notify();
  reader.join();
  EXPECT_EQ(got, kTotal);
}

TEST(TransportTest, AStreamEndsWhenItsReaderHasEnough) {
  absl::Notification closed;
  TestServer server({}, [&](const ServerRequest&, ServerConnection& connection) {
    connection.StartChunks();
    connection.Chunk("one\n");
    EXPECT_TRUE(connection.WaitForClose(kPatience));
    closed.Notify();
  });
  const auto transport = Make(ConfigFor(server));
  const auto response = transport->Stream(Get("/"), [](std::string_view) { return false; }, {});
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(closed.WaitForNotificationWithTimeout(kPatience));
}

TEST(TransportTest, AServerThatDropsInMidChunkIsUnavailable) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.StartChunks();
    connection.Chunk("whole\n");
    connection.Write("10\r\nhalf");
    connection.Close(/*orderly=*/false);
  });
  const auto transport = Make(ConfigFor(server));
  std::string all;
  const auto on_data = [&](std::string_view piece) {
    all += piece;
    return true;
  };
  const auto response = transport->Stream(Get("/"), on_data, {});
  EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
  EXPECT_EQ(all, "whole\n");
}

TEST(TransportTest, ASilentStreamEndsAfterItsIdleTime) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.StartChunks();
    connection.Chunk("one\n");
    connection.WaitForClose(kPatience);
  });
  const auto transport = Make(ConfigFor(server));
  Request request = Get("/");
  request.timeout = absl::Milliseconds(300);
  const auto response = transport->Stream(request, [](std::string_view) { return true; }, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
}

TEST(TransportTest, ACallWithoutAnswerEndsAtItsDeadline) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
    EXPECT_TRUE(connection.WaitForClose(kPatience));
  });
  const auto transport = Make(ConfigFor(server));
  Request request = Get("/");
  request.timeout = absl::Milliseconds(200);
  const auto response = transport->Call(request, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
}

TEST(TransportTest, StopEndsCallsAndStreamsInFlight) {
  absl::Mutex mutex;
  int arrived = 0;
  TestServer server({}, [&](const ServerRequest& request, ServerConnection& connection) {
    if (request.path == "/stream") connection.StartChunks();
    {
      absl::MutexLock lock(&mutex);
      ++arrived;
    }
    EXPECT_TRUE(connection.WaitForClose(kPatience));
  });
  const auto transport = Make(ConfigFor(server));
  std::stop_source stop;
  absl::Status call, stream;
  std::jthread caller([&] { call = transport->Call(Get("/call"), stop.get_token()).status(); });
  std::jthread streamer([&] {
    stream =
        transport->Stream(
                     Get("/stream"), [](std::string_view) { return true; }, stop.get_token())
            .status();
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(
        absl::Condition(+[](int* n) { return *n == 2; }, &arrived), kPatience));
  }
  stop.request_stop();
  caller.join();
  streamer.join();
  EXPECT_TRUE(absl::IsCancelled(call)) << call;
  EXPECT_TRUE(absl::IsCancelled(stream)) << stream;
  EXPECT_TRUE(absl::IsCancelled(transport->Call(Get("/"), stop.get_token()).status()));
}

TEST(TransportTest, AConnectionClosedWhileIdleIsReplacedUnseen) {
  for (const bool orderly : {true, false}) {
    TestServer server({}, [&](const ServerRequest&, ServerConnection& connection) {
      connection.Answer(200, "{}");
      connection.Close(orderly);
    });
    const auto transport = Make(ConfigFor(server));
    for (int i = 0; i < 5; ++i) {
      const auto response = transport->Call(Get("/"), {});
      EXPECT_TRUE(response.ok()) << response.status();
    }
  }
}

TEST(TransportTest, NobodyListeningIsUnavailable) {
  Config config;
  {
    TestServer server({}, Echo);
    config = ConfigFor(server);
  }
  const auto response = Make(config)->Call(Get("/"), {});
  EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
  EXPECT_THAT(std::string(response.status().message()), HasSubstr(config.server));
  config.server = "https://no-such-host.invalid:6443";
  EXPECT_TRUE(absl::IsUnavailable(Make(config)->Call(Get("/"), {}).status()));
}

TEST(TransportTest, AnAnswerThatIsNoHttpIsUnavailable) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.Write("what?\r\n\r\n");
    connection.Close(true);
  });
  const auto response = Make(ConfigFor(server))->Call(Get("/"), {});
  EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
}

TEST(TransportTest, DoesNotFollowRedirects) {
  TestServer server({}, [](const ServerRequest&, ServerConnection& connection) {
    connection.Answer(302, "", "Location: https://127.0.0.1:1/\r\n");
  });
  const auto response = Make(ConfigFor(server))->Call(Get("/"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->code, 302);
}

TEST(TransportTest, KeepsThePathOfTheServersUrl) {
  TestServer server({}, Echo);
  Config config = ConfigFor(server);
  config.server += "/k8s/clusters/one";
  const auto response = Make(config)->Call(Get("/api/v1/pods?limit=1"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->body, HasSubstr("GET|/k8s/clusters/one/api/v1/pods?limit=1|"));
}

TEST(TransportTest, NamesWhatCannotBeUsed) {
  Config config;
  const auto message = [&] { return std::string(MakeTransport(config).status().message()); };
  for (const char* server : {"", "ftp://x", "127.0.0.1:80", "https://", "https://a b"}) {
    config.server = server;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeTransport(config).status())) << server;
  }
  config.server = "https://[fd00::1]:6443";
  EXPECT_THAT(message(), HasSubstr("use a host name"));
  config.server = "https://127.0.0.1";
  config.ca_pem = "nonsense";
  EXPECT_THAT(message(), HasSubstr("certificate authority: not a readable PEM"));
  config.ca_pem = Pki().ca_pem;
  config.client_certificate_pem = "nonsense";
  EXPECT_THAT(message(), HasSubstr("client certificate: not a readable PEM"));
  config.client_certificate_pem = Pki().client.certificate_pem;
  config.client_key_pem = "nonsense";
  EXPECT_THAT(message(), HasSubstr("client key: not a readable PEM"));
  config.client_key_pem = Pki().server.key_pem;
  EXPECT_THAT(message(), HasSubstr("does not belong"));
}

}  // namespace
}  // namespace kube
