// TensorFlow's V2 "tensor bundle": data files of raw little-endian tensors and an index that says
// where each lies (tensorflow/core/util/tensor_bundle). A tensor may be stored in parts, blocks of
// rows, one or more in each data file. Knows nothing of training, folders or which checkpoint is
// newest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/bundle.pb.h"
#include "trainer/data/durable_file.h"

namespace trainer {

inline constexpr int kDtypeFloat = 1;  // TensorFlow's DataType
inline constexpr int kDtypeInt64 = 9;

std::string BundleIndexPath(const std::string& prefix);  // PREFIX.index
std::string BundleDataPath(const std::string& prefix, int shard,
                           int shards);  // PREFIX.data-0000i-of-0000n

// Some rows (first axis) of a tensor; row_count -1 = the whole tensor.
struct BundleRows {
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t first_row = 0;
  int64_t row_count = -1;
};

// Writes one data file, which appears under its name in Finish. Not thread-safe.
class BundleDataWriter {
 public:
  static absl::StatusOr<std::unique_ptr<BundleDataWriter>> Create(Files* files,
                                                                  const std::string& prefix,
                                                                  int shard, int shards);
  // kInternal if the number of values does not fit the rows.
  absl::Status AddFloats(std::string_view name, const BundleRows& rows,
                         std::span<const float> values);
  absl::Status AddInt64(std::string_view name, int64_t value);  // a scalar
  absl::StatusOr<bundle::ShardEntries> Finish();

 private:
  BundleDataWriter(std::unique_ptr<DurableFile> file, int shard, int shards);
  absl::Status Add(std::string_view name, const BundleRows& rows, int dtype,
                   std::string_view bytes);

  const std::unique_ptr<DurableFile> file_;
  bundle::ShardEntries entries_;
};

// PURE. The bytes of the index file of `shards`. DataError if the parts do not make whole tensors.
absl::StatusOr<std::string> EncodeBundleIndex(std::span<const bundle::ShardEntries> shards);

// Where a tensor, or a block of its rows, lies.
struct BundlePart {
  int shard = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t masked_crc = 0;
  int64_t first_row = 0;
  int64_t row_count = 0;
};
struct BundleTensor {
  int dtype = 0;
  std::vector<int64_t> shape;
  std::vector<BundlePart> parts;  // by first_row; together they are the whole tensor
};
struct BundleIndex {
  int shards = 0;
  std::map<std::string, BundleTensor> tensors;
};

// PURE, safe on any bytes. Memory is bounded by a small multiple of the size of `bytes`.
absl::StatusOr<BundleIndex> DecodeBundleIndex(std::string_view bytes);

// An open checkpoint. Memory: the index and a small buffer, plus what the caller asks for.
// Thread-safe.
class BundleReader {
 public:
  // Reads the index and checks that all data files are there and long enough. DataError otherwise.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(const std::string& prefix);

  const std::map<std::string, BundleTensor>& tensors() const { return index_.tensors; }
  // nullptr if there is no such tensor.
  const BundleTensor* Find(const std::string& name) const;

  // Compares all checksums.
  absl::Status VerifyChecksums() const;
  // Reads rows [first_row, first_row + values.size() / row size) of an f32 tensor, checking the
  // checksums of the parts that they lie in. REQUIRES: whole rows inside the shape.
  absl::Status ReadFloats(const std::string& name, int64_t first_row,
                          std::span<float> values) const;
  absl::StatusOr<int64_t> ReadInt64(const std::string& name) const;  // a scalar

 private:
  BundleReader(std::string prefix, BundleIndex index,
               std::vector<std::unique_ptr<ReadableFile>> data);
  absl::Status CheckSizes() const;
  // Copies bytes [begin, begin + size) of a part to `destination` while checking the whole part.
  absl::Status ReadPart(const std::string& name, const BundlePart& part, int64_t begin,
                        int64_t size, char* destination) const;

  const std::string prefix_;
  const BundleIndex index_;
  const std::vector<std::unique_ptr<ReadableFile>> data_;
};

// Elements of a shape and of one of its rows (a scalar is one row of one element), or -1 if the
// shape is not valid or too large to address.
int64_t ElementCount(std::span<const int64_t> shape);
int64_t RowCount(std::span<const int64_t> shape);

std::string ShapeString(std::span<const int64_t> shape);  // "[784,500]"

}  // namespace trainer
