#include "operator/cli/progress_poller.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>

#include <thread>

namespace tfjob {
namespace {

bool Readable(int fd) {
  struct pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 20'000) == 1;
}

TEST(ProgressPoller, AsksTheTaskAndForgetsWhatIsOverThere) {
  httplib::Server server;
  server.Get("/progress", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"global_step":3,"last_step":9})", "application/json");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { server.listen_after_bind(); });
  ProgressPoller poller;
  poller.SetPort(port);
  ASSERT_TRUE(Readable(poller.fd()));
  const std::optional<Progress> progress = poller.Take();
  server.stop();
  thread.join();
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->global_step, 3);
  EXPECT_EQ(progress->last_step, 9);
  ASSERT_TRUE(Readable(poller.fd()));  // nobody answers now
  EXPECT_FALSE(poller.Take().has_value());
}

}  // namespace
}  // namespace tfjob
