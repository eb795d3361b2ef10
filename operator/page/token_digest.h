// What stands for a token in memory, so that the token itself need not be kept.
#pragma once

#include <string>
#include <string_view>

namespace tfjob {

// SHA-256, 32 bytes.
std::string TokenDigest(std::string_view token);

}  // namespace tfjob
