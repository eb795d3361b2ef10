#include "trainer/data/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace trainer {

struct Sha256::Context {
  EVP_MD_CTX* evp = nullptr;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  context_->evp = EVP_MD_CTX_new();
  // Fails only without memory or without the algorithm, which every OpenSSL has.
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_->evp); }

void Sha256::Update(std::span<const uint8_t> bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_->evp, digest.data(), &size);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : std::span(digest).first(size)) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

}  // namespace trainer
