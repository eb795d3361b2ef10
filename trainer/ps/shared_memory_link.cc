#include "trainer/ps/shared_memory_link.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

class SharedMemoryLink final : public Link {
 public:
  SharedMemoryLink(std::shared_ptr<SharedMemory> memory, std::shared_ptr<SharedMemory> flat,
                   Shard layout)
      : memory_(std::move(memory)), flat_(std::move(flat)), layout_(std::move(layout)) {}

  ~SharedMemoryLink() override { memory_->Close(); }

  void Start(const wire::ExchangeRequest& request, std::span<const float> gradients,
             const SharedBuffer&, absl::Time deadline) override {
    deadline_ = deadline;
    cancelled_.store(false);
    seen_ = memory_->reply().bell.count();
    Mailbox& box = memory_->request();
    too_long_ = request.ByteSizeLong() > SharedMemory::kHeaderCapacity;
    if (too_long_) return;
    box.header_bytes = static_cast<uint32_t>(request.ByteSizeLong());
    request.SerializeWithCachedSizesToArray(
        reinterpret_cast<uint8_t*>(memory_->request_header().data()));
    box.elements = gradients.empty() ? 0 : layout_.size;
    Copy(gradients, flat_->gradient());
    bytes_sent_ += box.elements * static_cast<int64_t>(sizeof(float));
    box.sequence.store(++sequence_);
    box.bell.Ring();
  }

  absl::Status Finish(wire::ExchangeReply* reply, std::span<float> parameters) override {
    if (too_long_) return absl::ResourceExhaustedError("the request does not fit shared memory");
    RETURN_IF_ERROR(WaitForReply());
    const Mailbox& box = memory_->reply();
    if (box.header_bytes > SharedMemory::kHeaderCapacity ||
        !reply->ParseFromArray(memory_->reply_header().data(),
                               static_cast<int>(box.header_bytes))) {
      return absl::InternalError("malformed answer in shared memory");
    }
    if (reply->error_code() != 0) {
      return absl::Status(static_cast<absl::StatusCode>(reply->error_code()),
                          reply->error_message());
    }
    bytes_received_ += box.elements * static_cast<int64_t>(sizeof(float));
    if (parameters.empty()) return absl::OkStatus();
    if (box.elements != layout_.size) {
      return absl::InternalError(
          absl::StrCat("answered with ", box.elements, " elements instead of ", layout_.size));
    }
    Copy(flat_->variables(), parameters);
    return absl::OkStatus();
  }

  void Cancel() override {
    cancelled_.store(true);
    Mailbox& box = memory_->request();
    box.cancelled.store(box.sequence.load());
    box.bell.Ring();
  }

  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t bytes_received() const override { return bytes_received_; }

 private:
  // This shard's elements of one flat buffer into another, unless they are there.
  void Copy(std::span<const float> from, std::span<float> to) const {
    if (from.empty() || from.data() == to.data()) return;
    for (const Segment& segment : layout_.segments) {
      std::ranges::copy(from.subspan(segment.flat_offset, segment.length),
                        to.begin() + segment.flat_offset);
    }
  }

  absl::Status WaitForReply() {
    Mailbox& box = memory_->reply();
    while (box.sequence.load() != sequence_) {
      if (memory_->closed()) return base::ClusterError("closed its shared memory");
      box.bell.Wait(seen_, kLookAround, &spin_);
      const uint32_t now_seen = box.bell.count();
      if (now_seen == seen_) {  // nothing came
        if (!memory_->OtherSideLives()) return base::ClusterError("has died");
        if (cancelled_.load() || absl::Now() >= deadline_) {
          memory_->Close();
          return absl::DeadlineExceededError("did not answer in time");
        }
      }
      seen_ = now_seen;
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<SharedMemory> memory_, flat_;
  const Shard layout_;
  uint64_t sequence_ = 0;
  uint32_t seen_ = 0;  // rings of the reply's bell
  bool spin_ = true;
  bool too_long_ = false;
  absl::Time deadline_;
  std::atomic<bool> cancelled_ = false;  // then even a server that hangs is waited for no longer
  std::atomic<int64_t> bytes_sent_ = 0;
  std::atomic<int64_t> bytes_received_ = 0;
};

}  // namespace

std::unique_ptr<Link> MakeSharedMemoryLink(std::shared_ptr<SharedMemory> memory,
                                           std::shared_ptr<SharedMemory> flat, Shard layout) {
  return std::make_unique<SharedMemoryLink>(std::move(memory), std::move(flat), std::move(layout));
}

}  // namespace trainer
