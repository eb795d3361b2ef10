// Credentials that change while the process runs: token files and credential plug-ins.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/kube/config.h"
#include "operator/kube/kubeconfig.h"

namespace kube {

// The text of a file of at most 1 MiB; errors name it.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// A bearer token in a file that somebody else renews. Thread-safe.
class TokenFile {
 public:
  // Reread when it is older than this.
  static constexpr absl::Duration kMaxAge = absl::Seconds(30);

  TokenFile(std::string path, base::Clock* clock) : path_(std::move(path)), clock_(clock) {}

  // The token of now; the one of before while the file cannot be read.
  absl::StatusOr<std::string> Get() ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string path_;
  base::Clock* const clock_;
  absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// What a plug-in prints: an ExecCredential.
struct ExecCredential {
  std::string token;
  KeyPair pair;
  absl::Time expires = absl::InfiniteFuture();
};
// `field` stands at the front of errors (kInvalidArgument).
absl::StatusOr<ExecCredential> ParseExecCredential(const ExecSpec& spec, std::string_view output);

// The value of KUBERNETES_EXEC_INFO.
std::string ExecInfo(const ExecSpec& spec, const KubeContext& context, const std::string& ca_pem);

// Runs a plug-in when its credential is missing, refused or about to expire. Thread-safe: callers
// that come while it runs wait for it.
class ExecPlugin {
 public:
  static constexpr absl::Duration kTimeout = absl::Seconds(60);
  static constexpr absl::Duration kEarly = absl::Seconds(10);        // before the expiry
  static constexpr absl::Duration kFailurePause = absl::Seconds(5);  // before it runs again

  ExecPlugin(ExecSpec spec, std::string exec_info, base::Clock* clock,
             absl::Duration timeout = kTimeout)
      : spec_(std::move(spec)),
        exec_info_(std::move(exec_info)),
        clock_(clock),
        timeout_(timeout) {}

  absl::StatusOr<ExecCredential> Get() ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<ExecCredential> Run() const;

  const ExecSpec spec_;
  const std::string exec_info_;
  base::Clock* const clock_;
  const absl::Duration timeout_;
  absl::Mutex mutex_;  // held while the plug-in runs: nobody has anything to do without it
  absl::StatusOr<ExecCredential> last_ ABSL_GUARDED_BY(mutex_) =
      absl::UnknownError("has not run yet");
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace kube
