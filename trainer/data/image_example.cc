#include "trainer/data/image_example.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/example.pb.h"

namespace trainer {
namespace {

constexpr char kImage[] = "image_raw";
constexpr char kPixelCount[] = "pixels";
constexpr char kLabel[] = "label";
constexpr std::string_view kExtension = ".tfrecord";

const tfexample::Feature* FindFeature(const tfexample::Example& example, const char* name) {
  const auto& features = example.features().feature();
  const auto found = features.find(name);
  return found == features.end() ? nullptr : &found->second;
}

// The single integer of a feature, or nullopt.
std::optional<int64_t> SingleInteger(const tfexample::Feature* feature) {
  if (feature == nullptr || feature->int64_list().value_size() != 1) return std::nullopt;
  return feature->int64_list().value(0);
}

std::string Describe(const tfexample::Feature* feature) {
  if (feature == nullptr) return "no such feature";
  switch (feature->kind_case()) {
    case tfexample::Feature::kBytesList:
      return base::StrCat(feature->bytes_list().value_size(), " bytes value(s)");
    case tfexample::Feature::kFloatList:
      return base::StrCat(feature->float_list().value_size(), " float value(s)");
    case tfexample::Feature::kInt64List:
      return base::StrCat(feature->int64_list().value_size(), " int64 value(s)");
    case tfexample::Feature::KIND_NOT_SET:
      break;
  }
  return "an empty feature";
}

int64_t SquareSide(int64_t size) {
  int64_t side = 1;
  while (side * side < size) ++side;
  return side * side == size ? side : 0;
}

absl::Status AppendFile(const std::string& file, Dataset& dataset) {
  ASSIGN_OR_RETURN(auto source, OpenByteSource(file));
  TfRecordReader reader(std::move(source));
  ImageExampleParser parser;
  for (;;) {
    ASSIGN_OR_RETURN(const ImageExample example, parser.Next(reader, dataset.example_size));
    if (example.pixels.empty()) return absl::OkStatus();
    dataset.example_size = static_cast<int64_t>(example.pixels.size());
    dataset.pixels.insert(dataset.pixels.end(), example.pixels.begin(), example.pixels.end());
    dataset.labels.push_back(example.label);
    ++dataset.size;
  }
}

std::vector<std::string> Match(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

std::vector<std::string> RecordsIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == kExtension) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::string EncodeImageExample(const ImageExample& example) {
  tfexample::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  features[kImage].mutable_bytes_list()->add_value(example.pixels.data(), example.pixels.size());
  features[kPixelCount].mutable_int64_list()->add_value(
      static_cast<int64_t>(example.pixels.size()));
  features[kLabel].mutable_int64_list()->add_value(example.label);
  return message.SerializeAsString();
}

ImageExampleParser::ImageExampleParser(const ImageExampleOptions& options)
    : options_(options), message_(std::make_unique<tfexample::Example>()) {}

ImageExampleParser::~ImageExampleParser() = default;

absl::StatusOr<ImageExample> ImageExampleParser::Next(TfRecordReader& reader,
                                                      int64_t example_size) {
  ASSIGN_OR_RETURN(const auto record, reader.Next());
  if (!record.has_value()) return ImageExample{};
  if (record->size() > std::numeric_limits<int>::max() ||
      !message_->ParseFromArray(record->data(), static_cast<int>(record->size()))) {
    return reader.RecordError("a tf.train.Example", "a record that is none");
  }
  const tfexample::Feature* image = FindFeature(*message_, kImage);
  if (image == nullptr || image->bytes_list().value_size() != 1) {
    return reader.RecordError("the feature image_raw with one bytes value", Describe(image));
  }
  const std::string& pixels = image->bytes_list().value(0);
  const auto size = static_cast<int64_t>(pixels.size());
  if (size == 0 || (example_size != 0 && size != example_size)) {
    return reader.RecordError(example_size == 0
                                  ? "an image_raw with pixels"
                                  : base::StrCat("an image_raw of ", example_size, " bytes"),
                              base::StrCat(size, " bytes"));
  }
  const tfexample::Feature* count = FindFeature(*message_, kPixelCount);
  if (count != nullptr && SingleInteger(count) != size) {
    return reader.RecordError(
        base::StrCat("the feature pixels to be ", size, ", the bytes of image_raw"),
        SingleInteger(count).has_value() ? base::StrCat(*SingleInteger(count)) : Describe(count));
  }
  const tfexample::Feature* label = FindFeature(*message_, kLabel);
  const std::optional<int64_t> number = SingleInteger(label);
  if (!number.has_value() || *number < 0 || *number >= options_.classes) {
    return reader.RecordError(
        base::StrCat("the feature label with one int64 of 0 to ", options_.classes - 1),
        number.has_value() ? base::StrCat(*number) : Describe(label));
  }
  return ImageExample{{reinterpret_cast<const uint8_t*>(pixels.data()), pixels.size()},
                      static_cast<uint8_t>(*number)};
}

absl::StatusOr<Dataset> LoadImageRecords(const std::vector<std::string>& files) {
  Dataset dataset;
  for (const std::string& file : files) RETURN_IF_ERROR(AppendFile(file, dataset));
  if (dataset.size == 0) {
    return base::DataError(base::StrCat(files.empty() ? "TFRecord input" : files.front(),
                                        ": expected examples, found none"));
  }
  const int64_t side = SquareSide(dataset.example_size);
  dataset.rows = side > 0 ? side : 1;
  dataset.columns = dataset.example_size / dataset.rows;
  return dataset;
}

absl::StatusOr<std::vector<std::string>> WriteImageRecords(const Dataset& dataset,
                                                           const std::string& folder,
                                                           std::string_view name,
                                                           int64_t file_count) {
  const auto size = static_cast<size_t>(dataset.example_size);
  std::vector<std::string> paths;
  for (int64_t file = 0; file < file_count; ++file) {
    const std::string suffix =
        absl::StrFormat("-%05d-of-%05d", file, file_count) + std::string(kExtension);
    paths.push_back(base::StrCat(folder, "/", name, suffix));
    ASSIGN_OR_RETURN(TfRecordWriter writer, TfRecordWriter::Create(paths.back()));
    const int64_t end = dataset.size * (file + 1) / file_count;
    for (int64_t i = dataset.size * file / file_count; i < end; ++i) {
      RETURN_IF_ERROR(writer.Append(EncodeImageExample(
          {{dataset.pixels.data() + i * dataset.example_size, size}, dataset.labels[i]})));
    }
    RETURN_IF_ERROR(writer.Close());
  }
  return paths;
}

absl::StatusOr<RecordFiles> FindRecordFiles(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  RecordFiles files;
  for (std::string& file : folder ? RecordsIn(path) : Match(path)) {
    const std::string name = std::filesystem::path(file).filename().string();
    if (name.starts_with("val")) {
      files.validation.push_back(std::move(file));
    } else if (name.starts_with("test") || name.starts_with("t10k")) {
      files.test.push_back(std::move(file));
    } else {
      files.train.push_back(std::move(file));
    }
  }
  if (files.train.empty() && files.validation.empty() && files.test.empty()) {
    return base::DataError(base::StrCat(
        path, folder ? ": expected *.tfrecord files in this folder, found none"
                     : ": expected a TFRecord file or a pattern that matches some, found none"));
  }
  return files;
}

}  // namespace trainer
