#include "trainer/train/check.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "trainer/train/task_client.h"
#include "trainer/train/task_server.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

constexpr absl::Duration kProbeTimeout = absl::Seconds(2);
constexpr absl::Duration kLinger = absl::Seconds(5);
constexpr int kRounds = 7;

// One other task, and what is known of it.
struct Peer {
  base::Task task;
  std::string address;
  std::unique_ptr<TaskClient> client;
  absl::Status status = absl::UnavailableError("not asked yet");
  absl::Duration round_trip;
  bool checking = false;
};

absl::Duration Median(std::vector<absl::Duration> times) {
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Measures a task that has just answered, then tells it that it has been seen. A ps answers health
// checks only, so "not implemented" is no failure.
absl::Status Measure(const std::string& own_name, Peer& peer) {
  std::vector<absl::Duration> times;
  for (int round = 0; round < kRounds; ++round) {
    const Probe probe = peer.client->CheckHealth(kProbeTimeout);
    RETURN_IF_ERROR(probe.status);
    times.push_back(probe.round_trip);
  }
  peer.round_trip = Median(std::move(times));
  const auto pong = peer.client->Ping(own_name, kProbeTimeout);
  if (absl::IsUnimplemented(pong.status())) return absl::OkStatus();
  RETURN_IF_ERROR(pong.status());
  if (const std::string expected = base::TaskName(peer.task); pong->task() != expected) {
    return absl::UnavailableError(absl::StrCat("the task there says that it is ", pong->task()));
  }
  peer.checking = pong->checking();
  return absl::OkStatus();
}

void Look(const std::string& own_name, std::vector<Peer>& peers, const TaskTls* tls) {
  std::vector<std::string> addresses;
  std::vector<Peer*> unseen;
  for (Peer& peer : peers) {
    if (peer.status.ok()) continue;
    addresses.push_back(peer.address);
    unseen.push_back(&peer);
  }
  const std::vector<Probe> probes = ProbeHealth(addresses, kProbeTimeout, tls);
  for (size_t i = 0; i < unseen.size(); ++i) {
    unseen[i]->status = probes[i].status.ok() ? Measure(own_name, *unseen[i]) : probes[i].status;
  }
}

std::vector<std::string> Missing(const std::vector<Peer>& peers, const TaskTls* tls) {
  std::vector<std::string> missing;
  for (const Peer& peer : peers) {
    if (peer.status.ok()) continue;
    missing.push_back(absl::StrCat(base::TaskName(peer.task), " (", peer.address, ": ",
                                   WhyUnreachable(peer.status, tls), ")"));
  }
  return missing;
}

void PrintTable(const Role& role, const std::vector<Peer>& peers, std::FILE* output) {
  std::vector<CheckRow> rows;
  if (!role.address.empty()) {
    rows.push_back({base::TaskName(role.task), role.address, "this task", absl::ZeroDuration()});
  }
  for (const Peer& peer : peers) {
    rows.push_back({base::TaskName(peer.task), peer.address,
                    peer.status.ok() ? "ok" : WhyUnreachable(peer.status, role.tls.get()),
                    peer.round_trip});
  }
  std::fputs(FormatCheckTable(rows).c_str(), output);
  std::fflush(output);
}

}  // namespace

std::string FormatCheckTable(const std::vector<CheckRow>& rows) {
  size_t task_width = 4, address_width = 7, answer_width = 6;
  for (const CheckRow& row : rows) {
    task_width = std::max(task_width, row.task.size());
    address_width = std::max(address_width, row.address.size());
    answer_width = std::max(answer_width, row.answer.size());
  }
  const auto line = [&](const std::string& task, const std::string& address,
                        const std::string& answer, const std::string& round_trip) {
    return absl::StrFormat("%-*s  %-*s  %-*s  %s\n", task_width, task, address_width, address,
                           answer_width, answer, round_trip);
  };
  std::string table = line("task", "address", "answer", "round trip");
  for (const CheckRow& row : rows) {
    const std::string round_trip =
        row.answer == "ok" ? absl::StrFormat("%.3f ms", absl::ToDoubleMilliseconds(row.round_trip))
                           : "-";
    absl::StrAppend(&table, line(row.task, row.address, row.answer, round_trip));
  }
  return table;
}

absl::Status RunCheck(const Options& options, const Role& role, std::stop_token stop,
                      std::FILE* output) {
  if (role.cluster.empty()) {
    return base::UsageError(
        "check: there is no cluster to check; give --ps_hosts and --worker_hosts, or TF_CONFIG");
  }
  std::unique_ptr<TaskServer> server;
  if (!role.address.empty()) {
    ASSIGN_OR_RETURN(server, TaskServer::Start({.listen_address = ListenAddress(role.address),
                                                .task = role.task,
                                                .checking = true,
                                                .tls = role.tls}));
  }
  const std::string own_name = server == nullptr ? "" : base::TaskName(role.task);
  std::vector<Peer> peers;
  for (const base::Task& task : role.cluster.Tasks()) {
    if (!role.address.empty() && task == role.task) continue;
    const std::string address = role.cluster.Address(task);
    peers.push_back({.task = task,
                     .address = address,
                     .client = std::make_unique<TaskClient>(address, role.tls.get())});
  }
  Waiter waiter(absl::Seconds(options.wait_timeout_secs), stop);
  absl::Status result;
  for (;;) {
    Look(own_name, peers, role.tls.get());
    const std::vector<std::string> missing = Missing(peers, role.tls.get());
    if (missing.empty()) break;
    result = waiter.StillWaitingFor(missing);
    if (!result.ok()) break;
  }
  PrintTable(role, peers, output);
  RETURN_IF_ERROR(result);
  if (server == nullptr) return absl::OkStatus();
  std::set<std::string> others;
  for (const Peer& peer : peers) {
    if (peer.checking) others.insert(base::TaskName(peer.task));
  }
  server->WaitForPings(others, kLinger, stop);
  return absl::OkStatus();
}

}  // namespace trainer
