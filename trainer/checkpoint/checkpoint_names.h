// Which file of a checkpoint folder is what, by its name alone. PURE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

inline constexpr std::string_view kCheckpointStem = "model.ckpt-";
inline constexpr std::string_view kCheckpointStateName = "checkpoint";

struct CheckpointFileName {
  enum class Kind { kIndex, kData, kTemporary };
  Kind kind = Kind::kIndex;
  int64_t step = -1;  // -1: a temporary file of `checkpoint` itself
};

// nullopt: a file that is not ours to touch.
std::optional<CheckpointFileName> ParseCheckpointFileName(std::string_view name);

}  // namespace trainer
