// absl::StrCat that also takes std::string_view: Debian's absl is built with its own string_view
// type.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace base {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

// The arguments one after another: numbers, strings and string views of either kind.
template <typename... Args>
std::string StrCat(const Args&... args) {
  const auto piece = [](const auto& arg) -> decltype(auto) {
    if constexpr (std::is_same_v<std::decay_t<decltype(arg)>, std::string_view>) {
      return AbslView(arg);
    } else {
      return (arg);
    }
  };
  return absl::StrCat(piece(args)...);
}

}  // namespace base
