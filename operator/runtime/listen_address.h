// Addresses that servers are to listen on, in the forms that Go programs take.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace runtime {

struct ListenAddress {
  std::string host;  // "" = all, of IPv4 and IPv6
  int port = 0;      // 0 = any free one
  bool operator==(const ListenAddress&) const = default;
};
// ":8080", "0.0.0.0:8080", "[::]:8080", "localhost:8080"; nullopt for "0" and "": off.
// kInvalidArgument says what is wrong.
absl::StatusOr<std::optional<ListenAddress>> ParseListenAddress(std::string_view text);
// The same of a flag, which the UsageError names.
absl::StatusOr<std::optional<ListenAddress>> ParseListenFlag(const std::string& flag,
                                                             const std::string& text);

}  // namespace runtime
