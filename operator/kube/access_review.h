// May I? What the sender of a request may do, asked of the API server as a SelfSubjectAccessReview.
// PURE. https://kubernetes.io/docs/reference/access-authn-authz/authorization/
#pragma once

#include <string>

#include "operator/kube/client.h"

namespace kube {

inline constexpr Resource kAccessReviews{"authorization.k8s.io/v1", "selfsubjectaccessreviews"};

struct Access {
  std::string verb;  // "list"
  Resource resource;
  std::string ns;           // empty = all namespaces
  std::string subresource;  // empty = the object itself
  std::string name;         // of the one object that it is about; empty = all
};

// To be created among kAccessReviews, outside of any namespace.
Json AccessReview(const Access& access);

// `review`: as the API server answers the creation.
bool IsAllowed(const Json& review);

}  // namespace kube
