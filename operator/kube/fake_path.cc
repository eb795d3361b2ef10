#include "operator/kube/fake_path.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kube {
namespace {

std::string Decode(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string VerbOf(const Request& request, const FakeTarget& target) {
  const bool collection = target.call.name.empty();
  if (request.method == "GET") {
    const auto watch = target.query.find("watch");
    if (watch != target.query.end() && watch->second == "true") return "watch";
    return collection ? "list" : "get";
  }
  if (request.method == "POST") return "create";
  if (request.method == "PUT") return target.call.subresource == "status" ? "status" : "update";
  if (request.method == "PATCH") return "patch";
  if (request.method != "DELETE") return "";
  return collection ? "deletecollection" : "delete";
}

}  // namespace

std::optional<FakeTarget> ParseFakeTarget(const Request& request) {
  FakeTarget target;
  const size_t mark = request.path.find('?');
  std::vector<std::string> parts = absl::StrSplit(request.path.substr(0, mark), '/');
  for (std::string& part : parts) part = Decode(part);
  size_t at = 0;  // parts[0] is empty
  if (parts.size() >= 4 && parts[1] == "api") {
    target.call.group_version = parts[2];
    at = 3;
  } else if (parts.size() >= 5 && parts[1] == "apis") {
    target.call.group_version = absl::StrCat(parts[2], "/", parts[3]);
    at = 4;
  } else {
    return std::nullopt;
  }
  if (parts[at] == "namespaces" && parts.size() >= at + 3) {
    target.call.ns = parts[at + 1];
    at += 2;
  }
  target.call.plural = parts[at];
  if (parts.size() > at + 1) target.call.name = parts[at + 1];
  if (parts.size() > at + 2) target.call.subresource = parts[at + 2];
  if (mark != std::string::npos) {
    for (const auto& pair : absl::StrSplit(request.path.substr(mark + 1), '&')) {
      const std::pair<std::string, std::string> field =
          absl::StrSplit(pair, absl::MaxSplits('=', 1));
      target.query[Decode(field.first)] = Decode(field.second);
    }
  }
  target.call.verb = VerbOf(request, target);
  if (target.call.verb.empty() || target.call.plural.empty()) return std::nullopt;
  if (!request.body.empty()) {
    target.call.body = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  }
  return target;
}

std::string QueryText(const std::map<std::string, std::string>& query, const char* key) {
  const auto found = query.find(key);
  return found == query.end() ? "" : found->second;
}

}  // namespace kube
