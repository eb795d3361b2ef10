#include "operator/page/access.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/json_read.h"
#include "base/status_macros.h"
#include "operator/kube/access_review.h"
#include "operator/kube/request.h"
#include "operator/kube/response.h"
#include "operator/page/token_digest.h"

namespace tfjob {
namespace {

constexpr char kUserAgent[] = "trainyard-operator-page";

std::string ScopeOf(const std::string& ns) {
  return ns.empty() ? "in all namespaces" : absl::StrCat("in namespace ", ns);
}

// Whether it will be the same in the next seconds.
bool IsAnswer(const absl::Status& status) {
  return status.ok() || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

}  // namespace

Access::Access(std::shared_ptr<kube::Transport> nobody, AccessOptions options)
    : nobody_(std::move(nobody)),
      options_(std::move(options)),
      turns_(options_.burst),
      counted_(options_.clock->Now()) {}

absl::Status Access::MayList(const std::string& token, const kube::Resource& resource,
                             const std::string& ns) {
  const Question question{TokenDigest(token), absl::StrCat(std::string(resource.plural), "/", ns)};
  {
    absl::MutexLock lock(&mutex_);
    const auto known = answers_.find(question);
    const bool is_known = known != answers_.end();
    if (is_known && options_.clock->Now() < known->second.end) return known->second.status;
    const bool is_friend = is_known && known->second.status.ok();
    if (!is_friend && !TakeTurn()) {
      return absl::ResourceExhaustedError(
          "too many tokens are being tried on this page; try again in a few seconds");
    }
  }
  const absl::Status status = Ask(token, resource, ns);
  Keep(question, status);
  return status;
}

absl::StatusOr<kube::Json> Access::List(const std::string& token, const kube::Resource& resource,
                                        const std::string& ns, const kube::ListOptions& options) {
  ASSIGN_OR_RETURN(const kube::Json list,
                   Send(token, kube::ListRequest(resource, ns, options),
                        absl::StrCat("list ", std::string(resource.plural), " ", ScopeOf(ns))));
  return base::ArrayAt(list, "items");
}

absl::Status Access::Ask(const std::string& token, const kube::Resource& resource,
                         const std::string& ns) {
  const std::string what = absl::StrCat("list ", std::string(resource.plural), " ", ScopeOf(ns));
  const kube::Json question = kube::AccessReview({.verb = "list", .resource = resource, .ns = ns});
  ASSIGN_OR_RETURN(const kube::Json review,
                   Send(token, kube::CreateRequest(kube::kAccessReviews, "", question),
                        absl::StrCat("ask whether this token may ", what)));
  if (kube::IsAllowed(review)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("this token may not ", what));
}

absl::StatusOr<kube::Json> Access::Send(const std::string& token,
                                        absl::StatusOr<kube::Request> request,
                                        const std::string& what) {
  if (!request.ok()) return request.status();
  request->bearer_token = token;
  request->user_agent = kUserAgent;
  request->timeout = options_.timeout;
  ASSIGN_OR_RETURN(kube::Response response, nobody_->Call(*request, stop_.get_token()));
  absl::Status status = kube::StatusOf(what, response);
  if (absl::IsUnauthenticated(status)) {
    return absl::UnauthenticatedError(
        "the API server does not know this token: it is mistyped or has expired");
  }
  RETURN_IF_ERROR(status);
  return kube::ParseObject(std::move(response.body));
}

bool Access::TakeTurn() {
  const absl::Time now = options_.clock->Now();
  turns_ = std::min(options_.burst,
                    turns_ + absl::ToDoubleSeconds(now - counted_) * options_.strangers_per_second);
  counted_ = now;
  if (turns_ < 1) return false;
  turns_ -= 1;
  return true;
}

void Access::Keep(const Question& question, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!IsAnswer(status)) return;
  answers_[question] = {status, options_.clock->Now() + options_.keep};
  if (answers_.size() <= options_.max_answers) return;
  // Those of friends last, as they need no turn when they come back; of equals the oldest first.
  const auto value = [](const auto& entry) {
    return std::make_pair(entry.second.status.ok(), entry.second.end);
  };
  answers_.erase(
      std::min_element(answers_.begin(), answers_.end(),
                       [&](const auto& a, const auto& b) { return value(a) < value(b); }));
}

}  // namespace tfjob
