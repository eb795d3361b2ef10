#include "base/exit_codes.h"

namespace base {

absl::Status UsageError(std::string_view message) {
  return absl::InvalidArgumentError({message.data(), message.size()});
}

absl::Status DataError(std::string_view message) {
  return absl::DataLossError({message.data(), message.size()});
}

absl::Status NumericError(std::string_view message) {
  return absl::OutOfRangeError({message.data(), message.size()});
}

absl::Status ClusterError(std::string_view message) {
  return absl::UnavailableError({message.data(), message.size()});
}

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:
      return kExitData;
    case absl::StatusCode::kOutOfRange:
      return kExitNumeric;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitCluster;
    default:
      return kExitFailure;
  }
}

}  // namespace base
