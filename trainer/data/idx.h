// MNIST-format idx files, plain or gzip: reading with every field checked, and writing.
// Format: big-endian magic 0x00000803 (images: count, rows, columns) or 0x00000801 (labels: count),
// then unsigned bytes (yann.lecun.com/exdb/mnist, "the IDX file format").
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/dataset.h"

namespace trainer {

struct IdxOptions {
  int64_t rows = 0, columns = 0;  // the image size wanted; 0: any
  int64_t classes = 10;           // labels must be below
};

// A pair of idx files cut in two: the first `head_size` examples and the rest.
struct IdxSplit {
  Dataset head;
  Dataset rest;
};
struct IdxSplitOptions {
  bool set_validation_aside = false;        // head_size = ValidationSize(examples), else 0
  bool keep_head = true, keep_rest = true;  // what is not kept is checked all the same
  IdxOptions idx;
};

// Reads images and their labels. kDataLoss, with file, offset, expected and found: wrong magic or
// shape, cut short, bytes after the end, a label that is no class, different counts. Memory grows
// with the bytes that are really there, whatever a header claims.
absl::StatusOr<IdxSplit> ReadIdx(ByteSource& images, ByteSource& labels,
                                 const IdxSplitOptions& options);

// True if the folder holds one of the four classic files in one of the accepted spellings.
bool IsIdxFolder(const std::string& folder);

// Loads the parts asked for from a folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte, also
// spelled with a dot before idx, each also with .gz. Parts not asked for are null.
// kDataLoss: a file is missing or unusable.
absl::StatusOr<Datasets> LoadIdxFolder(const std::string& folder, const DatasetParts& parts,
                                       const IdxOptions& options = {});

// Writes the four files, uncompressed, each atomically; validation and train go into one file in
// this order, so that loading gives the same split. REQUIRES: all three parts.
absl::Status WriteIdxFolder(const std::string& folder, const Datasets& datasets);

}  // namespace trainer
