// What a parameter server does with bytes that no client of ours would send.
#include "trainer/ps/message.h"

#include <cstring>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "trainer/ps/param_server.pb.h"
#include "trainer/ps/test_cluster.h"
#include "trainer/ps/wire.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;

grpc::ByteBuffer Buffer(const std::string& bytes, size_t piece = 1 << 20) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) slices.emplace_back(bytes.substr(at, piece));
  return {slices.data(), slices.size()};
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::string Message(const std::string& header, const std::string& payload = "") {
  const auto size = static_cast<uint32_t>(header.size());
  std::string message(reinterpret_cast<const char*>(&size), sizeof size);
  return message + header + payload;
}

TEST(Message, ReadsTheSameInWhateverPiecesItComes) {
  wire::ExchangeRequest request;
  request.set_sequence(123456);
  request.mutable_caller()->set_job("worker");
  BufferPool pool(5);
  std::shared_ptr<FloatBuffer> values = pool.Take();
  const std::vector<float> expected = {1, 2, 3, 4, 5};
  std::ranges::copy(expected, values->span().begin());
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    const std::string bytes = Bytes(MakeMessage(request, values, type));
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
      wire::ExchangeRequest parsed;
      ReceivedPayload payload;
      ASSERT_OK(payload.Parse(Buffer(bytes, piece), parsed));
      EXPECT_EQ(parsed.sequence(), 123456u);
      std::vector<float> read(5);
      CopyTo(*payload.Elements(type), read);
      EXPECT_EQ(read, expected);
    }
  }
}

TEST(Message, MayHaveNoElements) {
  wire::ExchangeReply reply;
  ReceivedPayload payload;
  ASSERT_OK(payload.Parse(MakeMessage(wire::ExchangeReply(), nullptr, ElementType::kF32), reply));
  EXPECT_EQ(payload.Elements(ElementType::kF32)->size(), 0);
}

TEST(Message, RefusesWhatIsCutShortOrDamaged) {
  wire::ExchangeRequest request;
  request.mutable_caller()->set_job("worker");
  const std::string whole = Message(request.SerializeAsString());
  for (size_t length = 0; length < whole.size(); ++length) {
    wire::ExchangeRequest parsed;
    ReceivedPayload payload;
    EXPECT_FALSE(payload.Parse(Buffer(whole.substr(0, length)), parsed).ok()) << length;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    wire::ExchangeRequest parsed;
    ReceivedPayload payload;
    payload.Parse(Buffer(noise, 1 + random() % 9), parsed).IgnoreError();
  }
}

class BadMessages : public ::testing::Test {
 protected:
  BadMessages()
      : stub_(grpc::CreateChannel(cluster_.addresses()[0], grpc::InsecureChannelCredentials())) {
    chief_ = cluster_.Client(0);
    TestCluster::Initialize(*chief_, MakeJob({{2}}), std::vector<float>(2, 0.0f));
    good_.mutable_caller()->set_job("worker");
    good_.mutable_caller()->set_incarnation(1);
    good_.set_operation(wire::PUSH);
    good_.set_sequence(1);
  }

  absl::Status Send(const std::string& bytes,
                    const std::string& method = "/trainer.wire.ParameterServer/Exchange",
                    std::string* answer = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub_.PrepareUnaryCall(&context, method, Buffer(bytes), &queue);
    call->StartCall();
    call->Finish(&response, &status, this);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    if (answer != nullptr) *answer = Bytes(response);
    return FromGrpc(status);
  }
  absl::Status Send(const wire::ExchangeRequest& request, const std::string& payload) {
    return Send(Message(request.SerializeAsString(), payload));
  }

  TestCluster cluster_{1};
  std::unique_ptr<PsClient> chief_;
  grpc::GenericStub stub_;
  wire::ExchangeRequest good_;
};

TEST_F(BadMessages, AreAnsweredWithTheReasonAndHarmNothing) {
  const std::string two(8, '\0');
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const char* text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect(Send(""), kInvalid, "without a header");
  expect(Send("\1\2"), kInvalid, "without a header");
  expect(Send(std::string("\xff\xff\xff\xff", 4)), kInvalid, "claims 4294967295 bytes");
  expect(Send(std::string("\x40\0\0\0abc", 7)), kInvalid, "cut short or damaged");
  expect(Send(Message("\xff\xff\xff")), kInvalid, "cut short or damaged");
  expect(Send(good_, std::string(7, '\0')), kInvalid, "7 bytes of elements of 4 bytes");
  expect(Send(good_, std::string(12, '\0')), kInvalid, "3 elements for a shard of 2");
  expect(Send(good_, ""), kInvalid, "0 elements for a shard of 2");
  wire::ExchangeRequest request = good_;
  request.set_shard(3);
  expect(Send(request, two), kInvalid, "takes it for task 3");
  request = good_;
  request.set_server_incarnation(12345);
  expect(Send(request, two), absl::StatusCode::kUnavailable, "was restarted");
  request = good_;
  request.clear_caller();
  expect(Send(request, two), kInvalid, "names no caller");
  request = good_;
  request.set_operation(static_cast<wire::Operation>(77));
  expect(Send(request, two), kInvalid, "unknown operation 77");
  request = good_;
  request.set_operation(wire::STAGE);
  expect(Send(request, two), kInvalid, "in sync mode");
  EXPECT_EQ(cluster_.server(0).stats().global_step, 0);
  EXPECT_OK(Send(good_, two));
  EXPECT_EQ(cluster_.server(0).stats().global_step, 1);
}

TEST_F(BadMessages, AConfigurationThatContradictsItselfIsRefused) {
  wire::JobConfig config = ToWire(MakeJob({{2, 3}}), 0, 1);
  config.mutable_variables(0)->set_size(7);
  const std::string method = "/trainer.wire.ParameterServer/Configure";
  EXPECT_TRUE(absl::IsInvalidArgument(Send(config.SerializeAsString(), method)));
  config = ToWire(MakeJob({{2, 3}}), 0, 1);
  config.mutable_variables(0)->set_shape(0, int64_t{1} << 62);
  EXPECT_TRUE(absl::IsInvalidArgument(Send(config.SerializeAsString(), method)));
  config = ToWire(MakeJob({{2, 3}}), 0, 1);
  config.set_optimizer(99);
  EXPECT_TRUE(absl::IsInvalidArgument(Send(config.SerializeAsString(), method)));
  EXPECT_EQ(cluster_.server(0).stats().state, PsState::kReady);  // as before
}

TEST_F(BadMessages, ASharedMemoryNameThatIsAPathIsRefused) {
  wire::AttachSharedMemoryRequest request;
  const std::string method = "/trainer.wire.ParameterServer/AttachSharedMemory";
  for (const char* name : {"", "/etc/passwd", "/trainyard-/../x", "/trainyard-none"}) {
    request.set_name(name);
    EXPECT_FALSE(Send(request.SerializeAsString(), method).ok()) << name;
  }
}

TEST_F(BadMessages, HealthIsServedOnTheSamePort) {
  std::string answer;
  EXPECT_OK(Send("", "/grpc.health.v1.Health/Check", &answer));
  EXPECT_EQ(answer, "\x08\x01");  // status: SERVING
}

}  // namespace
}  // namespace trainer
