#include "trainer/ps/message.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace trainer {
namespace {

BytesSource::Bytes BytesOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.begin()), slice.size()};
}

// Takes `count` bytes off the front of `runs`: a view of them where they are contiguous, else a
// copy in `storage`. Empty if there are fewer.
BytesSource::Bytes TakeFront(std::vector<BytesSource::Bytes>& runs, size_t count,
                             std::vector<std::byte>& storage) {
  if (!runs.empty() && runs.front().size() >= count) {
    const BytesSource::Bytes front = runs.front().first(count);
    runs.front() = runs.front().subspan(count);
    return front;
  }
  storage.clear();
  for (BytesSource::Bytes& run : runs) {
    const size_t n = std::min(run.size(), count - storage.size());
    storage.insert(storage.end(), run.begin(), run.begin() + static_cast<std::ptrdiff_t>(n));
    run = run.subspan(n);
  }
  return storage.size() == count ? BytesSource::Bytes(storage) : BytesSource::Bytes();
}

// Keeps a buffer while gRPC sends it. gRPC counts references correctly, but where tools for finding
// races cannot see it; the flag shows them that the thread that lets go comes after the one that
// made this.
struct Keeper {
  explicit Keeper(SharedBuffer buffer) : values(std::move(buffer)) {
    made.store(true, std::memory_order_release);
  }
  static void Release(void* pointer) {
    auto* const keeper = static_cast<Keeper*>(pointer);
    if (keeper->made.load(std::memory_order_acquire)) delete keeper;
  }
  SharedBuffer values;
  std::atomic<bool> made = false;
};

grpc::Slice SliceOf(const SharedBuffer& values, std::span<const float> run) {
  // gRPC reads through a pointer to non-const, but writes nothing.
  return {const_cast<float*>(run.data()), run.size_bytes(), &Keeper::Release, new Keeper(values)};
}

grpc::Slice Bf16SliceOf(std::span<const float> run) {
  grpc_slice raw = grpc_slice_malloc_large(run.size() * sizeof(uint16_t));
  ToBf16(run, {reinterpret_cast<uint16_t*>(GRPC_SLICE_START_PTR(raw)), run.size()});
  return {raw, grpc::Slice::STEAL_REF};
}

}  // namespace

absl::Status ReceivedPayload::Parse(const grpc::ByteBuffer& message,
                                    google::protobuf::MessageLite& header) {
  slices_.clear();
  runs_.clear();
  bytes_ = 0;
  if (!message.Dump(&slices_).ok()) return base::UsageError("got an unreadable message");
  for (const grpc::Slice& slice : slices_) {
    if (slice.size() > 0) runs_.push_back(BytesOf(slice));
  }
  std::vector<std::byte> storage;
  uint32_t header_bytes = 0;
  const BytesSource::Bytes length = TakeFront(runs_, sizeof header_bytes, storage);
  if (length.empty()) return base::UsageError("got a message without a header");
  std::memcpy(&header_bytes, length.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes) {
    return base::UsageError(absl::StrCat("got a message whose header claims ", header_bytes,
                                         " bytes; run the same version everywhere"));
  }
  const BytesSource::Bytes bytes = TakeFront(runs_, header_bytes, storage);
  if (bytes.size() != header_bytes ||
      !header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return base::UsageError("got a message whose header is cut short or damaged");
  }
  for (const BytesSource::Bytes& run : runs_) bytes_ += static_cast<int64_t>(run.size());
  return absl::OkStatus();
}

absl::StatusOr<BytesSource> ReceivedPayload::Elements(ElementType type) const {
  if (bytes_ % ElementSize(type) != 0) {
    return base::UsageError(
        absl::StrCat("got ", bytes_, " bytes of elements of ", ElementSize(type), " bytes each"));
  }
  return BytesSource(runs_, type);
}

grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header,
                             const SharedBuffer& values, ElementType type) {
  if (values == nullptr) return MakeMessage(header, nullptr, {}, type);
  const std::span<const float> whole[] = {values->span()};
  return MakeMessage(header, values, whole, type);
}

grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header,
                             const SharedBuffer& values,
                             std::span<const std::span<const float>> runs, ElementType type) {
  const auto header_bytes = static_cast<uint32_t>(header.ByteSizeLong());
  grpc_slice head = grpc_slice_malloc(sizeof header_bytes + header_bytes);
  std::memcpy(GRPC_SLICE_START_PTR(head), &header_bytes, sizeof header_bytes);
  header.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(head) + sizeof header_bytes);
  std::vector<grpc::Slice> slices = {grpc::Slice(head, grpc::Slice::STEAL_REF)};
  for (const std::span<const float> run : runs) {
    if (run.empty()) continue;
    slices.push_back(type == ElementType::kBf16 ? Bf16SliceOf(run) : SliceOf(values, run));
  }
  return {slices.data(), slices.size()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

}  // namespace trainer
