// Takes known text off the ends of a std::string_view.
#pragma once

#include <string_view>

namespace tfjob {

// Removes `prefix` from the front of `text`; false if it is not there.
inline bool ConsumePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

inline bool ConsumeSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace tfjob
