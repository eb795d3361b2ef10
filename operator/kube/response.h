// Reads the answers of the Kubernetes API: objects, failures, pages of lists, lines of a watch.
// PURE: no I/O, no clock. Knows no resource.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/client.h"
#include "operator/kube/transport.h"

namespace kube {

// The JSON of an answer. metadata.managedFields is dropped as it is read: half of an object's
// bytes, of no use here, and a write without it leaves it as it is. kInternal for what is no JSON.
absl::StatusOr<Json> ParseObject(std::string body);

// OK for 2xx; otherwise as the table in client.h says. `what`: "create pods default/a".
absl::Status StatusOf(std::string_view what, const Response& response);

// As StatusOf, for a Kubernetes Status object (of an ERROR event); its `code` decides.
absl::Status StatusOf(std::string_view what, const Json& status);

// Attaches what RetryAfter() reads.
void SetRetryAfter(absl::Status* status, absl::Duration after);

// kInternal for an answer that is no list.
absl::StatusOr<ListPage> ParseList(std::string body);

// Cuts the pieces of a watch, wherever they are cut, into lines and reads each as an event.
// Not thread-safe.
class WatchSplitter {
 public:
  // Longer lines end the watch: an object of etcd has at most 1.5 MiB.
  static constexpr size_t kMaxLineBytes = 16 << 20;

  // Calls on_event for each event that is complete by now. Returns kCancelled when on_event
  // returned false, the status of an ERROR event (410: kOutOfRange), kInternal for a bad line;
  // after an error it takes nothing more.
  absl::Status Add(std::string_view piece, const std::function<bool(WatchEvent&)>& on_event);

  // True when the stream may end here: nothing of a line is left over.
  bool at_boundary() const { return rest_.empty(); }

 private:
  std::string rest_;  // the line so far
};

}  // namespace kube
