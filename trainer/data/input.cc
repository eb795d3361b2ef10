#include "trainer/data/input.h"

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_example.h"
#include "trainer/data/linear.h"
#include "trainer/data/record_stream.h"
#include "trainer/data/synthesize.h"

namespace trainer {
namespace {

using SharedDataset = std::shared_ptr<const Dataset>;

// A dataset that is made when it is first asked for; a failure is kept as well. Thread-safe.
class LazyDataset {
 public:
  explicit LazyDataset(std::function<absl::StatusOr<SharedDataset>()> load)
      : load_(std::move(load)) {}

  absl::StatusOr<SharedDataset> Get() {
    std::call_once(once_, [this] { result_ = load_(); });
    return *result_;
  }

 private:
  const std::function<absl::StatusOr<SharedDataset>()> load_;
  std::once_flag once_;
  std::optional<absl::StatusOr<SharedDataset>> result_;
};

class DatasetInput : public Input {
 public:
  DatasetInput(const SharedDataset& dataset, const BatcherOptions& options)
      : example_size_(dataset->example_size), batcher_(dataset, options) {}

  absl::Status Next(std::span<float> inputs, std::span<int32_t> labels,
                    std::span<float> targets) override {
    batcher_.Next(inputs, labels);
    return absl::OkStatus();
  }
  int64_t example_size() const override { return example_size_; }
  int64_t examples_per_epoch() const override { return batcher_.examples_per_epoch(); }

 private:
  const int64_t example_size_;
  Batcher batcher_;
};

class RecordInput : public Input {
 public:
  explicit RecordInput(std::unique_ptr<RecordStream> stream) : stream_(std::move(stream)) {}

  absl::Status Next(std::span<float> inputs, std::span<int32_t> labels,
                    std::span<float> targets) override {
    return stream_->Next(inputs, labels);
  }
  int64_t example_size() const override { return stream_->example_size(); }
  int64_t examples_per_epoch() const override { return 0; }

 private:
  const std::unique_ptr<RecordStream> stream_;
};

class LinearInput : public Input {
 public:
  explicit LinearInput(const BatcherOptions& options)
      : batch_size_(options.batch_size),
        points_(options.seed, static_cast<uint64_t>(options.shard)) {}

  absl::Status Next(std::span<float> inputs, std::span<int32_t> labels,
                    std::span<float> targets) override {
    points_.Next(inputs.first(batch_size_), targets.first(batch_size_));
    return absl::OkStatus();
  }
  int64_t example_size() const override { return 1; }
  int64_t examples_per_epoch() const override { return 0; }

 private:
  const size_t batch_size_;
  LinearPoints points_;
};

absl::Status ValidateBatches(const BatcherOptions& options) {
  if (options.batch_size <= 0) {
    return base::UsageError(base::StrCat("batch size ", options.batch_size, " is not above 0"));
  }
  if (options.shard < 0 || options.shard >= options.shard_count) {
    return base::UsageError(
        base::StrCat("shard ", options.shard, " is none of ", options.shard_count));
  }
  return absl::OkStatus();
}

// Sets that are held in memory: idx files and drawn digits.
class DatasetSource : public DataSource {
 public:
  using Load = std::function<absl::StatusOr<Datasets>(const DatasetParts&)>;

  DatasetSource(DataKind kind, std::string name, Load load)
      : kind_(kind), name_(std::move(name)), load_(std::move(load)) {}

  DataKind kind() const override { return kind_; }

  absl::StatusOr<std::unique_ptr<Input>> NewInput(const BatcherOptions& options) override {
    RETURN_IF_ERROR(ValidateBatches(options));
    ASSIGN_OR_RETURN(const SharedDataset train, train_.Get());
    if (train->size == 0) {
      return base::DataError(base::StrCat(name_, ": expected examples to train on, found none"));
    }
    if (options.shard_count > train->size) {
      return base::UsageError(base::StrCat(name_, ": cannot divide ", train->size,
                                           " examples among ", options.shard_count, " tasks"));
    }
    return std::make_unique<DatasetInput>(train, options);
  }
  absl::StatusOr<SharedDataset> Validation() override { return validation_.Get(); }
  absl::StatusOr<SharedDataset> Test() override { return test_.Get(); }

 private:
  absl::StatusOr<SharedDataset> LoadPart(SharedDataset Datasets::* part,
                                         const DatasetParts& parts) const {
    ASSIGN_OR_RETURN(const Datasets datasets, load_(parts));
    return datasets.*part;
  }

  const DataKind kind_;
  const std::string name_;
  const Load load_;
  LazyDataset train_{[this] {
    return LoadPart(&Datasets::train, {.train = true, .validation = false, .test = false});
  }};
  LazyDataset validation_{[this] {
    return LoadPart(&Datasets::validation, {.train = false, .validation = true, .test = false});
  }};
  LazyDataset test_{[this] {
    return LoadPart(&Datasets::test, {.train = false, .validation = false, .test = true});
  }};
};

class RecordSource : public DataSource {
 public:
  RecordSource(const DataOptions& options, RecordFiles files)
      : options_(options), files_(std::move(files)) {}

  DataKind kind() const override { return DataKind::kTfRecord; }

  absl::StatusOr<std::unique_ptr<Input>> NewInput(const BatcherOptions& options) override {
    if (files_.train.empty()) {
      return base::DataError(base::StrCat(options_.data_dir,
                                          ": expected *.tfrecord files to train on, found only ",
                                          "those of validation and test"));
    }
    ASSIGN_OR_RETURN(auto stream, RecordStream::Open({.files = files_.train,
                                                      .batcher = options,
                                                      .reader_threads = options_.reader_threads,
                                                      .shuffle_buffer = options_.shuffle_buffer}));
    return std::make_unique<RecordInput>(std::move(stream));
  }
  absl::StatusOr<SharedDataset> Validation() override { return validation_.Get(); }
  absl::StatusOr<SharedDataset> Test() override { return test_.Get(); }

 private:
  absl::StatusOr<SharedDataset> Load(const std::vector<std::string>& files,
                                     std::string_view name) const {
    if (files.empty()) {
      return absl::NotFoundError(
          base::StrCat(options_.data_dir, ": no ", name, "*.tfrecord files"));
    }
    ASSIGN_OR_RETURN(Dataset dataset, LoadImageRecords(files));
    return std::make_shared<const Dataset>(std::move(dataset));
  }

  const DataOptions options_;
  const RecordFiles files_;
  LazyDataset validation_{[this] { return Load(files_.validation, "validation"); }};
  LazyDataset test_{[this] { return Load(files_.test, "test"); }};
};

class LinearSource : public DataSource {
 public:
  DataKind kind() const override { return DataKind::kLinear; }

  absl::StatusOr<std::unique_ptr<Input>> NewInput(const BatcherOptions& options) override {
    RETURN_IF_ERROR(ValidateBatches(options));
    return std::make_unique<LinearInput>(options);
  }
  absl::StatusOr<SharedDataset> Validation() override { return None(); }
  absl::StatusOr<SharedDataset> Test() override { return None(); }

 private:
  static absl::Status None() {
    return absl::NotFoundError("the points of a line have no validation or test set");
  }
};

std::shared_ptr<DataSource> SyntheticSource(const DataOptions& options) {
  return std::make_shared<DatasetSource>(
      DataKind::kSynthetic, "drawn digits",
      [options](const DatasetParts& parts) -> absl::StatusOr<Datasets> {
        return SynthesizeDigits({.train_size = options.synthetic_train,
                                 .test_size = options.synthetic_test,
                                 .seed = options.synthetic_seed,
                                 .parts = parts});
      });
}

std::shared_ptr<DataSource> IdxSource(const std::string& folder) {
  return std::make_shared<DatasetSource>(
      DataKind::kIdx, folder,
      [folder](const DatasetParts& parts) { return LoadIdxFolder(folder, parts); });
}

absl::StatusOr<DataKind> DetectKind(const std::string& data_dir) {
  if (data_dir.empty()) return DataKind::kSynthetic;
  std::error_code error;
  if (!std::filesystem::is_directory(data_dir, error)) return DataKind::kTfRecord;
  if (IsIdxFolder(data_dir)) return DataKind::kIdx;
  if (FindRecordFiles(data_dir).ok()) return DataKind::kTfRecord;
  return base::DataError(base::StrCat(
      data_dir, ": expected train-images-idx3-ubyte and its like (or .gz), or *.tfrecord files, ",
      "found neither: `trainer data synthesize` draws a set, `trainer data download` fetches one"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<DataSource>> OpenData(const DataOptions& options) {
  DataKind kind = options.kind;
  if (kind == DataKind::kAuto) {
    ASSIGN_OR_RETURN(kind, DetectKind(options.data_dir));
  }
  switch (kind) {
    case DataKind::kIdx:
      return IdxSource(options.data_dir);
    case DataKind::kTfRecord: {
      ASSIGN_OR_RETURN(RecordFiles files, FindRecordFiles(options.data_dir));
      return std::make_shared<RecordSource>(options, std::move(files));
    }
    case DataKind::kLinear:
      return std::make_shared<LinearSource>();
    case DataKind::kSynthetic:
    case DataKind::kAuto:
      break;
  }
  return SyntheticSource(options);
}

}  // namespace trainer
