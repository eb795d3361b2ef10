#include "trainer/ps/grpc_link.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "trainer/ps/message.h"
#include "trainer/ps/wire.h"

namespace trainer {
namespace {

constexpr char kService[] = "/trainer.wire.ParameterServer/";
constexpr absl::Duration kPatience = absl::Seconds(2);

// One channel and its stub; calls keep it while they run.
struct Connection {
  Connection(const std::string& address, const TaskTls* tls)
      : channel(MakeChannel(address, Arguments(), tls)), stub(channel), made(absl::Now()) {}

  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // of one attempt to connect
    arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
    // Retries are ours (by sequence number); gRPC's would keep copies of the messages.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // A new connection must not inherit the back-off of the one that it replaces.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return arguments;
  }

  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  const absl::Time made;
};

// A unary call on a completion queue that only its waiter polls.
class UnaryCall {
 public:
  UnaryCall(std::shared_ptr<Connection> connection, grpc::CompletionQueue* queue,
            const std::string& method, const grpc::ByteBuffer& request, absl::Time deadline)
      : connection_(std::move(connection)), queue_(queue) {
    if (deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(deadline));
    reader_ = connection_->stub.PrepareUnaryCall(&context_, method, request, queue);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, this);
  }

  grpc::Status Wait() {
    void* tag = nullptr;
    bool ok = false;
    while (tag != this && queue_->Next(&tag, &ok)) {
    }
    return status_;
  }

  void Cancel() { context_.TryCancel(); }
  const grpc::ByteBuffer& response() const { return response_; }

 private:
  const std::shared_ptr<Connection> connection_;
  grpc::CompletionQueue* const queue_;
  grpc::ClientContext context_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
};

// A queue that is drained before it goes.
struct Queue {
  ~Queue() {
    queue.Shutdown();
    void* tag;
    bool ok;
    while (queue.Next(&tag, &ok)) {
    }
  }
  grpc::CompletionQueue queue;
};

class ControlCall final : public PendingCall {
 public:
  ControlCall(std::shared_ptr<Connection> connection, const std::string& method,
              const google::protobuf::MessageLite& request, google::protobuf::MessageLite* reply,
              absl::Time deadline)
      : reply_(reply),
        call_(std::move(connection), &queue_.queue, kService + method, Encode(request), deadline) {}

  ~ControlCall() override {
    if (waited_) return;
    call_.Cancel();
    call_.Wait();
  }

  absl::Status Wait() override {
    waited_ = true;
    RETURN_IF_ERROR(FromGrpc(call_.Wait()));
    std::vector<grpc::Slice> slices;
    std::string bytes;
    if (!call_.response().Dump(&slices).ok()) return absl::InternalError("unreadable answer");
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (!reply_->ParseFromString(bytes)) return absl::InternalError("malformed answer");
    return absl::OkStatus();
  }

 private:
  static grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
    const grpc::Slice slice(message.SerializeAsString());
    return {&slice, 1};
  }

  google::protobuf::MessageLite* const reply_;
  bool waited_ = false;
  Queue queue_;
  UnaryCall call_;
};

class GrpcLinkImpl final : public GrpcLink {
 public:
  GrpcLinkImpl(std::string address, ElementType type, std::shared_ptr<const TaskTls> tls)
      : address_(std::move(address)),
        type_(type),
        tls_(std::move(tls)),
        connection_(std::make_shared<Connection>(address_, tls_.get())) {}

  ~GrpcLinkImpl() override {
    Cancel();
    if (call_) call_->Wait();
  }

  void SetLayout(Shard layout) override {
    layout_ = std::move(layout);
    pool_ = std::make_unique<BufferPool>(layout_.size);
  }

  void Start(const wire::ExchangeRequest& request, std::span<const float> gradients,
             const SharedBuffer& owner, absl::Time deadline) override {
    wire::ExchangeRequest header = request;
    header.set_element_type(ToWire(type_));
    header.set_reply_element_type(ToWire(type_));
    if (!gradients.empty()) bytes_sent_ += layout_.size * ElementSize(type_);
    const grpc::ByteBuffer message = gradients.empty() ? MakeMessage(header, nullptr, type_)
                                     : owner == nullptr
                                         ? MakeMessage(header, Gather(gradients), type_)
                                         : MakeMessage(header, owner, Runs(gradients), type_);
    auto call = std::make_unique<UnaryCall>(connection(), &queue_.queue,
                                            absl::StrCat(kService, "Exchange"), message, deadline);
    std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }

  absl::Status Finish(wire::ExchangeReply* reply, std::span<float> parameters) override {
    const absl::Status status = FromGrpc(call_->Wait());
    std::unique_ptr<UnaryCall> call;
    {
      std::lock_guard lock(mutex_);
      call = std::move(call_);
    }
    RETURN_IF_ERROR(status);
    ReceivedPayload payload;
    RETURN_IF_ERROR(payload.Parse(call->response(), *reply));
    bytes_received_ += payload.bytes();
    if (parameters.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const BytesSource elements, payload.Elements(FromWire(reply->element_type())));
    return Scatter(elements, parameters);
  }

  void Cancel() override {
    std::lock_guard lock(mutex_);
    if (call_) call_->Cancel();
  }

  std::unique_ptr<PendingCall> Call(const std::string& method,
                                    const google::protobuf::MessageLite& request,
                                    google::protobuf::MessageLite* reply,
                                    absl::Time deadline) override {
    return std::make_unique<ControlCall>(connection(), method, request, reply, deadline);
  }

  void Reconnect() override {
    std::lock_guard lock(mutex_);
    if (connection_->channel->GetState(false) == GRPC_CHANNEL_READY) return;
    if (absl::Now() < connection_->made + kPatience) return;
    connection_ = std::make_shared<Connection>(address_, tls_.get());
  }

  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t bytes_received() const override { return bytes_received_; }

 private:
  std::shared_ptr<Connection> connection() {
    std::lock_guard lock(mutex_);
    return connection_;
  }

  std::vector<std::span<const float>> Runs(std::span<const float> flat) const {
    std::vector<std::span<const float>> runs;
    for (const Segment& segment : layout_.segments) {
      runs.push_back(flat.subspan(segment.flat_offset, segment.length));
    }
    return runs;
  }

  // A copy, because a call that is given up may go on reading its message.
  SharedBuffer Gather(std::span<const float> flat) {
    std::shared_ptr<FloatBuffer> payload = pool_->Take();
    for (const Segment& segment : layout_.segments) {
      std::ranges::copy(flat.subspan(segment.flat_offset, segment.length),
                        payload->span().begin() + segment.shard_offset);
    }
    return payload;
  }

  absl::Status Scatter(const TensorSource& elements, std::span<float> flat) const {
    if (elements.size() != layout_.size) {
      return absl::InternalError(
          absl::StrCat("answered with ", elements.size(), " elements instead of ", layout_.size));
    }
    for (const Segment& segment : layout_.segments) {
      const std::span<float> target = flat.subspan(segment.flat_offset, segment.length);
      const std::span<const float> read = elements.Read(segment.shard_offset, target);
      if (read.data() != target.data()) std::ranges::copy(read, target.begin());
    }
    return absl::OkStatus();
  }

  // Constant.
  const std::string address_;
  const ElementType type_;
  const std::shared_ptr<const TaskTls> tls_;

  // Of the exchanging thread.
  Shard layout_;
  std::unique_ptr<BufferPool> pool_;
  Queue queue_;

  // Own synchronisation.
  std::atomic<int64_t> bytes_sent_ = 0;
  std::atomic<int64_t> bytes_received_ = 0;

  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // guarded by mutex_
  std::unique_ptr<UnaryCall> call_;         // replaced under mutex_; used by the exchanging thread
};

}  // namespace

std::unique_ptr<GrpcLink> GrpcLink::Create(const std::string& address, ElementType type,
                                           std::shared_ptr<const TaskTls> tls) {
  return std::make_unique<GrpcLinkImpl>(address, type, std::move(tls));
}

}  // namespace trainer
