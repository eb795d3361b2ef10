#include "operator/refusal.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tfjob {
namespace {

bool IsOfWebhook(const absl::Status& status) {
  return absl::StrContains(status.message(), "failed calling webhook");
}

}  // namespace

bool MayPass(const absl::Status& error) {
  if (IsOfWebhook(error)) return false;  // 500, but somebody has to repair it
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kNotFound:
      return false;
    default:
      return true;
  }
}

std::string AdviceFor(const absl::Status& error) {
  const std::string text(error.message());
  if (absl::StrContains(text, "exceeded quota")) {
    return "raise the quota or free what others use of it";
  }
  if (absl::StrContains(text, "PriorityClass")) {
    return "create that PriorityClass or correct priorityClassName in the pod template";
  }
  if (IsOfWebhook(error)) return "let whoever keeps that webhook repair it";
  if (absl::StrContains(text, "being terminated")) return "the namespace is being deleted";
  if (absl::StrContains(text, "serviceaccount") && absl::StrContains(text, "not found")) {
    return "create that service account or correct serviceAccountName in the pod template";
  }
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "correct the pod template of the TFJob";
    case absl::StatusCode::kPermissionDenied:
      return "allow it, or change what the TFJob asks for";
    case absl::StatusCode::kNotFound:
      return "create what is missing";
    default:
      return "";
  }
}

std::string ErrorCreating(const absl::Status& error, std::string advice) {
  std::string message = absl::StrCat("Error creating: ", error.message());
  if (advice.empty()) advice = AdviceFor(error);
  if (!advice.empty()) absl::StrAppend(&message, " (to do: ", advice, ")");
  return message;
}

}  // namespace tfjob
