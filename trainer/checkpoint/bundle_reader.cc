// The reading half of bundle.h. Nothing that an index file says is believed before it is checked.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle.h"
#include "trainer/checkpoint/bundle_key.h"
#include "trainer/checkpoint/bundle_table.h"
#include "trainer/data/crc32c.h"

namespace trainer {
namespace {

constexpr size_t kMaxIndexBytes = size_t{256} << 20;
constexpr int kMaxShards = 99999;  // five digits in the names of the data files
constexpr size_t kChunkBytes = size_t{256} << 10;

// Bytes of an element by TensorFlow's DataType; 0 = varies or not known.
int64_t ElementBytes(int dtype) {
  switch (dtype) {
    case kDtypeFloat:
    case 3:  // int32
      return 4;
    case 2:  // double
    case kDtypeInt64:
      return 8;
    case 4:   // uint8
    case 6:   // int8
    case 10:  // bool
      return 1;
    case 14:  // bfloat16
    case 19:  // half
      return 2;
    default:
      return 0;
  }
}

absl::Status Damaged(std::string_view name, std::string_view what) {
  return base::DataError(base::StrCat("entry \"", name, "\": ", what));
}

std::vector<int64_t> ShapeOf(const bundle::TensorShape& shape) {
  std::vector<int64_t> sizes;
  for (const bundle::TensorShape::Dim& dim : shape.dim()) sizes.push_back(dim.size());
  return sizes;
}

// Turns the records of a table into tensors.
class IndexParser {
 public:
  absl::StatusOr<BundleIndex> Parse(std::vector<TableRecord> records) {
    if (records.empty() || !records[0].first.empty()) {
      return base::DataError("the index has no header");
    }
    RETURN_IF_ERROR(ParseHeader(records[0].second));
    for (size_t i = 1; i < records.size(); ++i) {
      bundle::BundleEntry entry;
      if (!entry.ParseFromString(records[i].second)) {
        return Damaged(records[i].first, "not a bundle entry");
      }
      // A key that begins with a zero byte is a slice's: found through its tensor's entry.
      entries_.emplace(std::move(records[i].first), std::move(entry));
    }
    for (const auto& [name, entry] : entries_) {
      if (name[0] == '\0') continue;
      ASSIGN_OR_RETURN(index_.tensors[name], ParseTensor(name, entry));
    }
    return std::move(index_);
  }

 private:
  absl::Status ParseHeader(const std::string& bytes) {
    bundle::BundleHeader header;
    if (!header.ParseFromString(bytes)) return base::DataError("the index has a bad header");
    if (header.endianness() != 0) {
      return base::DataError("the checkpoint was written by a big-endian machine");
    }
    if (header.num_shards() < 1 || header.num_shards() > kMaxShards) {
      return base::DataError(base::StrCat("the index names ", header.num_shards(), " data files"));
    }
    if (header.version().min_consumer() > 1) {
      return base::DataError(base::StrCat("the checkpoint needs a reader of version ",
                                          header.version().min_consumer(), "; this is version 1"));
    }
    index_.shards = header.num_shards();
    return absl::OkStatus();
  }

  absl::StatusOr<BundleTensor> ParseTensor(const std::string& name,
                                           const bundle::BundleEntry& entry) {
    BundleTensor tensor;
    tensor.dtype = entry.dtype();
    tensor.shape = ShapeOf(entry.shape());
    if (entry.shape().unknown_rank() || ElementCount(tensor.shape) < 0) {
      return Damaged(name, base::StrCat("bad shape ", ShapeString(tensor.shape)));
    }
    if (entry.slices_size() == 0) {
      ASSIGN_OR_RETURN(BundlePart part, ParsePart(name, entry, tensor, 0, RowCount(tensor.shape)));
      tensor.parts.push_back(part);
      return tensor;
    }
    for (const bundle::TensorSlice& slice : entry.slices()) {
      ASSIGN_OR_RETURN(BundlePart part, ParseSlice(name, slice, tensor));
      tensor.parts.push_back(part);
    }
    std::sort(tensor.parts.begin(), tensor.parts.end(),
              [](const BundlePart& a, const BundlePart& b) { return a.first_row < b.first_row; });
    int64_t row = 0;
    for (const BundlePart& part : tensor.parts) {
      if (part.first_row != row) {
        return Damaged(name,
                       base::StrCat("a slice begins at row ", part.first_row, ", expected ", row));
      }
      row += part.row_count;
    }
    if (row != tensor.shape[0]) {
      return Damaged(name, base::StrCat("the slices hold ", row, " of ", tensor.shape[0], " rows"));
    }
    return tensor;
  }

  absl::StatusOr<BundlePart> ParseSlice(const std::string& name, const bundle::TensorSlice& slice,
                                        const BundleTensor& tensor) {
    if (static_cast<size_t>(slice.extent_size()) != tensor.shape.size() || tensor.shape.empty()) {
      return Damaged(name, "a slice of another rank");
    }
    std::vector<SliceExtent> extents;
    for (const bundle::TensorSlice::Extent& extent : slice.extent()) {
      if (extent.has_length()) {
        extents.push_back({extent.start(), extent.length()});
      } else {
        extents.emplace_back();
      }
    }
    for (size_t axis = 1; axis < extents.size(); ++axis) {
      const bool whole_axis =
          extents[axis].length < 0 ||
          (extents[axis].start == 0 && extents[axis].length == tensor.shape[axis]);
      if (!whole_axis) {
        return Damaged(name, base::StrCat("split along axis ", axis,
                                          "; only splits along the first axis can be read"));
      }
    }
    const auto found = entries_.find(EncodeSliceKey(name, extents));
    if (found == entries_.end()) return Damaged(name, "one of its slices is missing");
    const int64_t first = extents[0].length < 0 ? 0 : extents[0].start;
    const int64_t rows = extents[0].length < 0 ? tensor.shape[0] : extents[0].length;
    if (first < 0 || rows < 1 || rows > tensor.shape[0] || first > tensor.shape[0] - rows) {
      return Damaged(name, "a slice outside the tensor");
    }
    return ParsePart(name, found->second, tensor, first, rows);
  }

  absl::StatusOr<BundlePart> ParsePart(const std::string& name, const bundle::BundleEntry& entry,
                                       const BundleTensor& tensor, int64_t first, int64_t rows) {
    const BundlePart part = {entry.shard_id(), entry.offset(), entry.size(),
                             entry.crc32c(),   first,          rows};
    if (part.shard < 0 || part.shard >= index_.shards) {
      return Damaged(name, base::StrCat("in data file ", part.shard, " of ", index_.shards));
    }
    if (part.offset < 0 || part.bytes < 0 ||
        part.offset > std::numeric_limits<int64_t>::max() - part.bytes) {
      return Damaged(name, "bad position");
    }
    const int64_t all_rows = RowCount(tensor.shape);
    const int64_t row_size = all_rows > 0 ? ElementCount(tensor.shape) / all_rows : 0;
    const int64_t element_bytes = ElementBytes(entry.dtype());
    if (entry.dtype() != tensor.dtype ||
        (element_bytes > 0 && part.bytes != rows * row_size * element_bytes)) {
      return Damaged(name, base::StrCat(part.bytes, " bytes do not fit the shape ",
                                        ShapeString(tensor.shape)));
    }
    return part;
  }

  BundleIndex index_;
  std::map<std::string, bundle::BundleEntry> entries_;
};

}  // namespace

absl::StatusOr<BundleIndex> DecodeBundleIndex(std::string_view bytes) {
  ASSIGN_OR_RETURN(std::vector<TableRecord> records, DecodeTable(bytes));
  return IndexParser().Parse(std::move(records));
}

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(const std::string& prefix) {
  const std::string path = BundleIndexPath(prefix);
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path, kMaxIndexBytes));
  absl::StatusOr<BundleIndex> index = DecodeBundleIndex(bytes);
  if (!index.ok()) {
    return base::DataError(base::StrCat(path, " is damaged: ", index.status().message()));
  }
  std::vector<std::unique_ptr<ReadableFile>> data;
  for (int shard = 0; shard < index->shards; ++shard) {
    ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file,
                     ReadableFile::Open(BundleDataPath(prefix, shard, index->shards)));
    data.push_back(std::move(file));
  }
  std::unique_ptr<BundleReader> reader(
      new BundleReader(prefix, *std::move(index), std::move(data)));
  RETURN_IF_ERROR(reader->CheckSizes());
  return reader;
}

BundleReader::BundleReader(std::string prefix, BundleIndex index,
                           std::vector<std::unique_ptr<ReadableFile>> data)
    : prefix_(std::move(prefix)), index_(std::move(index)), data_(std::move(data)) {}

// Besides the ends, the sums: entries that share bytes could ask for far more memory than there is
// data.
absl::Status BundleReader::CheckSizes() const {
  std::vector<int64_t> unclaimed;
  for (const auto& file : data_) unclaimed.push_back(file->size());
  for (const auto& [name, tensor] : index_.tensors) {
    for (const BundlePart& part : tensor.parts) {
      const ReadableFile& file = *data_[static_cast<size_t>(part.shard)];
      int64_t& left = unclaimed[static_cast<size_t>(part.shard)];
      if (part.offset + part.bytes > file.size()) {
        return base::DataError(base::StrCat(file.path(), ": expected at least ",
                                            part.offset + part.bytes, " bytes for ", name,
                                            ", found ", file.size()));
      }
      if (part.bytes > left) {
        return base::DataError(
            base::StrCat(BundleIndexPath(prefix_), " is damaged: ", name, " overlaps others"));
      }
      left -= part.bytes;
    }
  }
  return absl::OkStatus();
}

const BundleTensor* BundleReader::Find(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  return found == index_.tensors.end() ? nullptr : &found->second;
}

absl::Status BundleReader::ReadPart(const std::string& name, const BundlePart& part, int64_t begin,
                                    int64_t size, char* destination) const {
  const ReadableFile& file = *data_[static_cast<size_t>(part.shard)];
  std::string chunk(std::min(kChunkBytes, static_cast<size_t>(part.bytes)), '\0');
  uint32_t crc = 0;
  for (int64_t at = 0; at < part.bytes; at += static_cast<int64_t>(chunk.size())) {
    const size_t bytes = std::min(chunk.size(), static_cast<size_t>(part.bytes - at));
    RETURN_IF_ERROR(file.Read(part.offset + at, bytes, chunk.data()));
    crc = Crc32c(std::string_view(chunk.data(), bytes), crc);
    const int64_t from = std::max(at, begin);
    const int64_t to = std::min(at + static_cast<int64_t>(bytes), begin + size);
    if (from < to)
      std::copy_n(&chunk[static_cast<size_t>(from - at)], to - from, destination + (from - begin));
  }
  if (MaskCrc32c(crc) == part.masked_crc) return absl::OkStatus();
  return base::DataError(base::StrCat(
      file.path(), ": the ", part.bytes, " bytes at offset ", part.offset, " (", name,
      ") do not match their checksum: expected ", UnmaskCrc32c(part.masked_crc), ", found ", crc));
}

absl::Status BundleReader::VerifyChecksums() const {
  for (const auto& [name, tensor] : index_.tensors) {
    // Strings and the like have checksums of their own kind.
    if (ElementBytes(tensor.dtype) == 0) continue;
    for (const BundlePart& part : tensor.parts) {
      RETURN_IF_ERROR(ReadPart(name, part, 0, 0, nullptr));
    }
  }
  return absl::OkStatus();
}

absl::Status BundleReader::ReadFloats(const std::string& name, int64_t first_row,
                                      std::span<float> values) const {
  const BundleTensor* tensor = Find(name);
  if (tensor == nullptr || tensor->dtype != kDtypeFloat) {
    return base::DataError(base::StrCat(prefix_, " holds no f32 tensor ", name));
  }
  const int64_t elements = ElementCount(tensor->shape);
  if (elements == 0 || values.empty()) return absl::OkStatus();
  const int64_t row_bytes = elements / RowCount(tensor->shape) * 4;
  const int64_t begin = first_row * row_bytes;
  const int64_t end = begin + static_cast<int64_t>(values.size_bytes());
  char* out = reinterpret_cast<char*>(values.data());
  for (const BundlePart& part : tensor->parts) {
    const int64_t part_begin = part.first_row * row_bytes;
    const int64_t from = std::max(begin, part_begin);
    const int64_t to = std::min(end, part_begin + part.bytes);
    if (from < to) {
      RETURN_IF_ERROR(ReadPart(name, part, from - part_begin, to - from, out + (from - begin)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BundleReader::ReadInt64(const std::string& name) const {
  const BundleTensor* tensor = Find(name);
  if (tensor == nullptr || tensor->dtype != kDtypeInt64 || ElementCount(tensor->shape) != 1 ||
      tensor->parts.size() != 1) {
    return base::DataError(base::StrCat(prefix_, " holds no int64 scalar ", name));
  }
  int64_t value = 0;
  RETURN_IF_ERROR(
      ReadPart(name, tensor->parts[0], 0, sizeof value, reinterpret_cast<char*>(&value)));
  return value;
}

}  // namespace trainer
