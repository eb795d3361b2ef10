#include "trainer/ps/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/random_id.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

constexpr uint64_t kMagic = 0x32'6d'65'6d'73'70'79'74;  // and the version of this layout
constexpr char kNamePrefix[] = "/trainyard-";
constexpr std::chrono::microseconds kSpin{20};
constexpr size_t kPage = 4096;
constexpr int kMaxServers = 4096;
constexpr off_t kWorkerByte = 0;  // server i holds byte 1 + i

size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

size_t TensorBytes(int64_t elements) { return RoundUp(elements * sizeof(float)); }

absl::Status Failed(const char* what, const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat(what, " ", name, ": ", std::strerror(errno)));
}

struct flock ByteLock(off_t byte) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

void Doorbell::Ring() {
  count_.fetch_add(1);
  // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper, whose
  // futex compares once more, sees the new count.
  if (sleepers_.load() == 0) return;
  syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::Wait(uint32_t seen, absl::Duration timeout, bool* spin) {
  const auto start = std::chrono::steady_clock::now();
  while (*spin && std::chrono::steady_clock::now() - start < kSpin) {
    for (int i = 0; i < 16; ++i) {
      if (count() != seen) return;
      Relax();
    }
  }
  sleepers_.fetch_add(1);
  const timespec limit = absl::ToTimespec(timeout);
  if (count_.load() == seen) {
    syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  sleepers_.fetch_sub(1);
  *spin = std::chrono::steady_clock::now() - start < 3 * kSpin;
}

struct SharedMemory::Control {
  uint64_t magic;
  uint64_t nonce;
  int64_t elements;
  int64_t servers;
};

// Followed by room for both headers.
struct SharedMemory::Channel {
  std::atomic<uint32_t> closed;
  Mailbox request;
  Mailbox reply;
};

namespace {

constexpr size_t kChannelBytes = kPage + 2 * SharedMemory::kHeaderCapacity;

size_t FileBytes(int64_t elements, int64_t servers) {
  return kPage + servers * kChannelBytes + 2 * TensorBytes(elements);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<SharedMemory>>> SharedMemory::Create(int64_t elements,
                                                                                int servers) {
  const std::string name =
      absl::StrCat(kNamePrefix, absl::Hex(base::RandomId()), absl::Hex(base::RandomId()));
  std::vector<std::unique_ptr<SharedMemory>> channels;
  for (int i = 0; i < servers; ++i) {
    const int fd = i == 0 ? shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                          : fcntl(channels[0]->fd_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return Failed("cannot make shared memory", name);
    channels.emplace_back(new SharedMemory(name, fd, i, kWorkerByte, 1 + i));
    if (i == 0) {
      channels[0]->linked_ = true;
      const auto front = static_cast<off_t>(kPage + servers * kChannelBytes);
      if (ftruncate(fd, static_cast<off_t>(FileBytes(elements, servers))) != 0 ||
          posix_fallocate(fd, 0, front) != 0) {
        return Failed("cannot size shared memory", name);
      }
    }
    RETURN_IF_ERROR(channels[i]->Map(elements, servers));
    new (&channels[i]->channel()) Channel();
  }
  if (channels.empty()) return channels;
  RETURN_IF_ERROR(channels[0]->LockOwnByte());
  new (channels[0]->base_)
      Control{.magic = kMagic, .nonce = base::RandomId(), .elements = elements, .servers = servers};
  return channels;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Open(const std::string& name,
                                                                 uint64_t nonce, int server) {
  if (!absl::StartsWith(name, kNamePrefix) || name.find('/', 1) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not a shared memory name: ", name));
  }
  const int fd = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return Failed("cannot open shared memory", name);
  std::unique_ptr<SharedMemory> memory(new SharedMemory(name, fd, server, 1 + server, kWorkerByte));
  struct stat info;
  Control control;
  if (fstat(fd, &info) != 0) return Failed("cannot look at shared memory", name);
  if (pread(fd, static_cast<void*>(&control), sizeof control, 0) != sizeof control ||
      control.magic != kMagic || control.nonce != nonce || control.elements < 0 ||
      control.elements > info.st_size || control.servers <= server ||
      control.servers > kMaxServers ||
      static_cast<off_t>(FileBytes(control.elements, control.servers)) != info.st_size) {
    return absl::FailedPreconditionError(absl::StrCat("shared memory ", name, " is not ours"));
  }
  RETURN_IF_ERROR(memory->Map(control.elements, static_cast<int>(control.servers)));
  RETURN_IF_ERROR(memory->LockOwnByte());
  return memory;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
  Unlink();
  close(fd_);
}

absl::Status SharedMemory::Map(int64_t elements, int servers) {
  static_assert(sizeof(Control) <= kPage && sizeof(Channel) <= kPage);
  elements_ = elements;
  servers_ = servers;
  bytes_ = FileBytes(elements, servers);
  void* const base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) return Failed("cannot map shared memory", name_);
  base_ = static_cast<std::byte*>(base);
  return absl::OkStatus();
}

absl::Status SharedMemory::LockOwnByte() const {
  struct flock lock = ByteLock(own_byte_);
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0) return Failed("cannot lock shared memory", name_);
  return absl::OkStatus();
}

uint64_t SharedMemory::nonce() const { return reinterpret_cast<const Control*>(base_)->nonce; }

void SharedMemory::Unlink() {
  if (std::exchange(linked_, false)) shm_unlink(name_.c_str());
}

absl::Status SharedMemory::Reserve() {
  if (posix_fallocate(fd_, 0, static_cast<off_t>(bytes_)) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("there are no ", bytes_, " bytes of shared memory to be had"));
}

SharedMemory::Channel& SharedMemory::channel() const {
  return *reinterpret_cast<Channel*>(base_ + kPage + server_ * kChannelBytes);
}

std::byte* SharedMemory::headers() const { return base_ + kPage + server_ * kChannelBytes + kPage; }

Mailbox& SharedMemory::request() { return channel().request; }
Mailbox& SharedMemory::reply() { return channel().reply; }

std::span<std::byte> SharedMemory::request_header() { return {headers(), kHeaderCapacity}; }
std::span<std::byte> SharedMemory::reply_header() {
  return {headers() + kHeaderCapacity, kHeaderCapacity};
}
std::span<float> SharedMemory::gradient() {
  return {reinterpret_cast<float*>(base_ + kPage + servers_ * kChannelBytes),
          static_cast<size_t>(elements_)};
}
std::span<float> SharedMemory::variables() {
  return {gradient().data() + TensorBytes(elements_) / sizeof(float),
          static_cast<size_t>(elements_)};
}

void SharedMemory::Close() {
  channel().closed.store(1);
  request().bell.Ring();
  reply().bell.Ring();
}

bool SharedMemory::closed() const { return channel().closed.load() != 0; }

bool SharedMemory::OtherSideLives() const {
  struct flock lock = ByteLock(other_byte_);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace trainer
