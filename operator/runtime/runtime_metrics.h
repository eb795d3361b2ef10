// The metrics of queue, controller, API calls, watchers and leader, under the names that
// controller-runtime gave them, so that dashboards and alerts made for it go on working.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/kube/client.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/watcher.h"
#include "operator/runtime/workqueue.h"

namespace runtime {

// All series exist from the call on, counters at 0. What a call returns is to be kept: as long as
// the queue, the watcher … lives, and not longer; `metrics` outlives all.

// workqueue_{adds_total,retries_total,queue_duration_seconds,work_duration_seconds}{name}.
WorkqueueObserver ObserveWorkqueue(Metrics* metrics, const std::string& name);
// workqueue_{depth,longest_running_processor_seconds,unfinished_work_seconds}{name}, and
// workqueue_oldest_wait_seconds, workqueue_delayed.
[[nodiscard]] std::unique_ptr<Sampler> SampleWorkqueue(Metrics* metrics, const std::string& name,
                                                       const Workqueue* queue);
// controller_runtime_{reconcile_total{controller,result},reconcile_errors_total,
// terminal_reconcile_errors_total,reconcile_time_seconds,active_workers,
// max_concurrent_reconciles}{controller}. Sets on_begin and on_pass; what was there is called, too.
void ObserveController(Metrics* metrics, const std::string& name, ControllerOptions* options);
// rest_client_requests_total{code,method,host}, rest_client_request_duration_seconds{verb,host}
// (without watches, which last for minutes). `server`: its URL.
kube::CallObserver ObserveCalls(Metrics* metrics, const std::string& server);
// leader_election_master_status{name}: 1 while `is_leading` says so.
[[nodiscard]] std::unique_ptr<Sampler> SampleLeader(Metrics* metrics, const std::string& name,
                                                    std::function<bool()> is_leading);
// reflector_{lists_total,watches_total,synced}{name}.
[[nodiscard]] std::unique_ptr<Sampler> SampleWatcher(Metrics* metrics, const std::string& name,
                                                     const Watcher* watcher);

}  // namespace runtime
