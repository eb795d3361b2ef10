// What an exchange costs: steps per second, CPU milliseconds of workers and parameter servers per
// step, and memory of a ps, with every task a process of its own. Prints one table.
//   ps_bench [--steps=N] [--filter=TEXT]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/task_certificates.h"
#include "trainer/ps/client.h"
#include "trainer/ps/server.h"
#include "trainer/ps/tune_malloc.h"

namespace trainer {
namespace {

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> shapes;
  int servers;
  int workers;
  bool same_node;
  WireDtype wire = WireDtype::kF32;
  bool sync = false;
  float ema_decay = 0.99f;
  bool tls = false;
};

// What a process tells its parent when it ends.
struct Usage {
  double cpu_seconds = 0;
  double wall_seconds = 0;
  int64_t peak_kib = 0;
};

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Resident at most, since this process began: ru_maxrss would start from the parent's.
int64_t PeakKib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "ps_bench: %s\n", message.c_str());
  _exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

// One job's, for all of its processes.
std::shared_ptr<const TaskTls> TlsOf(const Case& bench) {
  if (!bench.tls) return nullptr;
  static const auto* const made = new auto(base::MakeTaskCertificates("ps_bench", absl::Now()));
  Check(made->status());
  return std::make_shared<const TaskTls>((*made)->authority, (*made)->certificate, (*made)->key);
}

template <typename T>
void Send(int fd, const T& value) {
  if (write(fd, &value, sizeof value) != sizeof value) Die("cannot write to the parent");
}

template <typename T>
T Receive(int fd) {
  T value;
  if (read(fd, &value, sizeof value) != sizeof value) Die("a process ended too early");
  return value;
}

struct Process {
  pid_t pid;
  int from;
};

Process Fork(const std::function<void(int to)>& body) {
  int ends[2];
  if (pipe(ends) != 0) Die("no pipe");
  const pid_t pid = fork();
  if (pid < 0) Die("no process");
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  TuneMalloc();
  body(ends[1]);
  _exit(0);
}

JobConfig Job(const Case& bench, int64_t steps) {
  JobConfig config;
  int64_t offset = 0;
  for (const auto& shape : bench.shapes) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    config.variables.push_back({.name = absl::StrCat("v", config.variables.size()),
                                .shape = shape,
                                .offset = offset,
                                .size = size});
    offset += size;
  }
  config.schedule = {.rate = 1e-3f, .decay = 0.99f, .decay_steps = 600};
  config.ema_decay = bench.ema_decay;
  config.last_step = steps;
  config.sync = bench.sync;
  config.replicas_to_aggregate = bench.workers;
  config.total_num_replicas = bench.workers;
  return config;
}

void ServePs(const Case& bench, int shard, int to) {
  auto server = PsServer::Start({.listen_address = "127.0.0.1:0",
                                 .shard = shard,
                                 .shard_count = bench.servers,
                                 .same_node = bench.same_node,
                                 .tls = TlsOf(bench),
                                 .finish_linger = absl::Milliseconds(100)});
  Check(server.status());
  Send(to, (*server)->port());
  const double before = CpuSeconds();
  (*server)->WaitUntilFinished(absl::Minutes(10));
  Send(to, Usage{.cpu_seconds = CpuSeconds() - before, .peak_kib = PeakKib()});
  (*server)->Shutdown();
}

void Work(const Case& bench, const std::vector<std::string>& addresses, int index, int64_t steps,
          int to) {
  const JobConfig config = Job(bench, steps);
  const int64_t n = config.variables.back().offset + config.variables.back().size;
  const auto client = PsClient::Create({.addresses = addresses,
                                        .task = {"worker", index},
                                        .incarnation = static_cast<uint64_t>(getpid()),
                                        .wire_dtype = bench.wire,
                                        .same_node = bench.same_node,
                                        .tls = TlsOf(bench)});
  std::vector<float> parameters(n, 0.1f);
  if (index == 0) {
    for (int i = 0; i < bench.servers; ++i) {
      Check(client->Configure(i, config));
      Check(client->InitializeShard(i, parameters, 0));
    }
  }
  auto ready = [](const auto& status) { return status.ok() && status->state != PsState::kEmpty; };
  while (true) {
    const auto statuses = client->GetStatus(absl::Seconds(1));
    if (std::all_of(statuses.begin(), statuses.end(), ready)) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
  Check(client->Attach(config));
  auto result = client->Pull(parameters);
  Check(result.status());
  const std::vector<float> gradients(n, 1e-6f);
  const double cpu = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  while (!result->finished) {
    result = client->Exchange(gradients, result->global_step, parameters, std::stop_token());
    Check(result.status());
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  Send(to, Usage{CpuSeconds() - cpu, wall.count(), PeakKib()});
  if (index == 0) {
    Check(client->Finish());
  } else {
    client->Goodbye();
  }
}

void Run(const Case& bench, int64_t steps) {
  TlsOf(bench);  // made before processes part
  std::vector<Process> servers;
  std::vector<Process> workers;
  std::vector<std::string> addresses;
  for (int i = 0; i < bench.servers; ++i) {
    servers.push_back(Fork([&](int to) { ServePs(bench, i, to); }));
    addresses.push_back(absl::StrCat("127.0.0.1:", Receive<int>(servers.back().from)));
  }
  for (int i = 0; i < bench.workers; ++i) {
    workers.push_back(Fork([&](int to) { Work(bench, addresses, i, steps, to); }));
  }
  double worker_cpu = 0, server_cpu = 0, wall = 0;
  int64_t peak = 0;
  for (const Process& worker : workers) {
    const auto usage = Receive<Usage>(worker.from);
    worker_cpu += usage.cpu_seconds;
    wall = std::max(wall, usage.wall_seconds);
  }
  for (const Process& server : servers) {
    const auto usage = Receive<Usage>(server.from);
    server_cpu += usage.cpu_seconds;
    peak = std::max(peak, usage.peak_kib);
  }
  for (const Process& process : workers) waitpid(process.pid, nullptr, 0);
  for (const Process& process : servers) waitpid(process.pid, nullptr, 0);
  const double n = static_cast<double>(steps);
  std::printf("%-34s %9.0f %10.3f %10.3f %10.3f %9.1f\n", bench.name, n / wall,
              1e3 * worker_cpu / n, 1e3 * server_cpu / n, 1e3 * (worker_cpu + server_cpu) / n,
              static_cast<double>(peak) / 1024);
  std::fflush(stdout);
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  int64_t steps = 2000;
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--steps=")) steps = std::atoll(argv[i] + 8);
    if (absl::StartsWith(argv[i], "--filter=")) filter = argv[i] + 9;
  }
  base::ConfigureLog(base::LogFormat::kText, base::LogLevel::kWarning);
  const std::vector<std::vector<int64_t>> mlp = {{784, 500}, {500}, {500, 10}, {10}};
  const std::vector<std::vector<int64_t>> line = {{}, {}};
  using trainer::WireDtype;
  const trainer::Case cases[] = {
      {"mlp, TCP, 1 ps 1 worker", mlp, 1, 1, false},
      {"mlp, TCP, 1 ps 2 workers", mlp, 1, 2, false},
      {"mlp, TCP, 2 ps 2 workers", mlp, 2, 2, false},
      {"mlp, TCP bf16, 1 ps 2 workers", mlp, 1, 2, false, WireDtype::kBf16},
      {"mlp, TCP sync, 1 ps 2 workers", mlp, 1, 2, false, WireDtype::kF32, true},
      {"mlp, TLS, 1 ps 1 worker", mlp, 1, 1, false, WireDtype::kF32, false, 0.99f, true},
      {"mlp, TLS, 1 ps 2 workers", mlp, 1, 2, false, WireDtype::kF32, false, 0.99f, true},
      {"mlp, TLS bf16, 1 ps 2 workers", mlp, 1, 2, false, WireDtype::kBf16, false, 0.99f, true},
      {"mlp, same node, 1 ps 1 worker", mlp, 1, 1, true},
      {"mlp, same node, 1 ps 2 workers", mlp, 1, 2, true},
      {"mlp, same node sync, 1 ps 2 workers", mlp, 1, 2, true, WireDtype::kF32, true},
      {"line, TCP, 1 ps 1 worker", line, 1, 1, false, WireDtype::kF32, false, 0},
      {"line, TCP, 1 ps 2 workers", line, 1, 2, false, WireDtype::kF32, false, 0},
      {"line, TLS, 1 ps 1 worker", line, 1, 1, false, WireDtype::kF32, false, 0, true},
      {"line, same node, 1 ps 2 workers", line, 1, 2, true, WireDtype::kF32, false, 0},
  };
  std::printf("%-34s %9s %10s %10s %10s %9s\n", "case", "steps/s", "worker ms", "ps ms", "CPU ms",
              "ps MiB");
  for (const trainer::Case& bench : cases) {
    if (!absl::StrContains(bench.name, filter)) continue;
    trainer::Run(bench, bench.shapes.size() == 2 ? 5 * steps : steps);
  }
  return 0;
}
