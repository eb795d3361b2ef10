// The Exchange message as a gRPC byte buffer: u32 header length, protobuf header, raw elements.
// Elements are sent from, and read in, the memory that they lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/ps/tensor.h"

namespace trainer {

// Headers hold a commit at most: some ids of a few dozen bytes.
inline constexpr uint32_t kMaxHeaderBytes = 1 << 20;

// The elements of a received message. Keeps its slices.
class ReceivedPayload {
 public:
  // Parses `message` into `header` and this. kInvalidArgument if it is too short or malformed.
  absl::Status Parse(const grpc::ByteBuffer& message, google::protobuf::MessageLite& header);

  int64_t bytes() const { return bytes_; }
  // kInvalidArgument if the bytes are no whole number of elements. Borrows from this.
  absl::StatusOr<BytesSource> Elements(ElementType type) const;

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<BytesSource::Bytes> runs_;
  int64_t bytes_ = 0;
};

// Makes a message that refers to `values` (null = none) without copying if `type` is f32.
grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header,
                             const SharedBuffer& values, ElementType type);
// The same with some runs of `values` only, one after the other.
grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header,
                             const SharedBuffer& values,
                             std::span<const std::span<const float>> runs, ElementType type);

absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace trainer
