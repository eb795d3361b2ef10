// One GET /progress over a socket that never blocks: its owner polls it, and closes it when its
// time is over. Connects to an IP address and to nothing else: no names are looked up, no redirect
// is followed.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/api/progress.h"

namespace tfjob {

// Not thread-safe.
class ProgressAsk {
 public:
  ProgressAsk(const std::string& ip, int port);  // begins to connect
  ~ProgressAsk();
  ProgressAsk(const ProgressAsk&) = delete;
  ProgressAsk& operator=(const ProgressAsk&) = delete;

  // For poll(), until it has ended.
  int fd() const { return fd_; }
  short events() const;
  // Goes on as far as it can without waiting. To be called once its events are there.
  void Advance();
  // What came of it; nullopt until it has ended. kUnavailable: not reached, cut; kInvalidArgument:
  // what came is no progress. Messages name no address, so that logs can be thinned by them.
  const std::optional<absl::StatusOr<Progress>>& result() const { return result_; }

 private:
  void Connect(const std::string& ip, int port);
  void Send();
  void Receive();
  void Fail(const char* what, int error);

  int fd_ = -1;
  bool connecting_ = true;
  std::string request_;  // what is still to be sent
  std::string answer_;
  std::optional<absl::StatusOr<Progress>> result_;
};

}  // namespace tfjob
