// Exit codes that the operator's ExitCode restart policy, the trainer and `trainyard run` agree on,
// and the kinds of error behind them.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace base {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;        // anything without a code of its own
inline constexpr int kExitUsage = 2;          // wrong usage or configuration: permanent
inline constexpr int kExitData = 3;           // data or checkpoint unusable: permanent
inline constexpr int kExitNumeric = 4;        // NaN or Inf loss: permanent
inline constexpr int kExitInterrupted = 130;  // SIGINT
inline constexpr int kExitCluster = 138;      // cluster trouble that a restart may cure: retryable
inline constexpr int kExitTerminated = 143;   // SIGTERM

// Errors by what the user can do about them. Each maps to one absl code and one exit code.
absl::Status UsageError(std::string_view message);    // kInvalidArgument → 2
absl::Status DataError(std::string_view message);     // kDataLoss → 3
absl::Status NumericError(std::string_view message);  // kOutOfRange → 4
absl::Status ClusterError(std::string_view message);  // kUnavailable → 138

// The exit code for a status: the four kinds above, DeadlineExceeded and Aborted as cluster
// trouble, OK as 0, everything else as 1.
int ExitCodeFor(const absl::Status& status);

}  // namespace base
