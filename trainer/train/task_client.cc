#include "trainer/train/task_client.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace trainer {
namespace {

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse{status: SERVING}, encoded (grpc.health.v1: field 1 is an enum, SERVING = 1).
// The request for the whole server is the empty message, so no generated code is needed.
constexpr char kServing[] = "\x08\x01";

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

// Lets one thread wait for `count` answers.
class Countdown {
 public:
  explicit Countdown(size_t count) : count_(count) {}
  void Done() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  size_t count_;
};

// One health check under way. Stays where it is until it is answered.
struct HealthCall {
  explicit HealthCall(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}

  void Begin(absl::Duration timeout, Countdown& countdown) {
    SetDeadline(context, timeout);
    start = absl::Now();
    stub.UnaryCall(&context, kHealthCheck, {}, &request, &response,
                   [this, &countdown](const grpc::Status& status) {
                     result.round_trip = absl::Now() - start;
                     result.status = Judge(status);
                     countdown.Done();
                   });
  }

  absl::Status Judge(const grpc::Status& status) {
    if (!status.ok()) return FromGrpc(status);
    grpc::Slice slice;
    if (!response.DumpToSingleSlice(&slice).ok()) return absl::UnavailableError("empty answer");
    const std::string_view bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (bytes != kServing) return absl::UnavailableError("it answers that it does not serve");
    return absl::OkStatus();
  }

  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request, response;
  absl::Time start;
  Probe result;
};

Probe ProbeChannel(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  HealthCall call(channel);
  call.request = grpc::ByteBuffer(nullptr, 0);
  Countdown countdown(1);
  call.Begin(timeout, countdown);
  countdown.Wait();
  return call.result;
}

}  // namespace

std::shared_ptr<grpc::Channel> TaskChannel(const std::string& address, const TaskTls* tls) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A pool of its own: a fresh channel tries at once, whatever backoff another one is in.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return MakeChannel(address, std::move(args), tls);
}

std::string WhyUnreachable(const absl::Status& status, const TaskTls* tls) {
  if (std::string trouble = TlsTrouble(status, tls); !trouble.empty()) return trouble;
  const std::string text(status.message());
  if (absl::StrContains(text, "DNS") || absl::StrContains(text, "Name or service not known")) {
    return "the name does not resolve";
  }
  if (absl::StrContains(text, "refused")) return "connection refused";
  if (absl::StrContains(text, "No route") || absl::StrContains(text, "unreachable")) {
    return "no route to it";
  }
  if (absl::IsDeadlineExceeded(status)) return "no answer in time";
  return text;
}

std::vector<Probe> ProbeHealth(std::span<const std::string> addresses, absl::Duration timeout,
                               const TaskTls* tls) {
  std::vector<std::unique_ptr<HealthCall>> calls;
  Countdown countdown(addresses.size());
  for (const std::string& address : addresses) {
    calls.push_back(std::make_unique<HealthCall>(TaskChannel(address, tls)));
    calls.back()->request = grpc::ByteBuffer(nullptr, 0);
    calls.back()->Begin(timeout, countdown);
  }
  if (!calls.empty()) countdown.Wait();
  std::vector<Probe> probes;
  for (const auto& call : calls) probes.push_back(call->result);
  return probes;
}

TaskClient::TaskClient(const std::string& address, const TaskTls* tls)
    : channel_(TaskChannel(address, tls)), stub_(rpc::TaskService::NewStub(channel_)) {}

Probe TaskClient::CheckHealth(absl::Duration timeout) { return ProbeChannel(channel_, timeout); }

absl::StatusOr<rpc::PingResponse> TaskClient::Ping(const std::string& own_task,
                                                   absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  rpc::PingRequest request;
  request.set_task(own_task);
  rpc::PingResponse response;
  RETURN_IF_ERROR(FromGrpc(stub_->Ping(&context, request, &response)));
  return response;
}

absl::Status TaskClient::Put(const std::string& key, std::string value, absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  rpc::PutRequest request;
  request.set_key(key);
  request.set_value(std::move(value));
  rpc::PutResponse response;
  return FromGrpc(stub_->Put(&context, request, &response));
}

absl::StatusOr<std::string> TaskClient::Get(const std::string& key, absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  rpc::GetRequest request;
  request.set_key(key);
  rpc::GetResponse response;
  RETURN_IF_ERROR(FromGrpc(stub_->Get(&context, request, &response)));
  return std::move(*response.mutable_value());
}

}  // namespace trainer
