#include "operator/kube/access_review.h"

#include "base/json_read.h"
#include "operator/kube/request.h"

namespace kube {

Json AccessReview(const Access& access) {
  const Json attributes = {{"verb", access.verb},
                           {"group", std::string(GroupOf(access.resource))},
                           {"resource", std::string(access.resource.plural)},
                           {"subresource", access.subresource},
                           {"namespace", access.ns},
                           {"name", access.name}};
  return {{"apiVersion", std::string(kAccessReviews.group_version)},
          {"kind", "SelfSubjectAccessReview"},
          {"spec", {{"resourceAttributes", attributes}}}};
}

bool IsAllowed(const Json& review) { return base::BoolAt(base::At(review, "status"), "allowed"); }

}  // namespace kube
