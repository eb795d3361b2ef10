#include "operator/kube/request.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "base/str_cat.h"

namespace kube {
namespace {

constexpr std::string_view kJsonType = "application/json";

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// Names that a server or a proxy would read as a part of the path.
bool Misleads(std::string_view segment) {
  return segment == "." || segment == ".." || segment.find('/') != std::string_view::npos ||
         segment.find('\0') != std::string_view::npos;
}

absl::Status CheckPath(const ObjectPath& path, bool needs_name) {
  if (path.resource.group_version.empty() || path.resource.plural.empty()) {
    return absl::InvalidArgumentError("a resource needs a version and a plural name");
  }
  if (needs_name && path.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(path), ": the name is missing"));
  }
  for (const std::string& segment : {path.ns, path.name, path.subresource}) {
    if (Misleads(segment)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(path), ": \"", segment, "\" cannot be part of a path"));
    }
  }
  return absl::OkStatus();
}

// Bodies may hold text that is not UTF-8 (a pod's last words): replaced, as the server would
// refuse.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Request WithBody(std::string method, const ObjectPath& path, std::string_view content_type,
                 const Json& body) {
  Request request;
  request.method = std::move(method);
  request.path = PathOf(path);
  request.content_type = std::string(content_type);
  request.body = Dump(body);
  return request;
}

// Appends key=value pairs after ? and &.
class Query {
 public:
  explicit Query(std::string* path) : path_(path) {}
  void Add(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    *path_ += first_ ? '?' : '&';
    first_ = false;
    *path_ += base::StrCat(key, "=", PercentEncode(value));
  }

 private:
  std::string* path_;
  bool first_ = true;
};

std::string_view ContentType(PatchType type) {
  switch (type) {
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return "";
}

}  // namespace

std::string_view GroupOf(const Resource& resource) {
  const size_t slash = resource.group_version.find('/');
  return slash == std::string_view::npos ? "" : resource.group_version.substr(0, slash);
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (IsUnreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string PathOf(const ObjectPath& path) {
  std::string out = base::StrCat(GroupOf(path.resource).empty() ? "/api/" : "/apis/",
                                 path.resource.group_version);
  if (!path.ns.empty()) absl::StrAppend(&out, "/namespaces/", PercentEncode(path.ns));
  out += base::StrCat("/", path.resource.plural);
  if (!path.name.empty()) absl::StrAppend(&out, "/", PercentEncode(path.name));
  if (!path.subresource.empty()) absl::StrAppend(&out, "/", PercentEncode(path.subresource));
  return out;
}

std::string Describe(const ObjectPath& path) {
  std::string out(path.resource.plural);
  if (!path.subresource.empty()) absl::StrAppend(&out, "/", path.subresource);
  if (path.ns.empty() && path.name.empty()) return out;
  absl::StrAppend(&out, " ", path.ns);
  if (!path.ns.empty() && !path.name.empty()) out += "/";
  return absl::StrCat(out, path.name);
}

absl::StatusOr<Request> GetRequest(const ObjectPath& path) {
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/true));
  Request request;
  request.path = PathOf(path);
  return request;
}

absl::StatusOr<Request> CreateRequest(const Resource& resource, const std::string& ns,
                                      const Json& object) {
  const ObjectPath path{resource, ns, "", ""};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/false));
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(path), ": the object is not a map"));
  }
  return WithBody("POST", path, kJsonType, object);
}

absl::StatusOr<Request> ReplaceRequest(const Resource& resource, const std::string& ns,
                                       const Json& object, const std::string& subresource) {
  const ObjectPath path{resource, ns, base::StringAt(base::At(object, "metadata"), "name"),
                        subresource};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/true));
  return WithBody("PUT", path, kJsonType, object);
}

absl::StatusOr<Request> PatchRequest(const ObjectPath& path, PatchType type, const Json& patch,
                                     const std::string& field_manager) {
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/true));
  Request request = WithBody("PATCH", path, ContentType(type), patch);
  if (type == PatchType::kApply) {
    Query query(&request.path);
    query.Add("fieldManager", field_manager);
    query.Add("force", "true");
  }
  return request;
}

absl::StatusOr<Request> DeleteRequest(const ObjectPath& path, const DeleteOptions& options) {
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/true));
  Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  if (!options.uid.empty()) body["preconditions"] = {{"uid", options.uid}};
  return WithBody("DELETE", path, kJsonType, body);
}

absl::StatusOr<Request> DeleteCollectionRequest(const Resource& resource, const std::string& ns,
                                                const std::string& label_selector) {
  const ObjectPath path{resource, ns, "", ""};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/false));
  if (ns.empty() || label_selector.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("deleting ", std::string(resource.plural),
                                                   " needs a namespace and a label selector"));
  }
  Request request = WithBody(
      "DELETE", path, kJsonType,
      {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Background"}});
  Query query(&request.path);
  query.Add("labelSelector", label_selector);
  return request;
}

absl::StatusOr<Request> ListRequest(const Resource& resource, const std::string& ns,
                                    const ListOptions& options) {
  const ObjectPath path{resource, ns, "", ""};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/false));
  Request request;
  request.path = PathOf(path);
  Query query(&request.path);
  query.Add("labelSelector", options.label_selector);
  query.Add("fieldSelector", options.field_selector);
  if (options.limit > 0) query.Add("limit", absl::StrCat(options.limit));
  if (options.continue_token.empty()) {
    query.Add("resourceVersion", options.resource_version);
  } else {
    query.Add("continue", options.continue_token);
  }
  return request;
}

absl::StatusOr<Request> WatchRequest(const Resource& resource, const std::string& ns,
                                     const WatchOptions& options) {
  const ObjectPath path{resource, ns, "", ""};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/false));
  Request request;
  request.path = PathOf(path);
  Query query(&request.path);
  query.Add("watch", "true");
  query.Add("allowWatchBookmarks", "true");
  query.Add("labelSelector", options.label_selector);
  query.Add("resourceVersion", options.resource_version);
  const double seconds = std::ceil(absl::ToDoubleSeconds(options.timeout));
  query.Add("timeoutSeconds",
            absl::StrCat(static_cast<int64_t>(std::clamp(seconds, 1.0, 86400.0))));
  request.timeout = options.idle_timeout;
  return request;
}

absl::StatusOr<Request> LogRequest(const std::string& ns, const std::string& pod,
                                   const LogOptions& options) {
  const ObjectPath path{kPods, ns, pod, "log"};
  RETURN_IF_ERROR(CheckPath(path, /*needs_name=*/true));
  Request request;
  request.path = PathOf(path);
  Query query(&request.path);
  query.Add("container", options.container);
  if (options.follow) query.Add("follow", "true");
  if (options.previous) query.Add("previous", "true");
  if (options.timestamps) query.Add("timestamps", "true");
  if (options.tail_lines) query.Add("tailLines", absl::StrCat(*options.tail_lines));
  query.Add("sinceTime", options.since_time);
  request.timeout = options.idle_timeout;
  return request;
}

}  // namespace kube
