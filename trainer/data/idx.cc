#include "trainer/data/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/atomic_file.h"

namespace trainer {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint32_t kMaxSide = 1 << 14;  // of an image, so that count * rows * columns cannot wrap
constexpr size_t kStep = size_t{1} << 20;  // memory is taken as this many bytes arrive

struct ImagesHeader {
  uint64_t count, rows, columns;
};

absl::StatusOr<uint32_t> ReadNumber(ByteSource& source, std::string_view what) {
  std::array<uint8_t, 4> bytes{};
  const uint64_t begin = source.offset();
  ASSIGN_OR_RETURN(const size_t count, source.Read(bytes));
  if (count < bytes.size()) {
    return source.Error(begin, base::StrCat("the ", what, " (4 bytes)"), "the end of the file");
  }
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string_view MagicHint(uint32_t magic) {
  if (magic == kImagesMagic) return " (an images file)";
  if (magic == kLabelsMagic) return " (a labels file)";
  return " (no idx file of unsigned bytes)";
}

absl::Status CheckMagic(ByteSource& source, uint32_t expected) {
  ASSIGN_OR_RETURN(const uint32_t magic, ReadNumber(source, "magic number"));
  if (magic == expected) return absl::OkStatus();
  return source.Error(0, absl::StrFormat("magic number 0x%08x", expected),
                      base::StrCat(absl::StrFormat("0x%08x", magic), MagicHint(magic)));
}

absl::Status CheckFits(const ByteSource& source, uint64_t claimed, std::string_view shape) {
  if (claimed <= source.size_bound() - std::min(source.offset(), source.size_bound())) {
    return absl::OkStatus();
  }
  return source.Error(
      source.offset(), base::StrCat(claimed, " bytes of ", shape),
      base::StrCat("a file that holds at most ", source.size_bound(), " bytes (is it cut short?)"));
}

absl::StatusOr<ImagesHeader> ReadImagesHeader(ByteSource& source, const IdxOptions& options) {
  RETURN_IF_ERROR(CheckMagic(source, kImagesMagic));
  ASSIGN_OR_RETURN(const uint32_t count, ReadNumber(source, "number of images"));
  ASSIGN_OR_RETURN(const uint32_t rows, ReadNumber(source, "number of rows"));
  ASSIGN_OR_RETURN(const uint32_t columns, ReadNumber(source, "number of columns"));
  const std::string found = base::StrCat(rows, "x", columns);
  if (rows == 0 || columns == 0 || rows > kMaxSide || columns > kMaxSide) {
    return source.Error(8, base::StrCat("image sides of 1 to ", kMaxSide), found);
  }
  if ((options.rows != 0 && rows != options.rows) ||
      (options.columns != 0 && columns != options.columns)) {
    return source.Error(8, base::StrCat("images of ", options.rows, "x", options.columns), found);
  }
  const ImagesHeader header{count, rows, columns};
  const uint64_t example_size = header.rows * header.columns;
  RETURN_IF_ERROR(CheckFits(source, header.count * example_size,
                            base::StrCat("pixels (", count, " images of ", found, ")")));
  return header;
}

absl::StatusOr<uint64_t> ReadLabelsHeader(ByteSource& source) {
  RETURN_IF_ERROR(CheckMagic(source, kLabelsMagic));
  ASSIGN_OR_RETURN(const uint32_t count, ReadNumber(source, "number of labels"));
  RETURN_IF_ERROR(CheckFits(source, count, "labels"));
  return count;
}

// Reads exactly `count` bytes to the end of `out`, or over a scratch buffer where they are not
// kept.
absl::Status ReadBytes(ByteSource& source, uint64_t count, std::string_view what, bool keep,
                       std::vector<uint8_t>& out) {
  std::vector<uint8_t> scratch(keep ? 0 : std::min<uint64_t>(count, kStep));
  if (keep) out.reserve(count);
  const uint64_t begin = source.offset();
  for (uint64_t done = 0; done < count;) {
    const size_t step = std::min<uint64_t>(count - done, kStep);
    if (keep) out.resize(done + step);
    ASSIGN_OR_RETURN(const size_t got,
                     source.Read({keep ? out.data() + done : scratch.data(), step}));
    done += got;
    if (got < step) {
      return source.Error(begin + done, base::StrCat(count - done, " more bytes of ", what),
                          "the end of the file (it is cut short)");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEnd(ByteSource& source) {
  std::array<uint8_t, 1> byte{};
  const uint64_t end = source.offset();
  ASSIGN_OR_RETURN(const size_t count, source.Read(byte));
  if (count == 0) return absl::OkStatus();
  return source.Error(end, "the end of the file after what its header announces", "more bytes");
}

absl::Status CheckLabels(const ByteSource& source, std::span<const uint8_t> labels, uint64_t begin,
                         int64_t classes) {
  const auto bad = std::ranges::find_if(labels, [&](uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return absl::OkStatus();
  return source.Error(begin + (bad - labels.begin()), base::StrCat("a label of 0 to ", classes - 1),
                      base::StrCat(int{*bad}));
}

// One of the two parts of a split. Labels are read even where they are not kept, to be checked.
absl::Status ReadPart(ByteSource& images, ByteSource& labels, bool keep, const IdxOptions& options,
                      Dataset& part) {
  const auto count = static_cast<uint64_t>(part.size);
  RETURN_IF_ERROR(ReadBytes(images, count * part.example_size, "pixels", keep, part.pixels));
  const uint64_t labels_begin = labels.offset();
  RETURN_IF_ERROR(ReadBytes(labels, count, "labels", true, part.labels));
  RETURN_IF_ERROR(CheckLabels(labels, part.labels, labels_begin, options.classes));
  if (!keep) part = Dataset{};
  return absl::OkStatus();
}

// The spellings under which the classic files are found in the wild.
std::vector<std::string> Spellings(std::string_view set, std::string_view kind) {
  std::vector<std::string> names;
  for (const std::string_view separator : {"-", "."}) {
    for (const std::string_view suffix : {"", ".gz"}) {
      names.push_back(base::StrCat(set, "-", kind == "images" ? "images" : "labels", separator,
                                   kind == "images" ? "idx3" : "idx1", "-ubyte", suffix));
    }
  }
  return names;
}

std::string Find(const std::string& folder, std::string_view set, std::string_view kind) {
  std::error_code error;
  for (const std::string& name : Spellings(set, kind)) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenIdx(const std::string& folder, std::string_view set,
                                                    std::string_view kind) {
  const std::string path = Find(folder, set, kind);
  if (!path.empty()) return OpenByteSource(path);
  return base::DataError(base::StrCat(
      folder, ": expected the file ", Spellings(set, kind).front(), " (or .gz), found none: ",
      "`trainer data synthesize` draws a set, `trainer data download` fetches one"));
}

absl::StatusOr<IdxSplit> LoadPair(const std::string& folder, std::string_view set,
                                  const IdxSplitOptions& options) {
  ASSIGN_OR_RETURN(const auto images, OpenIdx(folder, set, "images"));
  ASSIGN_OR_RETURN(const auto labels, OpenIdx(folder, set, "labels"));
  return ReadIdx(*images, *labels, options);
}

std::shared_ptr<const Dataset> Share(Dataset dataset) {
  return std::make_shared<const Dataset>(std::move(dataset));
}

std::string BigEndian(std::initializer_list<uint64_t> numbers) {
  std::string bytes;
  for (const uint64_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(number >> shift));
  }
  return bytes;
}

absl::Status WritePair(const std::string& folder, std::string_view set,
                       std::initializer_list<const Dataset*> parts) {
  int64_t count = 0;
  for (const Dataset* part : parts) count += part->size;
  const Dataset& last = **(parts.end() - 1);
  const std::string stem = base::StrCat(folder, "/", set);
  ASSIGN_OR_RETURN(AtomicFile images, AtomicFile::Create(stem + "-images-idx3-ubyte"));
  ASSIGN_OR_RETURN(AtomicFile labels, AtomicFile::Create(stem + "-labels-idx1-ubyte"));
  const auto total = static_cast<uint64_t>(count);
  const auto rows = static_cast<uint64_t>(last.rows);
  const auto columns = static_cast<uint64_t>(last.columns);
  RETURN_IF_ERROR(images.Append(BigEndian({kImagesMagic, total, rows, columns})));
  RETURN_IF_ERROR(labels.Append(BigEndian({kLabelsMagic, total})));
  for (const Dataset* part : parts) {
    RETURN_IF_ERROR(images.Append(part->pixels));
    RETURN_IF_ERROR(labels.Append(part->labels));
  }
  RETURN_IF_ERROR(images.Commit());
  return labels.Commit();
}

}  // namespace

absl::StatusOr<IdxSplit> ReadIdx(ByteSource& images, ByteSource& labels,
                                 const IdxSplitOptions& options) {
  ASSIGN_OR_RETURN(const ImagesHeader header, ReadImagesHeader(images, options.idx));
  ASSIGN_OR_RETURN(const uint64_t label_count, ReadLabelsHeader(labels));
  if (label_count != header.count) {
    return labels.Error(
        4, base::StrCat(header.count, " labels, as many as ", images.name(), " holds images"),
        base::StrCat(label_count));
  }
  const auto size = static_cast<int64_t>(header.count);
  IdxSplit split;
  split.head.size = options.set_validation_aside ? ValidationSize(size) : 0;
  split.rest.size = size - split.head.size;
  for (Dataset* part : {&split.head, &split.rest}) {
    part->rows = static_cast<int64_t>(header.rows);
    part->columns = static_cast<int64_t>(header.columns);
    part->example_size = part->rows * part->columns;
  }
  RETURN_IF_ERROR(ReadPart(images, labels, options.keep_head, options.idx, split.head));
  RETURN_IF_ERROR(ReadPart(images, labels, options.keep_rest, options.idx, split.rest));
  RETURN_IF_ERROR(CheckEnd(images));
  RETURN_IF_ERROR(CheckEnd(labels));
  return split;
}

bool IsIdxFolder(const std::string& folder) {
  for (const std::string_view set : {"train", "t10k"}) {
    for (const std::string_view kind : {"images", "labels"}) {
      if (!Find(folder, set, kind).empty()) return true;
    }
  }
  return false;
}

absl::StatusOr<Datasets> LoadIdxFolder(const std::string& folder, const DatasetParts& parts,
                                       const IdxOptions& options) {
  Datasets datasets;
  if (parts.train || parts.validation) {
    ASSIGN_OR_RETURN(IdxSplit split, LoadPair(folder, "train",
                                              {.set_validation_aside = true,
                                               .keep_head = parts.validation,
                                               .keep_rest = parts.train,
                                               .idx = options}));
    if (parts.train) datasets.train = Share(std::move(split.rest));
    if (parts.validation) datasets.validation = Share(std::move(split.head));
  }
  if (parts.test) {
    ASSIGN_OR_RETURN(IdxSplit split, LoadPair(folder, "t10k", {.idx = options}));
    datasets.test = Share(std::move(split.rest));
  }
  return datasets;
}

absl::Status WriteIdxFolder(const std::string& folder, const Datasets& datasets) {
  RETURN_IF_ERROR(MakeFolders(Files::Real(), folder));
  RETURN_IF_ERROR(WritePair(folder, "train", {datasets.validation.get(), datasets.train.get()}));
  return WritePair(folder, "t10k", {datasets.test.get()});
}

}  // namespace trainer
