// Fuzzes what reads foreign bytes here: a kubeconfig, a plug-in's output, the lines of a watch in
// two different cuts, which must give the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "operator/kube/credentials.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/response.h"

namespace {

std::string Events(std::string_view text, size_t piece) {
  kube::WatchSplitter splitter;
  std::string out;
  absl::Status status;
  for (size_t at = 0; at < text.size() && status.ok(); at += piece) {
    status = splitter.Add(text.substr(at, piece), [&](kube::WatchEvent& event) {
      out += event.type + event.object.dump(-1, ' ', false, kube::Json::error_handler_t::replace);
      return true;
    });
  }
  return out + status.ToString();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (Events(text, size == 0 ? 1 : size) != Events(text, 3)) std::abort();
  (void)kube::ReadKubeconfig("fuzz", text, "");
  (void)kube::ParseExecCredential({}, text);
  (void)kube::ParseList(std::string(text));
  (void)kube::StatusOf("fuzz", kube::Response{500, std::string(text), {}});
  return 0;
}
