// DecodeTable: a table is data blocks, an index block that lists them, and a footer of 48 bytes
// that says where the index block lies. Every length is checked against what is really there.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/checkpoint/bundle_table.h"
#include "trainer/data/crc32c.h"

namespace trainer {
namespace {

constexpr size_t kFooterBytes = 48;
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kTrailerBytes = 5;  // of a block: compression type, masked CRC-32C
constexpr size_t kMaxKeyBytes = 4096;

uint32_t LoadFixed32(const char* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Takes a base-128 number off the front of `input`; nullopt if there is none.
std::optional<uint64_t> TakeVarint(std::string_view* input) {
  uint64_t value = 0;
  for (size_t i = 0; i < input->size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>((*input)[i]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      input->remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;  // without the trailer
};

std::optional<BlockHandle> TakeHandle(std::string_view* input) {
  const std::optional<uint64_t> offset = TakeVarint(input);
  if (!offset) return std::nullopt;
  const std::optional<uint64_t> size = TakeVarint(input);
  if (!size) return std::nullopt;
  return BlockHandle{*offset, *size};
}

class Reader {
 public:
  explicit Reader(std::string_view table)
      : table_(table), budget_(64 * table.size() + (size_t{1} << 20)) {}

  absl::StatusOr<std::vector<TableRecord>> Read() {
    if (table_.size() < kFooterBytes) {
      return Damaged(
          0, base::StrCat("expected at least ", kFooterBytes, " bytes, found ", table_.size()));
    }
    const size_t footer_at = table_.size() - kFooterBytes;
    std::string_view footer = table_.substr(footer_at);
    uint64_t magic = 0;
    std::memcpy(&magic, footer.data() + kFooterBytes - sizeof magic, sizeof magic);
    if (magic != kMagic) return Damaged(footer_at, "this is not the end of an index table");
    const std::optional<BlockHandle> metaindex = TakeHandle(&footer);
    const std::optional<BlockHandle> index = TakeHandle(&footer);
    if (!metaindex || !index) return Damaged(footer_at, "bad footer");

    ASSIGN_OR_RETURN(const std::vector<TableRecord> blocks, ReadBlock(*index));
    std::vector<TableRecord> records;
    uint64_t end = 0;  // of the block before: blocks may not overlap
    for (const auto& [key, value] : blocks) {
      std::string_view rest = value;
      const std::optional<BlockHandle> handle = TakeHandle(&rest);
      if (!handle || handle->offset < end) return Damaged(index->offset, "bad block position");
      ASSIGN_OR_RETURN(std::vector<TableRecord> block, ReadBlock(*handle));
      end = handle->offset + handle->size;
      if (!records.empty() && !block.empty() && records.back().first >= block.front().first) {
        return Damaged(handle->offset, "keys out of order");
      }
      for (TableRecord& record : block) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  static absl::Status Damaged(uint64_t offset, std::string_view what) {
    return base::DataError(base::StrCat("at offset ", offset, ": ", what));
  }

  // Checks position, checksum and type of a block and returns its records.
  absl::StatusOr<std::vector<TableRecord>> ReadBlock(const BlockHandle& handle) {
    if (handle.offset > table_.size() || handle.size > table_.size() - handle.offset ||
        table_.size() - handle.offset - handle.size < kTrailerBytes) {
      return Damaged(handle.offset,
                     base::StrCat("a block of ", handle.size, " bytes ends outside the file"));
    }
    const std::string_view block = table_.substr(handle.offset, handle.size);
    const char* trailer = block.data() + block.size();
    const uint32_t expected = LoadFixed32(trailer + 1);
    const uint32_t found = MaskCrc32c(Crc32c(table_.substr(handle.offset, handle.size + 1)));
    if (expected != found) {
      return Damaged(handle.offset,
                     base::StrCat("checksum of a block: expected ", expected, ", found ", found));
    }
    if (*trailer != 0) {
      return Damaged(handle.offset,
                     "the block is compressed, which checkpoints of TensorFlow "
                     "never are");
    }
    return ParseBlock(block, handle.offset);
  }

  // Records are (bytes shared with the key before, other key bytes, value bytes), then the array of
  // restart positions, which only binary search needs, and its length.
  absl::StatusOr<std::vector<TableRecord>> ParseBlock(std::string_view block, uint64_t at) {
    if (block.size() < 4) return Damaged(at, "empty block");
    const uint64_t restarts = LoadFixed32(block.data() + block.size() - 4);
    if (restarts > (block.size() - 4) / 4) return Damaged(at, "bad number of restarts");
    std::string_view rest = block.substr(0, block.size() - 4 - 4 * restarts);
    std::vector<TableRecord> records;
    std::string key;
    while (!rest.empty()) {
      const std::optional<uint64_t> shared = TakeVarint(&rest);
      const std::optional<uint64_t> unshared = shared ? TakeVarint(&rest) : std::nullopt;
      const std::optional<uint64_t> value_bytes = unshared ? TakeVarint(&rest) : std::nullopt;
      if (!value_bytes || *shared > key.size() || *unshared > rest.size() ||
          *value_bytes > rest.size() - *unshared) {
        return Damaged(at, "bad record");
      }
      const std::string previous = key;
      key.resize(*shared);
      key.append(rest.substr(0, *unshared));
      if (key.size() > kMaxKeyBytes) return Damaged(at, "a key of more than 4096 bytes");
      if (!records.empty() && previous >= key) return Damaged(at, "keys out of order");
      rest.remove_prefix(*unshared);
      const size_t cost = key.size() + *value_bytes + sizeof(TableRecord);
      if (cost > budget_) return Damaged(at, "the keys take far more memory than the file has");
      budget_ -= cost;
      records.emplace_back(key, rest.substr(0, *value_bytes));
      rest.remove_prefix(*value_bytes);
    }
    return records;
  }

  const std::string_view table_;
  size_t budget_;  // bytes of records that may still be made
};

}  // namespace

absl::StatusOr<std::vector<TableRecord>> DecodeTable(std::string_view table) {
  return Reader(table).Read();
}

}  // namespace trainer
