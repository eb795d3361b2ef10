// EncodeTable by leveldb's TableBuilder.
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>
#include <leveldb/table_builder.h>

#include <cstddef>

#include "base/str_cat.h"
#include "trainer/checkpoint/bundle_table.h"

namespace trainer {
namespace {

// Collects what the builder writes.
class StringFile : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace

absl::StatusOr<std::string> EncodeTable(std::span<const TableRecord> records) {
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  for (size_t i = 0; i < records.size(); ++i) {
    if (i > 0 && records[i - 1].first >= records[i].first) {
      builder.Abandon();
      return absl::InternalError(
          base::StrCat("table keys not in ascending order: ", records[i].first));
    }
    builder.Add(records[i].first, records[i].second);
  }
  const leveldb::Status status = builder.Finish();
  if (!status.ok()) return absl::InternalError(status.ToString());
  return file.Take();
}

}  // namespace trainer
