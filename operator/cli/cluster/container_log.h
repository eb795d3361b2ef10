// The output of one run of one container, from its first line to its last, over broken connections.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "operator/cli/cluster/connection.h"
#include "operator/cli/process.h"

namespace tfjob {

struct ContainerLogOptions {
  std::string pod;
  std::string container;
  bool follow = false;
  bool previous = false;  // the run before the last restart
  std::optional<int64_t> tail_lines;
};

// Blocks; writes whole lines to `out` until the log ends. Returns what kept it from that; OK, too,
// for a container that has not started, or has gone with its pod. A connection that breaks while it
// follows is made again, and no line comes twice.
absl::Status CopyLog(const Cluster& cluster, const ContainerLogOptions& options, const Fd& out,
                     const std::stop_token& stop);

// Takes the timestamps off the lines of a log, and leaves out lines that came before. PURE.
class LogLines {
 public:
  // The lines that `piece` completes, without their timestamps.
  std::string Add(std::string_view piece);
  // What is left of a line without an end.
  std::string Rest();
  // The connection is a new one: what is half a line comes again, and lines up to the newest, too.
  void Reconnect();
  // "2026-01-31T12:00:00Z": of the newest line; "" before the first one.
  std::string Since() const;

 private:
  std::string Take(std::string_view line);

  std::string partial_;
  std::string newest_;   // timestamp
  std::string seen_to_;  // of the connection before
  int seen_ = 0;         // lines with the timestamp newest_
  int skip_ = 0;         // lines with the timestamp seen_to_ that are left to come again
};

}  // namespace tfjob
