// The key under which TensorFlow's checkpoint index files a slice of a tensor. PURE.
// Facts: tensorflow/core/util/saved_tensor_slice_util.cc (EncodeTensorNameSlice) and the ordered
// code of tensorflow/core/lib/strings/ordered_code.h, in which byte order of keys equals order of
// values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainer {

// One axis of a slice. length -1 = the whole axis (start is then 0).
struct SliceExtent {
  int64_t start = 0;
  int64_t length = -1;
  bool operator==(const SliceExtent&) const = default;
};

std::string EncodeSliceKey(std::string_view tensor, std::span<const SliceExtent> extents);

// The parts of the ordered code, for tests.
void AppendOrderedNumber(uint64_t value, std::string* out);
void AppendOrderedSigned(int64_t value, std::string* out);
void AppendOrderedString(std::string_view value, std::string* out);

}  // namespace trainer
