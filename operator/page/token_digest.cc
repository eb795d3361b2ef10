#include "operator/page/token_digest.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace tfjob {

std::string TokenDigest(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // Fails only without memory or without the algorithm, which every OpenSSL has.
  if (EVP_Digest(token.data(), token.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace tfjob
