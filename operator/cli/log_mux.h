// One stream out of many: lines of all containers with a coloured prefix, whole lines only, each
// also in the container's log file; below them, on a terminal, one line of progress. Never blocks:
// what the terminal does not take is kept, and when that is much, containers are no longer read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "operator/cli/process.h"

namespace tfjob {

// Not thread-safe.
class LogMux {
 public:
  struct Options {
    int output = 1;  // file descriptor, not owned
    bool color = false;
    bool terminal = false;  // whether a progress line may be drawn
    size_t label_width = 0;
  };
  explicit LogMux(const Options& options) : options_(options) {}

  // Reads `source` until its end; lines are labelled and appended to `log_path`. Takes over the
  // descriptor. Error: the log file cannot be opened (the path and why).
  absl::Status Add(Fd source, const std::string& label, const std::string& log_path);
  // The descriptors to poll for reading; empty while too much is waiting to be written.
  std::vector<int> Sources() const;
  // Takes what the source has. False at its end; it is then gone.
  bool ReadFrom(int source);
  // Takes what is left in all sources and forgets them, whether or not they are at their end.
  void Drain();

  // A line of our own.
  void Say(std::string_view text);
  // Replaces the progress line; "" removes it. Without a terminal nothing happens.
  void SetProgress(std::string_view text);

  // Whether something waits to be written.
  bool pending() const { return !buffer_.empty(); }
  // Writes as much as the output takes without blocking.
  void Flush();
  // Writes everything, for at most a second without progress.
  void FlushAll();

 private:
  struct Source {
    Fd fd;
    Fd log;
    std::string prefix;
    std::string partial;  // a line without its end
  };
  void TakeLines(Source& source, std::string_view data);
  void PutLine(std::string_view prefix, std::string_view line);
  void EndSource(Source& source);
  std::string Prefix(const std::string& label, size_t color) const;

  const Options options_;
  std::map<int, Source> sources_;  // by descriptor
  std::map<std::string, size_t> colors_;
  std::string buffer_;
  std::string progress_;
  bool progress_drawn_ = false;
};

}  // namespace tfjob
