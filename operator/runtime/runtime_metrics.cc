#include "operator/runtime/runtime_metrics.h"

#include <array>
#include <string_view>
#include <utility>

namespace runtime {
namespace {

// From 10 ns to 1000 s.
std::vector<double> QueueBuckets() { return ExponentialBuckets(1e-8, 10.0, 12); }

std::vector<double> ReconcileBuckets() {
  return {0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3,  0.35, 0.4,  0.45, 0.5, 0.6,
          0.7,   0.8,  0.9,   1.0,  1.25, 1.5,  1.75, 2.0,  2.5,  3.0,  3.5,  4.0,  4.5, 5.0,
          6.0,   7.0,  8.0,   9.0,  10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0};
}

std::vector<double> CallBuckets() {
  return {0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0};
}

constexpr char kReconcileTotal[] = "controller_runtime_reconcile_total";
constexpr char kReconcileTotalHelp[] = "Reconciliations by their result.";
constexpr char kRequests[] = "rest_client_requests_total";
constexpr char kRequestsHelp[] = "Requests to the API server by status code, method and host.";
constexpr char kNoAnswer[] = "<error>";  // the code of requests that got no answer

std::string ResultOf(const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
      return "success";
    case Outcome::Kind::kRequeueAfter:
      return "requeue_after";
    case Outcome::Kind::kRetry:
    case Outcome::Kind::kTerminal:
      return "error";
  }
  return "error";
}

std::string MethodOf(std::string_view verb) {
  if (verb == "create") return "POST";
  if (verb == "update" || verb == "status") return "PUT";
  if (verb == "patch") return "PATCH";
  if (verb == "delete" || verb == "deletecollection") return "DELETE";
  return "GET";
}

// "https://10.0.0.1:6443/x" → "10.0.0.1:6443".
std::string HostOf(std::string_view server) {
  if (const size_t scheme = server.find("://"); scheme != std::string_view::npos) {
    server.remove_prefix(scheme + 3);
  }
  return std::string(server.substr(0, server.find('/')));
}

}  // namespace

WorkqueueObserver ObserveWorkqueue(Metrics* metrics, const std::string& name) {
  const Labels labels{{"name", name}};
  Counter* const adds =
      metrics->GetCounter("workqueue_adds_total", "Keys that became due.", labels);
  Counter* const retries =
      metrics->GetCounter("workqueue_retries_total", "Keys put off to a later time.", labels);
  Histogram* const waits = metrics->GetHistogram(
      "workqueue_queue_duration_seconds", "How long keys were due before a worker took them.",
      labels, QueueBuckets());
  Histogram* const works = metrics->GetHistogram(
      "workqueue_work_duration_seconds", "How long workers had keys.", labels, QueueBuckets());
  return {[adds] { adds->Increment(); }, [retries] { retries->Increment(); },
          [waits](absl::Duration waited) { waits->Observe(absl::ToDoubleSeconds(waited)); },
          [works](absl::Duration worked) { works->Observe(absl::ToDoubleSeconds(worked)); }};
}

std::unique_ptr<Sampler> SampleWorkqueue(Metrics* metrics, const std::string& name,
                                         const Workqueue* queue) {
  const Labels labels{{"name", name}};
  Gauge* const depth = metrics->GetGauge("workqueue_depth", "Keys due and not yet taken.", labels);
  Gauge* const delayed = metrics->GetGauge("workqueue_delayed", "Keys due later.", labels);
  Gauge* const oldest = metrics->GetGauge(
      "workqueue_oldest_wait_seconds", "How long the key that is due longest has waited.", labels);
  Gauge* const longest = metrics->GetGauge("workqueue_longest_running_processor_seconds",
                                           "How long the longest running worker has run.", labels);
  Gauge* const unfinished =
      metrics->GetGauge("workqueue_unfinished_work_seconds",
                        "How long all running workers have run, in sum.", labels);
  return metrics->AddSampler([=] {
    depth->Set(queue->depth());
    delayed->Set(queue->delayed());
    oldest->Set(absl::ToDoubleSeconds(queue->oldest_wait()));
    longest->Set(absl::ToDoubleSeconds(queue->longest_running()));
    unfinished->Set(absl::ToDoubleSeconds(queue->unfinished_work()));
  });
}

void ObserveController(Metrics* metrics, const std::string& name, ControllerOptions* options) {
  const Labels labels{{"controller", name}};
  std::map<std::string, Counter*> results;
  for (const char* result : {"success", "requeue_after", "requeue", "error"}) {
    results[result] = metrics->GetCounter(kReconcileTotal, kReconcileTotalHelp,
                                          {{"controller", name}, {"result", result}});
  }
  Counter* const errors = metrics->GetCounter("controller_runtime_reconcile_errors_total",
                                              "Reconciliations that failed.", labels);
  Counter* const terminal =
      metrics->GetCounter("controller_runtime_terminal_reconcile_errors_total",
                          "Reconciliations that failed and are not tried again.", labels);
  Histogram* const times =
      metrics->GetHistogram("controller_runtime_reconcile_time_seconds",
                            "How long reconciliations took.", labels, ReconcileBuckets());
  Gauge* const active = metrics->GetGauge("controller_runtime_active_workers",
                                          "Workers that are reconciling.", labels);
  metrics
      ->GetGauge("controller_runtime_max_concurrent_reconciles",
                 "Workers that may reconcile at a time.", labels)
      ->Set(options->threads);
  options->on_begin = [active, next = std::move(options->on_begin)] {
    active->Add(1.0);
    if (next) next();
  };
  options->on_pass = [=, next = std::move(options->on_pass)](const Outcome& outcome,
                                                             absl::Duration took) {
    active->Add(-1.0);
    const std::string result = ResultOf(outcome);
    results.at(result)->Increment();
    if (result == "error") errors->Increment();
    if (outcome.kind == Outcome::Kind::kTerminal) terminal->Increment();
    times->Observe(absl::ToDoubleSeconds(took));
    if (next) next(outcome, took);
  };
}

kube::CallObserver ObserveCalls(Metrics* metrics, const std::string& server) {
  const std::string host = HostOf(server);
  std::map<std::string, Histogram*> durations;
  for (const char* method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    durations[method] = metrics->GetHistogram("rest_client_request_duration_seconds",
                                              "How long requests to the API server took.",
                                              {{"verb", method}, {"host", host}}, CallBuckets());
    for (const std::string code : {method == std::string("POST") ? "201" : "200", kNoAnswer}) {
      (void)metrics->GetCounter(kRequests, kRequestsHelp,
                                {{"code", code}, {"method", method}, {"host", host}});
    }
  }
  return [=](std::string_view verb, const kube::Resource&, int code, absl::Duration took) {
    const std::string method = MethodOf(verb);
    const std::string answer = code == 0 ? kNoAnswer : std::to_string(code);
    metrics
        ->GetCounter(kRequests, kRequestsHelp,
                     {{"code", answer}, {"method", method}, {"host", host}})
        ->Increment();
    if (verb != "watch") durations.at(method)->Observe(absl::ToDoubleSeconds(took));
  };
}

std::unique_ptr<Sampler> SampleLeader(Metrics* metrics, const std::string& name,
                                      std::function<bool()> is_leading) {
  Gauge* const status =
      metrics->GetGauge("leader_election_master_status",
                        "1 while this process is the leader, 0 while it is not.", {{"name", name}});
  return metrics->AddSampler(
      [status, is_leading = std::move(is_leading)] { status->Set(is_leading() ? 1.0 : 0.0); });
}

std::unique_ptr<Sampler> SampleWatcher(Metrics* metrics, const std::string& name,
                                       const Watcher* watcher) {
  const Labels labels{{"name", name}};
  Counter* const lists =
      metrics->GetCounter("reflector_lists_total", "Complete lists of a resource.", labels);
  Counter* const watches =
      metrics->GetCounter("reflector_watches_total", "Watches of a resource that ended.", labels);
  Gauge* const synced = metrics->GetGauge("reflector_synced", "1 once listed completely.", labels);
  return metrics->AddSampler([=] {
    lists->RaiseTo(static_cast<double>(watcher->lists()));
    watches->RaiseTo(static_cast<double>(watcher->restarts()));
    synced->Set(watcher->synced() ? 1.0 : 0.0);
  });
}

}  // namespace runtime
