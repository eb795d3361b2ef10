#include "trainer/train/rendezvous.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "trainer/train/wait.h"

namespace trainer {
namespace {

// Bounds how late a stop is noticed.
constexpr absl::Duration kCallTimeout = absl::Seconds(2);

std::string RandomName() { return absl::StrCat(absl::Hex(base::RandomId(), absl::kZeroPad16)); }

std::string JoinKey(int rank) { return absl::StrCat("allreduce/join/", rank); }
std::string GroupKey(const std::string& announcement) {
  return absl::StrCat("allreduce/group/", announcement);
}

}  // namespace

Rendezvous::Rendezvous(const Role& role, TaskServer* server)
    : role_(role),
      server_(server),
      rank_zero_(role.rank == 0
                     ? nullptr
                     : std::make_unique<TaskClient>(role.cluster.Address(role.trainers.front()),
                                                    role.tls.get())) {}

absl::StatusOr<std::string> Rendezvous::Join(absl::Duration timeout, std::stop_token stop) {
  return role_.rank == 0 ? Gather(timeout, std::move(stop)) : Announce(timeout, std::move(stop));
}

// Rank 0: waits for a fresh announcement of every other rank, then answers them all.
absl::StatusOr<std::string> Rendezvous::Gather(absl::Duration timeout, std::stop_token stop) {
  Waiter waiter(timeout, std::move(stop));
  while (true) {
    std::vector<std::string> announcements, missing;
    for (int rank = 1; rank < static_cast<int>(role_.trainers.size()); ++rank) {
      const absl::StatusOr<std::string> announcement = server_->Get(JoinKey(rank));
      if (announcement.ok() && !used_.contains(*announcement)) {
        announcements.push_back(*announcement);
      } else {
        missing.push_back(Describe(rank));
      }
    }
    if (missing.empty()) {
      const std::string group = RandomName();
      for (const std::string& announcement : announcements) {
        used_.insert(announcement);
        RETURN_IF_ERROR(server_->Put(GroupKey(announcement), group));
      }
      return group;
    }
    RETURN_IF_ERROR(waiter.StillWaitingFor(missing));
  }
}

// Other ranks: announce, and again if rank 0 was restarted and has forgotten, until it answers.
absl::StatusOr<std::string> Rendezvous::Announce(absl::Duration timeout, std::stop_token stop) {
  const std::string announcement = RandomName();
  Waiter waiter(timeout, std::move(stop));
  while (true) {
    std::vector<std::string> missing;
    if (rank_zero_->Put(JoinKey(role_.rank), announcement, kCallTimeout).ok()) {
      const auto group = rank_zero_->Get(GroupKey(announcement), kCallTimeout);
      if (group.ok()) return group;
      missing = Unreachable();
      if (missing.empty()) missing = {"every trainer to join"};
    } else {
      missing = {Describe(0)};
    }
    RETURN_IF_ERROR(waiter.StillWaitingFor(missing));
  }
}

absl::Status Rendezvous::Put(const std::string& key, std::string value) {
  if (rank_zero_ == nullptr) return server_->Put(key, std::move(value));
  return rank_zero_->Put(key, std::move(value), kCallTimeout);
}

absl::StatusOr<std::string> Rendezvous::Get(const std::string& key, absl::Duration timeout) {
  if (rank_zero_ == nullptr) return server_->WaitFor(key, timeout);
  return rank_zero_->Get(key, timeout);
}

std::vector<std::string> Rendezvous::Unreachable() const {
  std::vector<int> ranks;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < static_cast<int>(role_.trainers.size()); ++rank) {
    if (rank == role_.rank) continue;
    ranks.push_back(rank);
    addresses.push_back(role_.cluster.Address(role_.trainers[rank]));
  }
  const std::vector<Probe> probes = ProbeHealth(addresses, kCallTimeout, role_.tls.get());
  std::vector<std::string> missing;
  for (size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].status.ok()) continue;
    missing.push_back(absl::StrCat(base::TaskName(role_.trainers[ranks[i]]), " (", addresses[i],
                                   ": ", WhyUnreachable(probes[i].status, role_.tls.get()), ")"));
  }
  return missing;
}

std::string Rendezvous::Describe(int rank) const {
  const base::Task& task = role_.trainers[rank];
  return absl::StrCat(base::TaskName(task), " (", role_.cluster.Address(task), ")");
}

}  // namespace trainer
