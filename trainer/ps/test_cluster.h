// For tests: parameter servers and clients in one process, on ports that the kernel chooses.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "trainer/ps/client.h"
#include "trainer/ps/server.h"

namespace trainer {

#define ASSERT_OK(expr)                                   \
  do {                                                    \
    const absl::Status ok_status_ = (expr);               \
    ASSERT_TRUE(ok_status_.ok()) << ok_status_.message(); \
  } while (false)
#define EXPECT_OK(expr)                                   \
  do {                                                    \
    const absl::Status ok_status_ = (expr);               \
    EXPECT_TRUE(ok_status_.ok()) << ok_status_.message(); \
  } while (false)

// Variables "v0", "v1", … of the given shapes, one after the other.
inline std::vector<Variable> MakeVariables(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<Variable> variables;
  int64_t offset = 0;
  for (const auto& shape : shapes) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    variables.push_back({.name = absl::StrCat("v", variables.size()),
                         .shape = shape,
                         .offset = offset,
                         .size = size});
    offset += size;
  }
  return variables;
}

inline int64_t ParameterCount(const JobConfig& config) {
  return config.variables.empty() ? 0
                                  : config.variables.back().offset + config.variables.back().size;
}

// Plain SGD with a constant rate of 1, so that integer gradients give integer variables.
inline JobConfig MakeJob(const std::vector<std::vector<int64_t>>& shapes) {
  JobConfig config;
  config.variables = MakeVariables(shapes);
  config.schedule = {.rate = 1.0f};
  return config;
}

inline JobConfig MakeSyncJob(const std::vector<std::vector<int64_t>>& shapes, int aggregate,
                             int replicas) {
  JobConfig config = MakeJob(shapes);
  config.sync = true;
  config.replicas_to_aggregate = aggregate;
  config.total_num_replicas = replicas;
  return config;
}

class TestCluster {
 public:
  explicit TestCluster(int servers, PsServerOptions options = {}) : options_(std::move(options)) {
    options_.shard_count = servers;
    for (int i = 0; i < servers; ++i) {
      servers_.emplace_back();
      addresses_.emplace_back("127.0.0.1:0");
      StartServer(i);
    }
  }

  // A stopped server comes back on the port that it had.
  void StartServer(int i) {
    PsServerOptions options = options_;
    options.shard = i;
    options.listen_address = addresses_[i];
    auto server = PsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status().message();
    servers_[i] = *std::move(server);
    addresses_[i] = absl::StrCat("127.0.0.1:", servers_[i]->port());
  }
  void StopServer(int i) { servers_[i].reset(); }

  PsServer& server(int i) { return *servers_[i]; }
  const std::vector<std::string>& addresses() const { return addresses_; }

  PsClientOptions ClientOptions(int worker) const {
    return {.addresses = addresses_,
            .task = {"worker", worker},
            .incarnation = NextIncarnation(),
            .call_timeout = absl::Seconds(20)};
  }
  std::unique_ptr<PsClient> Client(int worker) const {
    return PsClient::Create(ClientOptions(worker));
  }

  // As the chief: every shard configured and given `values`.
  static void Initialize(PsClient& chief, const JobConfig& config, std::span<const float> values,
                         int64_t step = 0) {
    for (int i = 0; i < chief.server_count(); ++i) {
      ASSERT_OK(chief.Configure(i, config));
      ASSERT_OK(chief.InitializeShard(i, values, step));
    }
  }

 private:
  static uint64_t NextIncarnation() {
    static std::atomic<uint64_t> next = 1;
    return next++;
  }

  PsServerOptions options_;
  std::vector<std::unique_ptr<PsServer>> servers_;
  std::vector<std::string> addresses_;
};

}  // namespace trainer
