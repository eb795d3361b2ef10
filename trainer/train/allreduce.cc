#include "trainer/train/allreduce.h"

#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/train/rendezvous.h"

namespace trainer {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(2);
// Up to this size every rank sends all it has to every other: one hop, where a ring takes 2(N − 1).
constexpr size_t kDirectElements = 4096;

using Buffer = gloo::transport::UnboundBuffer;

std::chrono::milliseconds Milliseconds(absl::Duration duration) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(duration));
}

void Add(std::span<float> to, std::span<const float> from) {
  float* __restrict sum = to.data();
  const float* __restrict more = from.data();
  for (size_t i = 0; i < to.size(); ++i) sum[i] += more[i];
}

void Divide(std::span<float> values, float divisor) {
  for (float& value : values) value /= divisor;
}

// Gloo's view of the group's part of rank 0's store. Throws, as Gloo wants it.
class GroupStore final : public gloo::rendezvous::Store {
 public:
  GroupStore(Rendezvous* rendezvous, const std::string& group)
      : rendezvous_(rendezvous), prefix_(absl::StrCat("allreduce/", group, "/")) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Check(rendezvous_->Put(prefix_ + key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = rendezvous_->Get(prefix_ + key, kConnectTimeout);
    Check(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  static void Check(const absl::Status& status) {
    if (!status.ok()) throw gloo::IoException(std::string(status.message()));
  }

  Rendezvous* const rendezvous_;
  const std::string prefix_;
};

struct HostPort {
  std::string host, port;
};
HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

// The address of this machine from which `peer` is reached; "" if its name does not resolve. No
// packet is sent: connecting a UDP socket only chooses a route.
std::string SourceAddressTowards(const std::string& peer) {
  const auto [host, port] = Split(peer);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  char text[NI_MAXHOST] = "";
  if (socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&local), length, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  }
  if (socket >= 0) ::close(socket);
  return text;
}

// While it lives, threads that this thread starts are SCHED_BATCH: they do not preempt whoever runs
// when they are woken. Gloo's thread polls without a pause while another thread holds a
// connection's lock; if it preempted that thread just then, it would poll for a whole time slice.
class StartThreadsAsBatch {
 public:
  StartThreadsAsBatch() {
    if (before_ == SCHED_OTHER) Set(SCHED_BATCH);
  }
  ~StartThreadsAsBatch() {
    if (before_ == SCHED_OTHER) Set(SCHED_OTHER);
  }

 private:
  static void Set(int policy) {
    const sched_param none{};
    sched_setscheduler(0, policy, &none);
  }
  const int before_ = sched_getscheduler(0);
};

// Gloo's listening side: on this task's own name where that is an address of this machine (a pod
// behind a headless service), else on the address that faces the others (behind a cluster address).
std::shared_ptr<gloo::transport::Device> OpenDevice(const Role& role) {
  gloo::transport::tcp::attr attr;
  attr.hostname = Split(role.address).host;
  const StartThreadsAsBatch batch;
  try {
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception&) {
    const base::Task& other = role.trainers[role.rank == 0 ? 1 : 0];
    attr.hostname = SourceAddressTowards(role.cluster.Address(other));
    if (attr.hostname.empty()) throw;
    return gloo::transport::tcp::CreateDevice(attr);
  }
}

class GlooReducer final : public AllReducer {
 public:
  explicit GlooReducer(const AllReducerOptions& options)
      : options_(options),
        rank_(options.role.rank),
        size_(static_cast<int>(options.role.trainers.size())),
        rendezvous_(options.role, options.server) {}

  absl::Status Join() override {
    context_.reset();
    if (size_ == 1) return absl::OkStatus();
    const absl::Time deadline = absl::Now() + options_.rendezvous_timeout;
    while (true) {
      ASSIGN_OR_RETURN(const std::string group,
                       rendezvous_.Join(deadline - absl::Now(), options_.stop));
      const absl::Status connected = Connect(group);
      if (connected.ok()) return absl::OkStatus();
      // Somebody who had joined is gone again: those who are left meet anew.
      if (absl::Now() >= deadline) return connected;
      base::LogWarning("could not connect to every trainer; trying again",
                       {{"err", connected.message()}});
    }
  }

  absl::Status Average(std::span<float> values) override {
    if (values.empty()) return absl::OkStatus();
    return Collective("all-reduce", [&] {
      return values.size() <= kDirectElements ? AverageDirectly(values) : AverageInRing(values);
    });
  }

  absl::Status Broadcast(std::span<float> values) override {
    if (values.empty()) return absl::OkStatus();
    return Collective("broadcast", [&] { return SendFromZero(values); });
  }

  void Leave() override {
    if (context_ == nullptr) return;
    try {
      gloo::BarrierOptions barrier(context_);
      barrier.setTimeout(Milliseconds(kLeaveTimeout));
      gloo::barrier(barrier);
    } catch (const std::exception&) {
      // Others have left already, or are dead: nothing is owed to them.
    }
    context_.reset();
  }

 private:
  absl::Status Connect(const std::string& group) {
    try {
      if (device_ == nullptr) device_ = OpenDevice(options_.role);
      auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
      context->setTimeout(Milliseconds(kConnectTimeout));
      GroupStore store(&rendezvous_, group);
      context->connectFullMesh(store, device_);
      context_ = std::move(context);
      next_slot_ = 0;
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return base::ClusterError(
          absl::StrCat(base::TaskName(options_.role.task), ": all-reduce group: ", error.what()));
    }
  }

  // Runs `body`, which returns false when it was stopped, and turns what Gloo throws into a status.
  template <typename Body>
  absl::Status Collective(const char* what, const Body& body) {
    if (size_ == 1) return absl::OkStatus();
    if (context_ == nullptr) {
      return base::ClusterError(absl::StrCat(what, ": the group is broken; join it again"));
    }
    std::string why;
    try {
      deadline_ = absl::Now() + options_.collective_timeout;
      if (body()) return absl::OkStatus();
      why = "stopped";
    } catch (const std::exception& error) {
      why = error.what();
    }
    context_.reset();  // the neighbours notice at once, and theirs in turn
    if (options_.stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat("stopped during ", what));
    }
    const std::vector<std::string> missing = rendezvous_.Unreachable();
    return base::ClusterError(absl::StrCat(
        what, " failed: ",
        missing.empty() ? absl::StrCat("a connection broke or a trainer was silent for ",
                                       absl::FormatDuration(options_.collective_timeout), ": ", why)
                        : absl::StrCat("no answer from ", absl::StrJoin(missing, ", "))));
  }

  // Waits for this buffer's next receive (send) to end; false when stopped.
  bool WaitRecv(Buffer& buffer) {
    const std::stop_callback abort(options_.stop, [&buffer] { buffer.abortWaitRecv(); });
    return buffer.waitRecv(nullptr, Left());
  }
  bool WaitSend(Buffer& buffer) {
    const std::stop_callback abort(options_.stop, [&buffer] { buffer.abortWaitSend(); });
    return buffer.waitSend(nullptr, Left());
  }
  std::chrono::milliseconds Left() const {
    return std::max(std::chrono::milliseconds(1), Milliseconds(deadline_ - absl::Now()));
  }

  std::unique_ptr<Buffer> Bind(std::span<float> values) {
    return context_->createUnboundBuffer(values.data(), values.size_bytes());
  }

  // Everyone to everyone, then summed in order of rank on each, so that all get the same bits.
  bool AverageDirectly(std::span<float> values) {
    const uint64_t slot = next_slot_++;
    scratch_.resize(values.size() * size_);
    std::vector<std::unique_ptr<Buffer>> incoming(size_);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      incoming[rank] = Bind(Part(rank, values.size()));
      incoming[rank]->recv(rank, slot);
    }
    const std::unique_ptr<Buffer> own = Bind(values);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) own->send(rank, slot);
    }
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_ && (!WaitRecv(*incoming[rank]) || !WaitSend(*own))) return false;
    }
    std::copy(values.begin(), values.end(), Part(rank_, values.size()).begin());
    const std::span<float> sum = Part(0, values.size());
    std::copy(sum.begin(), sum.end(), values.begin());
    for (int rank = 1; rank < size_; ++rank) Add(values, Part(rank, values.size()));
    Divide(values, static_cast<float>(size_));
    return true;
  }
  std::span<float> Part(int rank, size_t size) {
    return std::span(scratch_).subspan(rank * size, size);
  }

  // The bandwidth-optimal ring (Patarasuk and Yuan, 2009): N blocks, N − 1 steps in which each rank
  // sums one more block, then N − 1 in which the finished blocks go round. Each block is summed on
  // one path only, so all get the same bits.
  bool AverageInRing(std::span<float> values) {
    const uint64_t slot = next_slot_++;
    const size_t block = (values.size() + size_ - 1) / size_;
    const int right = (rank_ + 1) % size_;
    const int left = (rank_ + size_ - 1) % size_;
    const auto part = [&](int index) {
      const size_t begin = std::min(values.size(), ((index + 2 * size_) % size_) * block);
      return values.subspan(begin, std::min(block, values.size() - begin));
    };
    const std::unique_ptr<Buffer> own = Bind(values);
    const auto offset = [&](std::span<float> run) {
      return static_cast<size_t>(run.data() - values.data()) * sizeof(float);
    };
    scratch_.resize(block);
    const std::unique_ptr<Buffer> scratch = Bind(scratch_);
    for (int step = 0; step < size_ - 1; ++step) {
      const std::span<float> out = part(rank_ - step), in = part(rank_ - step - 1);
      if (!out.empty()) own->send(right, slot, offset(out), out.size_bytes());
      if (!in.empty()) scratch->recv(left, slot, 0, in.size_bytes());
      if (!in.empty() && !WaitRecv(*scratch)) return false;
      Add(in, std::span<const float>(scratch_).first(in.size()));
      if (!out.empty() && !WaitSend(*own)) return false;
    }
    Divide(part(rank_ + 1), static_cast<float>(size_));  // the block that is whole here now
    for (int step = 0; step < size_ - 1; ++step) {
      const std::span<float> out = part(rank_ + 1 - step), in = part(rank_ - step);
      if (!out.empty()) own->send(right, slot, offset(out), out.size_bytes());
      if (!in.empty()) own->recv(left, slot, offset(in), in.size_bytes());
      if (!in.empty() && !WaitRecv(*own)) return false;
      if (!out.empty() && !WaitSend(*own)) return false;
    }
    return true;
  }

  // A binomial tree rooted at rank 0: a rank receives from the one with its highest bit cleared,
  // then sends to those with one higher bit set.
  bool SendFromZero(std::span<float> values) {
    const uint64_t slot = next_slot_++;
    const std::unique_ptr<Buffer> own = Bind(values);
    int bit = 1;
    while (bit * 2 <= rank_) bit *= 2;
    if (rank_ > 0) {
      own->recv(rank_ - bit, slot);
      if (!WaitRecv(*own)) return false;
      bit *= 2;
    }
    for (; rank_ + bit < size_; bit *= 2) {
      own->send(rank_ + bit, slot);
      if (!WaitSend(*own)) return false;
    }
    return true;
  }

  const AllReducerOptions options_;
  const int rank_, size_;
  Rendezvous rendezvous_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;  // null = no group
  std::vector<float> scratch_;
  absl::Time deadline_;     // of the collective under way
  uint64_t next_slot_ = 0;  // a number of its own for each collective
};

}  // namespace

absl::StatusOr<std::unique_ptr<AllReducer>> AllReducer::Create(const AllReducerOptions& options) {
  const std::vector<base::Task>& trainers = options.role.trainers;
  if (std::find(trainers.begin(), trainers.end(), options.role.task) == trainers.end()) {
    return base::UsageError(absl::StrCat(base::TaskName(options.role.task),
                                         " does not train, so it cannot take part in all-reduce"));
  }
  return std::make_unique<GlooReducer>(options);
}

}  // namespace trainer
