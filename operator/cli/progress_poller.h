// Asks a running task for its progress now and then, over HTTP on loopback, on a thread of its own.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "operator/api/progress.h"
#include "operator/cli/process.h"

namespace tfjob {

// "[#####-----] 500/1000  loss 0.31  12000 examples/s  0:42 left", at most `width` characters.
std::string FormatProgress(const Progress& progress, int width);

// Thread-safe. Asks twice a second while it has a port.
class ProgressPoller {
 public:
  ProgressPoller();
  ~ProgressPoller();
  // Whom to ask from now on; nullopt: nobody.
  void SetPort(std::optional<int> port);
  // Readable when there is something new; Take makes it unreadable again.
  int fd() const { return news_.read_end.get(); }
  // The latest answer; nullopt if there is none (yet, or any more).
  std::optional<Progress> Take();

 private:
  void Run();
  void Publish(std::optional<Progress> progress);

  Pipe news_;
  absl::Mutex mutex_;
  std::optional<int> port_ ABSL_GUARDED_BY(mutex_);
  std::optional<Progress> latest_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tfjob
