// A file in shared memory through which one worker and the parameter servers on its machine
// exchange what otherwise goes through gRPC: for each server a channel of the same headers and two
// doorbells, and for all together the model's flat buffers, of which each server uses its own
// segments.
//
// The worker makes the file under an unguessable name and tells the servers by gRPC; once they have
// mapped it the name is removed, so that nothing is left behind however either side ends. Each side
// holds a lock on its own byte of the file; the kernel lets go of it when the process dies, which
// is how the other side knows.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trainer {

// How often a side that waits looks whether the other one still lives.
inline constexpr absl::Duration kLookAround = absl::Milliseconds(250);

// A counter that one process rings and the other waits on (a futex). Lies in shared memory.
class Doorbell {
 public:
  void Ring();
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  // Waits until count() != seen or for about `timeout`. `spin`: in and out; whether to look for a
  // few microseconds before sleeping, which pays as long as answers are that quick.
  void Wait(uint32_t seen, absl::Duration timeout, bool* spin);

 private:
  std::atomic<uint32_t> count_;
  std::atomic<uint32_t> sleepers_;
};

// One direction. Written by its sender before it rings, read by the other side after.
struct alignas(64) Mailbox {
  Doorbell bell;
  std::atomic<uint64_t> sequence;   // of the exchange that lies here
  std::atomic<uint64_t> cancelled;  // requests: of the exchange that the worker gives up
  uint32_t header_bytes;
  int64_t elements;  // f32
};

// One side of one channel.
class SharedMemory {
 public:
  static constexpr size_t kHeaderCapacity = 64 * 1024;

  // Worker: makes the file for flat buffers of `elements` f32 and one channel for each of
  // `servers`. The memory itself is reserved by Reserve.
  static absl::StatusOr<std::vector<std::unique_ptr<SharedMemory>>> Create(int64_t elements,
                                                                           int servers);
  // Server: kFailedPrecondition if there is no such file with this nonce and a channel for
  // `server`: another machine's, perhaps.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Open(const std::string& name, uint64_t nonce,
                                                            int server);
  ~SharedMemory();

  const std::string& name() const { return name_; }
  uint64_t nonce() const;
  int64_t elements() const { return elements_; }
  // Removes the name; the memory stays as long as a side has it mapped. Idempotent.
  void Unlink();
  // kResourceExhausted when the machine or container has too little shared memory; touching memory
  // that is not reserved would kill the process then.
  absl::Status Reserve();

  Mailbox& request();
  Mailbox& reply();
  std::span<std::byte> request_header();
  std::span<std::byte> reply_header();
  std::span<float> gradient();   // up
  std::span<float> variables();  // down

  // Either side says that it uses the channel no more; wakes both.
  void Close();
  bool closed() const;
  // Whether the other side's process still has the file open.
  bool OtherSideLives() const;

 private:
  struct Control;
  struct Channel;
  // `own_byte`, `other_byte`: whose lock says that the side lives.
  SharedMemory(std::string name, int fd, int server, off_t own_byte, off_t other_byte)
      : name_(std::move(name)),
        fd_(fd),
        server_(server),
        own_byte_(own_byte),
        other_byte_(other_byte) {}
  absl::Status Map(int64_t elements, int servers);
  absl::Status LockOwnByte() const;
  Channel& channel() const;
  std::byte* headers() const;

  const std::string name_;
  const int fd_;
  const int server_;
  const off_t own_byte_, other_byte_;
  int64_t elements_ = 0;
  int servers_ = 0;
  size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  bool linked_ = false;
};

}  // namespace trainer
