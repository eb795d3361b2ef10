#include "trainer/train/wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "trainer/checkpoint/checkpoint.h"

namespace trainer {

std::optional<int64_t> EndedAlready(const std::string& dir, int64_t last_step) {
  if (dir.empty() || last_step == 0) return std::nullopt;
  const auto newest = FindNewestComplete(dir);
  if (!newest.ok() || !*newest || (*newest)->step < last_step) return std::nullopt;
  base::LogInfo("training has ended already", {{"checkpoint", (*newest)->prefix}});
  return (*newest)->step;
}

Waiter::Waiter(absl::Duration timeout, std::stop_token stop)
    : timeout_(timeout),
      stop_(std::move(stop)),
      start_(absl::Now()),
      next_log_(start_ + absl::Seconds(10)),
      pause_(absl::Milliseconds(20)) {}

absl::Status Waiter::StillWaitingFor(const std::vector<std::string>& missing) {
  const absl::Time now = absl::Now();
  const std::string who = absl::StrJoin(missing, ", ");
  if (now - start_ >= timeout_) {
    return base::ClusterError(absl::StrCat("gave up waiting for ", who, " after ",
                                           absl::FormatDuration(timeout_),
                                           " (--wait_timeout sets how long)"));
  }
  if (now >= next_log_) {
    base::LogInfo(
        absl::StrCat("still waiting for ", who, ", ", absl::ToInt64Seconds(now - start_), " s"));
    next_log_ += absl::Seconds(10);
  }
  const absl::Duration pause = std::min(pause_, start_ + timeout_ - now);
  pause_ = std::min(pause_ * 1.5, absl::Milliseconds(500));
  if (!base::PauseFor(pause, stop_))
    return absl::CancelledError(absl::StrCat("stopped while waiting for ", who));
  return absl::OkStatus();
}

}  // namespace trainer
