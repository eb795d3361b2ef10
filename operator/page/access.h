// Who may see what: the API server is asked with the caller's own token, so that it alone
// authenticates and authorises, and the operator needs no right for it. Knows no page.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/transport.h"

namespace tfjob {

struct AccessOptions {
  base::Clock* clock = base::Clock::Steady();
  absl::Duration timeout = absl::Seconds(5);  // of one call
  // How long an answer counts: so long somebody sees jobs whose right was taken away.
  absl::Duration keep = absl::Seconds(30);
  size_t max_answers = 1024;  // that are kept; the refusals go first
  // Questions about tokens of which nothing good is known, whoever asks them: what a flood of wrong
  // tokens may cost the API server.
  double strangers_per_second = 5;
  double burst = 30;
};

// Keeps digests of tokens, never tokens. Thread-safe.
class Access {
 public:
  // `nobody`: a transport without credentials of its own (kube::WithoutCredentials).
  Access(std::shared_ptr<kube::Transport> nobody, AccessOptions options = {});

  // Whether the token's owner may list the resource in the namespace ("" = in all).
  // kUnauthenticated: the API server does not know the token; kPermissionDenied: it knows whose it
  // is, who may not; kResourceExhausted: too many questions now; else: it cannot be asked.
  // Messages are for the owner. REQUIRES: the token is not empty.
  absl::Status MayList(const std::string& token, const kube::Resource& resource,
                       const std::string& ns);
  // The objects, listed with the token; at most one page. Errors as above.
  absl::StatusOr<kube::Json> List(const std::string& token, const kube::Resource& resource,
                                  const std::string& ns, const kube::ListOptions& options);

  // Calls under way end with kCancelled, and so does every later one.
  void Stop() { stop_.request_stop(); }

 private:
  struct Answer {
    absl::Status status;
    absl::Time end;  // counts until then
  };
  // Digest of the token and what was asked.
  using Question = std::pair<std::string, std::string>;

  absl::StatusOr<kube::Json> Send(const std::string& token, absl::StatusOr<kube::Request> request,
                                  const std::string& what);
  absl::Status Ask(const std::string& token, const kube::Resource& resource, const std::string& ns);
  bool TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(const Question& question, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<kube::Transport> nobody_;
  const AccessOptions options_;
  std::stop_source stop_;
  absl::Mutex mutex_;
  std::map<Question, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  double turns_ ABSL_GUARDED_BY(mutex_);  // that strangers have now
  absl::Time counted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tfjob
