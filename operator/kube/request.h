// Builds the HTTP requests of the Kubernetes API as values: paths, queries, verbs, bodies. PURE: no
// I/O, no clock. https://kubernetes.io/docs/reference/using-api/api-concepts/
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace kube {

// What a request is about, for paths and for messages.
struct ObjectPath {
  Resource resource;
  std::string ns;           // empty = all namespaces, or cluster-scoped
  std::string name;         // empty = the collection
  std::string subresource;  // empty = the object itself
};

// "kubeflow.org"; "" of the core API ("v1").
std::string_view GroupOf(const Resource& resource);

// Everything but letters, digits, "-", ".", "_", "~" becomes %XX: safe in paths and in queries.
std::string PercentEncode(std::string_view text);

// "/api/v1/namespaces/default/pods/a", "/apis/kubeflow.org/v1/tfjobs".
std::string PathOf(const ObjectPath& path);

// "pods default/a", for messages.
std::string Describe(const ObjectPath& path);

// kInvalidArgument where a name is missing or would lead elsewhere ("..", "a/b").
absl::StatusOr<Request> GetRequest(const ObjectPath& path);
absl::StatusOr<Request> CreateRequest(const Resource& resource, const std::string& ns,
                                      const Json& object);
// `object` needs metadata.name. subresource: "" or "status".
absl::StatusOr<Request> ReplaceRequest(const Resource& resource, const std::string& ns,
                                       const Json& object, const std::string& subresource);
// `field_manager` is sent with kApply only, which needs one.
absl::StatusOr<Request> PatchRequest(const ObjectPath& path, PatchType type, const Json& patch,
                                     const std::string& field_manager);
absl::StatusOr<Request> DeleteRequest(const ObjectPath& path, const DeleteOptions& options);
// kInvalidArgument without a namespace or a selector: that would take too much.
absl::StatusOr<Request> DeleteCollectionRequest(const Resource& resource, const std::string& ns,
                                                const std::string& label_selector);
// A continue token goes without resourceVersion, which the server would refuse beside it.
absl::StatusOr<Request> ListRequest(const Resource& resource, const std::string& ns,
                                    const ListOptions& options);
// Request::timeout is the longest silence.
absl::StatusOr<Request> WatchRequest(const Resource& resource, const std::string& ns,
                                     const WatchOptions& options);
// Request::timeout is the longest silence.
absl::StatusOr<Request> LogRequest(const std::string& ns, const std::string& pod,
                                   const LogOptions& options);

}  // namespace kube
