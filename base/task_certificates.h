// Makes what the tasks of one job prove to each other that they belong together: a certificate
// authority of the job's own and the one certificate that it ever signs. The authority's key is
// gone when the function returns.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace base {

// PEM. `key` is secret: it must not be logged.
struct TaskCertificates {
  std::string authority;
  std::string certificate;
  std::string key;

  // As tasks find them: contents by file name.
  std::map<std::string, std::string> Files() const;
};

// `owner`: the job's uid, for people who look at the certificate. Valid from an hour before `now`
// (clocks differ) for ten years: a certificate dies with its job.
absl::StatusOr<TaskCertificates> MakeTaskCertificates(const std::string& owner, absl::Time now);

}  // namespace base
