// The writing half of bundle.h.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle.h"
#include "trainer/checkpoint/bundle_key.h"
#include "trainer/checkpoint/bundle_table.h"
#include "trainer/data/crc32c.h"

namespace trainer {
namespace {

using Part = std::pair<int, const bundle::ShardEntries::Tensor*>;  // shard, what it holds

void SetShape(std::span<const int64_t> shape, bundle::TensorShape* out) {
  for (const int64_t size : shape) out->add_dim()->set_size(size);
}

// The rows of a part as a slice: an extent on the first axis, the others whole.
std::vector<SliceExtent> ExtentsOf(const bundle::ShardEntries::Tensor& part) {
  std::vector<SliceExtent> extents(static_cast<size_t>(part.entry().shape().dim_size()));
  extents[0] = {part.first_row(), part.row_count()};
  return extents;
}

bundle::TensorSlice SliceProto(std::span<const SliceExtent> extents) {
  bundle::TensorSlice slice;
  for (const SliceExtent& extent : extents) {
    bundle::TensorSlice::Extent* out = slice.add_extent();
    if (extent.length < 0) continue;
    out->set_start(extent.start);
    out->set_length(extent.length);
  }
  return slice;
}

// A tensor in parts: one record that names the slices, and one for each slice.
absl::Status AddSliced(const std::string& name, std::vector<Part> parts,
                       std::vector<TableRecord>* records) {
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.second->first_row() < b.second->first_row();
  });
  bundle::BundleEntry whole;
  whole.set_dtype(parts[0].second->entry().dtype());
  *whole.mutable_shape() = parts[0].second->entry().shape();
  int64_t row = 0;
  for (const auto& [shard, part] : parts) {
    const bundle::BundleEntry& entry = part->entry();
    if (entry.dtype() != whole.dtype() ||
        entry.shape().SerializeAsString() != whole.shape().SerializeAsString()) {
      return base::DataError(base::StrCat("the shards disagree on the shape of ", name));
    }
    if (entry.shape().dim_size() == 0 || part->row_count() < 0 || part->first_row() != row ||
        part->row_count() > entry.shape().dim(0).size() - row) {
      return base::DataError(base::StrCat(
          "the shards do not fit together: shard ", shard, " saved ", part->row_count(),
          " rows of ", name, " from row ", part->first_row(), ", expected from ", row));
    }
    row += part->row_count();
    const std::vector<SliceExtent> extents = ExtentsOf(*part);
    *whole.add_slices() = SliceProto(extents);
    bundle::BundleEntry slice = entry;
    slice.set_shard_id(shard);
    slice.mutable_shape()->mutable_dim(0)->set_size(part->row_count());
    records->emplace_back(EncodeSliceKey(name, extents), slice.SerializeAsString());
  }
  if (row != whole.shape().dim(0).size()) {
    return base::DataError(base::StrCat("the shards saved ", row, " of the ",
                                        whole.shape().dim(0).size(), " rows of ", name));
  }
  records->emplace_back(name, whole.SerializeAsString());
  return absl::OkStatus();
}

}  // namespace

std::string BundleIndexPath(const std::string& prefix) { return prefix + ".index"; }

std::string BundleDataPath(const std::string& prefix, int shard, int shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, shards);
}

int64_t ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    // 2^56 elements: far beyond any file, and a byte count still fits.
    if (size < 0 || (size > 0 && count > (int64_t{1} << 56) / size)) return -1;
    count *= size;
  }
  return count;
}

int64_t RowCount(std::span<const int64_t> shape) { return shape.empty() ? 1 : shape[0]; }

std::string ShapeString(std::span<const int64_t> shape) {
  return base::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::StatusOr<std::unique_ptr<BundleDataWriter>> BundleDataWriter::Create(
    Files* files, const std::string& prefix, int shard, int shards) {
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file,
                   DurableFile::Create(files, BundleDataPath(prefix, shard, shards)));
  return std::unique_ptr<BundleDataWriter>(new BundleDataWriter(std::move(file), shard, shards));
}

BundleDataWriter::BundleDataWriter(std::unique_ptr<DurableFile> file, int shard, int shards)
    : file_(std::move(file)) {
  entries_.set_shard(shard);
  entries_.set_shard_count(shards);
}

absl::Status BundleDataWriter::AddFloats(std::string_view name, const BundleRows& rows,
                                         std::span<const float> values) {
  const int64_t all_rows = RowCount(rows.shape);
  const int64_t row_count = rows.row_count < 0 ? all_rows : rows.row_count;
  const int64_t elements = ElementCount(rows.shape);
  const int64_t row_size = all_rows > 0 ? elements / all_rows : 0;
  if (elements < 0 || rows.first_row < 0 || rows.first_row + row_count > all_rows ||
      row_count * row_size != static_cast<int64_t>(values.size())) {
    return absl::InternalError(base::StrCat(values.size(), " values are not rows ", rows.first_row,
                                            " to ", rows.first_row + row_count, " of ", name, " ",
                                            ShapeString(rows.shape)));
  }
  return Add(name, rows, kDtypeFloat,
             {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

absl::Status BundleDataWriter::AddInt64(std::string_view name, int64_t value) {
  return Add(name, {}, kDtypeInt64, {reinterpret_cast<const char*>(&value), sizeof value});
}

absl::Status BundleDataWriter::Add(std::string_view name, const BundleRows& rows, int dtype,
                                   std::string_view bytes) {
  const bool whole =
      rows.row_count < 0 || (rows.first_row == 0 && rows.row_count == RowCount(rows.shape));
  bundle::ShardEntries::Tensor* tensor = entries_.add_tensors();
  tensor->set_name(std::string(name));
  tensor->set_first_row(whole ? 0 : rows.first_row);
  tensor->set_row_count(whole ? -1 : rows.row_count);
  bundle::BundleEntry* entry = tensor->mutable_entry();
  entry->set_dtype(dtype);
  SetShape(rows.shape, entry->mutable_shape());
  entry->set_shard_id(entries_.shard());
  entry->set_offset(entries_.data_bytes());
  entry->set_size(static_cast<int64_t>(bytes.size()));
  entry->set_crc32c(MaskCrc32c(Crc32c(bytes)));
  entries_.set_data_bytes(entries_.data_bytes() + entry->size());
  return file_->Append(bytes);
}

absl::StatusOr<bundle::ShardEntries> BundleDataWriter::Finish() {
  RETURN_IF_ERROR(file_->Commit());
  return std::move(entries_);
}

absl::StatusOr<std::string> EncodeBundleIndex(std::span<const bundle::ShardEntries> shards) {
  std::map<std::string, std::vector<Part>> tensors;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const bundle::ShardEntries::Tensor& tensor : shards[i].tensors()) {
      std::vector<Part>& parts = tensors[tensor.name()];
      // Scalars of the whole job (Adam's powers) may come from every shard: the first one counts.
      const bool repeated_scalar = !parts.empty() && tensor.entry().shape().dim_size() == 0;
      if (!repeated_scalar) parts.emplace_back(static_cast<int>(i), &tensor);
    }
  }
  bundle::BundleHeader header;
  header.set_num_shards(static_cast<int32_t>(shards.size()));
  header.mutable_version()->set_producer(1);
  std::vector<TableRecord> records = {{"", header.SerializeAsString()}};
  for (const auto& [name, parts] : tensors) {
    if (name.empty()) return base::DataError("a tensor without a name cannot be saved");
    if (parts.size() == 1 && parts[0].second->row_count() < 0) {
      bundle::BundleEntry entry = parts[0].second->entry();
      entry.set_shard_id(parts[0].first);
      records.emplace_back(name, entry.SerializeAsString());
    } else {
      RETURN_IF_ERROR(AddSliced(name, parts, &records));
    }
  }
  std::sort(records.begin(), records.end());
  return EncodeTable(records);
}

}  // namespace trainer
