// The table of a checkpoint's index file: sorted keys and values in leveldb's table format (leveldb
// doc/table_format.md), uncompressed, as TensorFlow writes and reads it. leveldb's library writes;
// the reader is our own, because leveldb's trusts the lengths that it finds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace trainer {

using TableRecord = std::pair<std::string, std::string>;  // key, value

// REQUIRES: keys strictly ascending as bytes.
absl::StatusOr<std::string> EncodeTable(std::span<const TableRecord> records);

// Safe on any bytes: memory is bounded by a small multiple of the table's size. kDataLoss says what
// is wrong and at which offset: not a table, truncated, a bad checksum, compressed, keys out of
// order.
absl::StatusOr<std::vector<TableRecord>> DecodeTable(std::string_view table);

}  // namespace trainer
