// EncodeSafetensors: the format of https://github.com/huggingface/safetensors (README, "Format").
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/checkpoint/export.h"

namespace trainer {

std::string EncodeSafetensors(const Checkpoint& checkpoint) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"global_step", std::to_string(checkpoint.global_step)}};
  size_t end = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const size_t begin = end;
    end += tensor.values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  // Names come from a file: bytes that are not UTF-8 are replaced, not thrown over.
  std::string json = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.reserve(sizeof length + json.size() + end);
  bytes += json;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()),
                 tensor.values.size() * sizeof(float));
  }
  return bytes;
}

}  // namespace trainer
