// SHA-256 of bytes that come piece by piece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trainer {

// Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void Update(std::span<const uint8_t> bytes);
  // 64 lower-case hexadecimal digits. Call once, at the end.
  std::string Finish();

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

}  // namespace trainer
