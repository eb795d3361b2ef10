#include "trainer/ps/shared_memory_sessions.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace trainer {
namespace {

const BytesSource kNothing({}, ElementType::kF32);

}  // namespace

// Shared with the answer that is under way, which may come on another session's thread.
class SharedMemorySessions::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(SharedMemorySessions* owner, Caller caller, std::unique_ptr<SharedMemory> memory,
          Shard layout)
      : owner_(owner),
        caller_(std::move(caller)),
        memory_(std::move(memory)),
        layout_(std::move(layout)),
        gradient_(Runs(memory_->gradient(), layout_), ElementType::kF32) {}

  // Until the worker closes the memory, dies, or Close is called.
  void Run() {
    Mailbox& box = memory_->request();
    uint32_t seen = box.bell.count();
    uint64_t handled = 0;
    bool spin = false;
    while (!memory_->closed()) {
      // One exchange at a time, whatever the worker does.
      if (const uint64_t sequence = box.sequence.load();
          sequence != handled && answered_.load() == handled) {
        handled = sequence;
        Handle(sequence);
      }
      if (handled != 0 && box.cancelled.load() == handled) owner_->handler_->Cancel(request_);
      box.bell.Wait(seen, kLookAround, &spin);
      const uint32_t now_seen = box.bell.count();
      if (now_seen == seen && !memory_->OtherSideLives()) {
        owner_->on_lost_(caller_);
        break;
      }
      seen = now_seen;
    }
    memory_->Close();
    if (handled != 0) owner_->handler_->Cancel(request_);
    ended_ = true;
  }

  void Close() { memory_->Close(); }
  bool ended() const { return ended_; }

 private:
  // This server's elements of a flat buffer, neighbours together.
  static std::vector<BytesSource::Bytes> Runs(std::span<const float> flat, const Shard& layout) {
    std::vector<BytesSource::Bytes> runs;
    for (const Segment& segment : layout.segments) {
      const auto bytes = std::as_bytes(flat.subspan(segment.flat_offset, segment.length));
      if (!runs.empty() && runs.back().data() + runs.back().size() == bytes.data()) {
        runs.back() = {runs.back().data(), runs.back().size() + bytes.size()};
      } else {
        runs.push_back(bytes);
      }
    }
    return runs;
  }

  void Handle(uint64_t sequence) {
    const uint32_t header_bytes = memory_->request().header_bytes;
    const int64_t elements = memory_->request().elements;
    if (header_bytes > SharedMemory::kHeaderCapacity ||
        (elements != 0 && elements != layout_.size) ||
        !request_.ParseFromArray(memory_->request_header().data(),
                                 static_cast<int>(header_bytes))) {
      return Answer(sequence, base::UsageError("malformed request in shared memory"), {}, nullptr);
    }
    owner_->bytes_received_ += elements * static_cast<int64_t>(sizeof(float));
    request_.set_reply_element_type(wire::F32);
    owner_->handler_->Handle(
        request_, elements == 0 ? kNothing : gradient_,
        [self = shared_from_this(), sequence](absl::Status status, wire::ExchangeReply reply,
                                              SharedBuffer values) {
          self->Answer(sequence, status, std::move(reply), values);
        });
  }

  void Answer(uint64_t sequence, absl::Status status, wire::ExchangeReply reply,
              const SharedBuffer& values) {
    Mailbox& box = memory_->reply();
    if (status.ok() && values != nullptr && values->size() != layout_.size) {
      status = base::ClusterError("has another layout now; attach again");
    }
    if (reply.ByteSizeLong() > SharedMemory::kHeaderCapacity) {
      status = absl::ResourceExhaustedError("the answer does not fit shared memory");
    }
    box.elements = 0;
    if (!status.ok()) {
      reply.Clear();
      reply.set_error_code(static_cast<int>(status.code()));
      reply.set_error_message(std::string(status.message()));
    } else if (values != nullptr) {
      box.elements = values->size();
      for (const Segment& segment : layout_.segments) {
        std::ranges::copy(values->span().subspan(segment.shard_offset, segment.length),
                          memory_->variables().begin() + segment.flat_offset);
      }
      owner_->bytes_sent_ += box.elements * static_cast<int64_t>(sizeof(float));
    }
    box.header_bytes = static_cast<uint32_t>(reply.ByteSizeLong());
    reply.SerializeWithCachedSizesToArray(
        reinterpret_cast<uint8_t*>(memory_->reply_header().data()));
    answered_.store(sequence);
    box.sequence.store(sequence);
    box.bell.Ring();
  }

  SharedMemorySessions* const owner_;
  const Caller caller_;
  const std::unique_ptr<SharedMemory> memory_;
  const Shard layout_;
  const BytesSource gradient_;
  wire::ExchangeRequest request_;       // of the session's thread
  std::atomic<uint64_t> answered_ = 0;  // sequence of the newest answer
  std::atomic<bool> ended_ = false;
};

SharedMemorySessions::SharedMemorySessions(ExchangeHandler* handler,
                                           std::function<void(const Caller&)> on_lost)
    : handler_(handler), on_lost_(std::move(on_lost)) {}

SharedMemorySessions::~SharedMemorySessions() { CloseAll(); }

absl::Status SharedMemorySessions::Add(const Caller& caller, std::unique_ptr<SharedMemory> memory,
                                       Shard layout) {
  for (const Segment& segment : layout.segments) {
    if (segment.flat_offset + segment.length > memory->elements()) {
      return absl::FailedPreconditionError("the shared memory is of another layout");
    }
  }
  auto session = std::make_shared<Session>(this, caller, std::move(memory), std::move(layout));
  std::lock_guard lock(mutex_);
  std::erase_if(running_, [](Running& running) {
    if (!running.session->ended()) return false;
    running.thread.join();
    return true;
  });
  running_.push_back({session, std::thread([session] { session->Run(); })});
  return absl::OkStatus();
}

void SharedMemorySessions::CloseAll() {
  std::vector<Running> running;
  {
    std::lock_guard lock(mutex_);
    running.swap(running_);
  }
  for (Running& one : running) one.session->Close();
  for (Running& one : running) one.thread.join();
}

}  // namespace trainer
