// Images as tf.train.Example records: image_raw (bytes: the pixels), pixels (int64: how many),
// label (int64). The classic way to keep MNIST in TFRecord files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/tfrecord.h"

namespace trainer {

namespace tfexample {
class Example;
}

struct ImageExample {
  std::span<const uint8_t> pixels;
  uint8_t label = 0;
};

struct ImageExampleOptions {
  int64_t classes = 10;  // labels must be below
};

std::string EncodeImageExample(const ImageExample& example);

// Keeps its buffers from record to record. Not thread-safe.
class ImageExampleParser {
 public:
  explicit ImageExampleParser(const ImageExampleOptions& options = {});
  ~ImageExampleParser();

  // The next example of `reader`, valid until the next call; no pixels at the end of the file.
  // `example_size`: pixels wanted; 0: any. kDataLoss with file, offset, expected and found: the
  // reader's errors; no Example; a feature missing or of another kind; sizes that disagree.
  absl::StatusOr<ImageExample> Next(TfRecordReader& reader, int64_t example_size);

 private:
  const ImageExampleOptions options_;
  const std::unique_ptr<tfexample::Example> message_;
};

// All examples of the files, in order. rows and columns are the sides of a square where the size
// allows one, else 1 and the size. kDataLoss: as above, or no example at all.
absl::StatusOr<Dataset> LoadImageRecords(const std::vector<std::string>& files);

// Writes `dataset` as FOLDER/NAME-0000i-of-0000n.tfrecord, each atomically; returns the paths.
// REQUIRES: file_count > 0.
absl::StatusOr<std::vector<std::string>> WriteImageRecords(const Dataset& dataset,
                                                           const std::string& folder,
                                                           std::string_view name,
                                                           int64_t file_count);

// The TFRecord files of a set, by the beginning of their names: validation and val, test and t10k;
// all others are for training.
struct RecordFiles {
  std::vector<std::string> train;
  std::vector<std::string> validation;
  std::vector<std::string> test;
};

// The *.tfrecord files of a folder, one file, or those that match a shell pattern; in order of
// name. kDataLoss: none are found.
absl::StatusOr<RecordFiles> FindRecordFiles(const std::string& path);

}  // namespace trainer
