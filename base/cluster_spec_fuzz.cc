// Fuzzes the TF_CONFIG parser: no crash, and what parses is written and read back unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/cluster_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = base::ParseTfConfig(text); config.ok() && !config->cluster.empty()) {
    const std::string written = base::WriteTfConfig(*config);
    const auto again = base::ParseTfConfig(written);
    if (!again.ok() || base::WriteTfConfig(*again) != written) std::abort();
  }
  (void)base::ParseHostList("--ps_hosts", text);
  return 0;
}
