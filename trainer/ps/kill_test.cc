// Tasks as processes of their own, killed without warning.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/ps/test_cluster.h"

namespace trainer {
namespace {

using ::testing::EndsWith;

const std::vector<std::vector<int64_t>> kShapes = {{100, 30}, {30}};
constexpr std::chrono::seconds kPatience{60};

// Child: serves one shard, tells its port, until killed.
int ServePs() {
  const auto server =
      PsServer::Start({.listen_address = "127.0.0.1:0", .worker_lease = absl::Hours(1)});
  if (!server.ok()) return 1;
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  (*server)->WaitUntilFinished(absl::Hours(1));
  return 0;
}

// Child: trains as worker 1 in step with another, one line a step, until killed.
int Work(const std::string& address, bool same_node) {
  const JobConfig config = MakeSyncJob(kShapes, 2, 2);
  PsClientOptions options;
  options.addresses = {address};
  options.task = {"worker", 1};
  options.incarnation = static_cast<uint64_t>(getpid());
  options.same_node = same_node;
  const auto client = PsClient::Create(options);
  std::vector<float> parameters(ParameterCount(config));
  const std::vector<float> gradients(parameters.size(), 1.0f);
  if (!client->Attach(config).ok()) return 1;
  absl::StatusOr<StepResult> result = client->Pull(parameters);
  while (result.ok()) {
    result = client->Exchange(gradients, result->global_step, parameters, std::stop_token());
    std::puts("step");
    std::fflush(stdout);
  }
  return 1;
}

// This program again, in another role; its standard output comes back line by line.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), "kill_test");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Child() {
    Kill();
    std::fclose(output_);
  }
  std::string Line() {
    char line[64] = "";
    EXPECT_NE(std::fgets(line, sizeof line, output_), nullptr) << "the child ended too early";
    line[std::strcspn(line, "\n")] = '\0';
    return line;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  // The lines of its memory map that name shared memory of ours.
  std::vector<std::string> SharedMappings() const {
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    std::vector<std::string> found;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("trainyard-") != std::string::npos) found.push_back(line);
    }
    return found;
  }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

// Its lease is an hour: only the lock that died with it can tell.
TEST(Kill, AWorkerKilledOnThisMachineIsNoticedAtOnce) {
  TestCluster cluster(1, {.worker_lease = absl::Hours(1)});
  JobConfig config = MakeSyncJob(kShapes, 2, 2);
  config.last_step = 1'000'000'000;
  const auto chief = cluster.Client(0);
  TestCluster::Initialize(*chief, config, std::vector<float>(ParameterCount(config), 0.0f));
  ASSERT_OK(chief->Attach(config));
  std::vector<float> parameters(ParameterCount(config));
  const std::vector<float> gradients(parameters.size(), 1.0f);
  absl::StatusOr<StepResult> result = chief->Pull(parameters);
  Child worker({"--work", cluster.addresses()[0], "1"});
  while (result.ok() && result->global_step < 20) {
    result = chief->Exchange(gradients, result->global_step, parameters, std::stop_token());
  }
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int i = 0; i < 15; ++i) worker.Line();
  const std::vector<std::string> mappings = worker.SharedMappings();
  EXPECT_FALSE(mappings.empty());
  EXPECT_THAT(mappings, ::testing::Each(EndsWith("(deleted)")));
  worker.Kill();
  const auto start = std::chrono::steady_clock::now();
  while (result.ok() && result->global_step < 40) {
    result = chief->Exchange(gradients, result->global_step, parameters, std::stop_token());
  }
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  for (const float value : parameters) ASSERT_EQ(value, -static_cast<float>(result->global_step));
}

class KillPs : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(TcpAndSameNode, KillPs, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "SameNode" : "Tcp"; });

TEST_P(KillPs, EndsTheWaitOfItsWorkers) {
  Child ps({"--serve"});
  const std::string address = "127.0.0.1:" + ps.Line();
  const JobConfig config = MakeSyncJob(kShapes, 2, 2);
  PsClientOptions options;
  options.addresses = {address};
  options.task = {"worker", 0};
  options.incarnation = 5;
  options.same_node = GetParam();
  const auto client = PsClient::Create(options);
  std::vector<float> parameters(ParameterCount(config), 0.0f);
  const std::vector<float> gradients(parameters.size(), 1.0f);
  TestCluster::Initialize(*client, config, parameters);
  ASSERT_OK(client->Attach(config));
  auto waiting = std::async(
      [&] { return client->Exchange(gradients, 0, parameters, std::stop_token()).status(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(!ps.SharedMappings().empty(), GetParam());
  ps.Kill();
  ASSERT_EQ(waiting.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(absl::IsUnavailable(waiting.get()));
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--serve") == 0) return trainer::ServePs();
  if (argc == 4 && std::strcmp(argv[1], "--work") == 0) {
    return trainer::Work(argv[2], argv[3][0] == '1');
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
