#include "operator/cli/ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <random>

namespace tfjob {
namespace {

constexpr int kFirstPort = 10240;  // below are ports that people know by heart

// The first port that the kernel may give to outgoing connections.
int FirstEphemeralPort() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  return file >> first && first > 0 ? first : 32768;
}

// A socket bound to the port on every address, or an invalid one if somebody has it. 0: any port.
Fd Bind(int port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Fd();
  return fd;
}

int PortOfSocket(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.sin_port);
}

}  // namespace

absl::StatusOr<int> PortReserver::Reserve(const std::string& key) {
  if (const auto known = ports_.find(key); known != ports_.end()) return known->second.number;
  const int count = FirstEphemeralPort() - kFirstPort;
  // A random start, so that runs side by side seldom try the same ports.
  if (next_ == 0)
    next_ = kFirstPort + static_cast<int>(std::random_device()() % std::max(count, 1));
  for (int tries = 0; tries < std::min(count, 4096); ++tries) {
    const int port = next_;
    next_ = next_ + 1 < kFirstPort + count ? next_ + 1 : kFirstPort;
    Fd holder = Bind(port);
    if (!holder.valid()) continue;
    ports_[key] = {port, std::move(holder)};
    return port;
  }
  Fd holder = Bind(0);  // the range has no room below it, or all is taken
  if (!holder.valid()) return absl::UnavailableError("no free loopback port on this machine");
  const int port = PortOfSocket(holder.get());
  ports_[key] = {port, std::move(holder)};
  return port;
}

void PortReserver::Release(const std::string& key) {
  if (const auto known = ports_.find(key); known != ports_.end()) known->second.holder = Fd();
}

}  // namespace tfjob
