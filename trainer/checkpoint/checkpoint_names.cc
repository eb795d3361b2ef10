#include "trainer/checkpoint/checkpoint_names.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "trainer/data/durable_file.h"

namespace trainer {
namespace {

bool AllDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// ".data-00000-of-00002"
bool IsDataSuffix(std::string_view suffix) {
  if (!ConsumePrefix(&suffix, ".data-")) return false;
  const size_t of = suffix.find("-of-");
  return of != std::string_view::npos && AllDigits(suffix.substr(0, of)) &&
         AllDigits(suffix.substr(of + 4));
}

// As we write it: no leading zeros. -1 if it is not that.
int64_t ParseStep(std::string_view text) {
  int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool valid = AllDigits(text) && error == std::errc() && end == text.data() + text.size() &&
                     (text.size() == 1 || text[0] != '0');
  return valid ? step : -1;
}

}  // namespace

std::optional<CheckpointFileName> ParseCheckpointFileName(std::string_view name) {
  using Kind = CheckpointFileName::Kind;
  const size_t mark = name.find(kTemporaryMark);
  const bool temporary = mark != std::string_view::npos;
  const std::string_view final_name = name.substr(0, mark);
  if (final_name == kCheckpointStateName && temporary) {
    return CheckpointFileName{Kind::kTemporary, -1};
  }
  std::string_view rest = final_name;
  if (!ConsumePrefix(&rest, kCheckpointStem)) return std::nullopt;
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  CheckpointFileName result;
  result.step = ParseStep(rest.substr(0, dot));
  if (result.step < 0) return std::nullopt;
  rest.remove_prefix(dot);
  if (rest == ".index") {
    result.kind = Kind::kIndex;
  } else if (IsDataSuffix(rest)) {
    result.kind = Kind::kData;
  } else {
    return std::nullopt;
  }
  if (temporary) result.kind = Kind::kTemporary;
  return result;
}

}  // namespace trainer
