#include "operator/operator_process.h"

#include <malloc.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "operator/api/names.h"
#include "operator/event_recorder.h"
#include "operator/executor.h"
#include "operator/job_cache.h"
#include "operator/job_metrics.h"
#include "operator/page/page_server.h"
#include "operator/page/progress_history.h"
#include "operator/pod_groups.h"
#include "operator/progress_metrics.h"
#include "operator/progress_watch.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/health_server.h"
#include "operator/runtime/leader.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/process_metrics.h"
#include "operator/runtime/runtime_metrics.h"
#include "operator/runtime/watcher.h"
#include "operator/runtime/workqueue.h"
#include "operator/tfjob_controller.h"

namespace tfjob {
namespace {

constexpr char kName[] = "tfjob-controller";
// Together below the 5 s in which an operator is to be gone after SIGTERM.
constexpr absl::Duration kPassGrace = absl::Seconds(3);
constexpr absl::Duration kEventGrace = absl::Milliseconds(500);
// The allocator keeps what a burst of work has used: 2 MiB after one of 1,000 jobs.
constexpr absl::Duration kTrimInterval = absl::Seconds(10);
constexpr int64_t kPassesUntilTrim = 100;
constexpr int kPageSize = 200;  // objects of one list page in memory at once

std::string Identity(const std::string& host) {
  return absl::StrCat(host.empty() ? "trainyard" : host, "_",
                      absl::Hex(base::RandomId(), absl::kZeroPad16));
}

std::string NamespaceOf(const std::string& key) { return key.substr(0, key.find('/')); }

// Owns everything; members end in the reverse order.
class Process {
 public:
  Process(const OperatorOptions& options, const Surroundings& surroundings)
      : options_(options),
        surroundings_(surroundings),
        metrics_(runtime::Metrics::Create()),
        process_sampler_(runtime::SampleProcess(metrics_.get())),
        job_metrics_(metrics_.get()),
        queue_(runtime::Workqueue::Create(
            {.observer = runtime::ObserveWorkqueue(metrics_.get(), kName)})),
        queue_sampler_(runtime::SampleWorkqueue(metrics_.get(), kName, queue_.get())),
        lease_client_(MakeClient(options.renew_deadline / 2, /*guarded=*/false)),
        client_(MakeClient(absl::Seconds(30), /*guarded=*/true)),
        history_(HasPage() ? std::make_unique<ProgressHistory>() : nullptr),
        cache_(CacheOptions()),
        helpers_(options.calls_per_job),
        executor_(client_.get(), &cache_, &helpers_,
                  {.width = options.calls_per_job,
                   .single_events = options.compat_v19,
                   .pod_groups = PodGroupsOf(options.gang_scheduler)}),
        events_(EventRecorder::Create(client_.get(), {.instance = surroundings.host})),
        events_sampler_(metrics_->AddSampler([this] { SampleEvents(); })),
        cache_sampler_(metrics_->AddSampler([this] { SampleCache(); })),
        progress_(MakeProgressWatch()),
        progress_metrics_(metrics_.get(), progress_.get()),
        jobs_({client_.get(), &cache_, &executor_, events_.get(), &job_metrics_, progress_.get()},
              JobOptions()) {}

  absl::Status Run(std::stop_token stop) {
    if (!options_.gang_scheduler.empty()) {
      RETURN_IF_ERROR(CheckPodGroupsServed(*client_, options_.gang_scheduler, Namespaces()[0]));
    }
    MakeController();
    MakeElector();
    MakeWatchers();
    ASSIGN_OR_RETURN(health_, runtime::HealthServer::Start(HealthOptions()));
    if (HasPage()) {
      ASSIGN_OR_RETURN(page_, PageServer::Start({.cache = &cache_,
                                                 .history = history_.get(),
                                                 .nobody = surroundings_.nobody,
                                                 .ready = [this] { return Ready(); }},
                                                {.address = options_.page_address,
                                                 .namespaces = options_.namespaces,
                                                 .plan = JobOptions().plan}));
    }
    for (const auto& watcher : watchers_) watcher->Start();
    const std::jthread keeper([this](std::stop_token token) {
      ReportSync(token);
      KeepSmall(token);
    });
    if (elector_ != nullptr) {
      return elector_->Run([this] { BeginWork(); }, [this] { EndWork(); }, stop);
    }
    BeginWork();
    absl::Notification stopped;
    const std::stop_callback on_stop(stop, [&] { stopped.Notify(); });
    stopped.WaitForNotification();
    EndWork();
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<kube::Client> MakeClient(absl::Duration timeout, bool guarded) {
    kube::ClientOptions options{
        .user_agent = "trainyard-operator",
        .call_timeout = timeout,
        .on_call = runtime::ObserveCalls(metrics_.get(), surroundings_.server)};
    // A renewal that is late is tried anew by the elector, which knows how long it may take.
    if (!guarded) options.max_retries = 0;
    if (guarded && options_.leader_elect) {
      options.may_write = [this] { return elector_ != nullptr && elector_->may_write(); };
    }
    return kube::Client::Create(surroundings_.transport, std::move(options));
  }

  bool HasPage() const { return options_.page_address != "0"; }

  JobCacheOptions CacheOptions() {
    JobCacheOptions out;
    out.remember_succeeded = !options_.compat_v19;
    out.parse.flat_run_policy = !options_.compat_v19;
    if (!options_.compat_v19) out.sidecars = options_.sidecar_containers;
    out.on_change = [this](const std::string& key, runtime::Priority priority) {
      if (leading_) queue_->Add(key, priority);
    };
    out.on_job_deleted = [this](const std::string& key) {
      if (leading_) job_metrics_.Deleted(NamespaceOf(key));
      if (history_ != nullptr) history_->Forget(key);
    };
    if (history_ == nullptr) return out;
    out.on_progress = [this](const std::string& key, const std::string& uid,
                             const ProgressStatus& progress) {
      history_->Note(key, uid, progress);
    };
    return out;
  }

  // Null where everything is to be as in v1.9.
  std::unique_ptr<ProgressWatch> MakeProgressWatch() {
    if (options_.compat_v19) return nullptr;
    return ProgressWatch::Create({.on_news = [this](const std::string& key) {
      // Nobody waits for it: after all that somebody waits for.
      if (leading_) queue_->Add(key, runtime::Priority::kLow);
    }});
  }

  TfJobControllerOptions JobOptions() const {
    TfJobControllerOptions out;
    out.plan.compat_v19 = options_.compat_v19;
    out.plan.cluster_domain = options_.cluster_domain;
    out.plan.default_clean_pod_policy = options_.default_clean_pod_policy;
    out.plan.evaluator_in_cluster = options_.evaluator_in_cluster;
    out.plan.lost_pod_timeout = options_.lost_pod_timeout;
    out.plan.gang_scheduler = options_.gang_scheduler;
    out.plan.task_tls_images = options_.task_tls_images;
    out.plan.legacy_labels = options_.legacy_labels;
    out.plan.retryable_exit_codes = options_.retryable_exit_codes;
    out.counter_delay = options_.status_delay;
    out.is_busy = [this] { return queue_->depth() > options_.threads; };
    return out;
  }

  void MakeController() {
    runtime::ControllerOptions options{
        .threads = options_.threads,
        .reconcile = [this](const std::string& key, std::stop_token stop) {
          ++passes_;
          return jobs_.Reconcile(key, std::move(stop));
        }};
    runtime::ObserveController(metrics_.get(), kName, &options);
    controller_ = runtime::Controller::Create(queue_.get(), std::move(options));
  }

  void MakeElector() {
    if (!options_.leader_elect) return;
    runtime::LeaderOptions leader{.ns = LeaseNamespace(options_, surroundings_),
                                  .name = options_.leader_id,
                                  .identity = Identity(surroundings_.host),
                                  .lease_duration = options_.lease_duration,
                                  .renew_deadline = options_.renew_deadline,
                                  .retry_period = options_.retry_period};
    elector_ = runtime::LeaderElector::Create(lease_client_.get(), leader);
    leader_sampler_ = runtime::SampleLeader(metrics_.get(), options_.leader_id,
                                            [this] { return elector_->may_write(); });
  }

  void Watch(const kube::Resource& resource, const std::string& ns, const std::string& selector,
             std::unique_ptr<runtime::WatchSink> sink) {
    const runtime::WatcherOptions options{
        .resource = resource, .ns = ns, .label_selector = selector, .page_size = kPageSize};
    watchers_.push_back(runtime::Watcher::Create(client_.get(), options, sink.get()));
    const std::string name = ns.empty() ? std::string(resource.plural)
                                        : absl::StrCat(std::string(resource.plural), " in ", ns);
    watcher_names_.push_back(name);
    watcher_samplers_.push_back(
        runtime::SampleWatcher(metrics_.get(), name, watchers_.back().get()));
    sinks_.push_back(std::move(sink));
  }

  // Those to watch; "" is all.
  std::vector<std::string> Namespaces() const {
    return options_.namespaces.empty() ? std::vector<std::string>{""} : options_.namespaces;
  }

  void MakeWatchers() {
    const std::string ours = absl::StrCat(kLabelOperatorName, "=", kOperatorName);
    const kube::Resource pod_groups = PodGroupsOf(options_.gang_scheduler);
    for (const std::string& ns : Namespaces()) {
      Watch(kube::kTfJobs, ns, "", cache_.MakeJobSink(ns));
      Watch(kube::kPods, ns, ours, cache_.MakePodSink(ns));
      Watch(kube::kServices, ns, ours, cache_.MakeServiceSink(ns));
      if (!pod_groups.plural.empty()) {
        Watch(pod_groups, ns, ours, cache_.MakePodGroupSink(ns));
      }
    }
  }

  absl::Status Ready() const {
    std::vector<std::string> waiting;
    for (size_t i = 0; i < watchers_.size(); ++i) {
      if (watchers_[i]->synced()) continue;
      waiting.push_back(absl::StrCat(watcher_names_[i], ": ", watchers_[i]->state()));
    }
    if (waiting.empty()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrJoin(waiting, "; "));
  }

  runtime::HealthServerOptions HealthOptions() {
    return {.metrics_address = options_.metrics_address,
            .probe_address = options_.health_address,
            .ready = [this] { return Ready(); },
            .metrics = [this] { return metrics_->Render(); },
            .debug = {{"jobs", [this] { return jobs_.Debug().dump(2) + "\n"; }},
                      {"watches", [this] { return DebugWatches(); }}}};
  }

  std::string DebugWatches() const {
    std::string out;
    for (size_t i = 0; i < watchers_.size(); ++i) {
      absl::StrAppend(&out, watcher_names_[i], ": ", watchers_[i]->state(), "\n");
    }
    if (elector_ != nullptr) absl::StrAppend(&out, "leader: ", elector_->holder(), "\n");
    return out;
  }

  void ReportSync(std::stop_token stop) {
    if (!cache_.AwaitSynced(absl::InfiniteFuture(), stop)) return;
    malloc_trim(0);  // what the pages of the lists took
    const JobCache::Counts counts = cache_.Count();
    base::LogInfo("in step with the cluster",
                  {{"jobs", counts.jobs}, {"pods", counts.pods}, {"services", counts.services}});
  }

  // Gives memory back after much work, once it is done.
  void KeepSmall(const std::stop_token& stop) {
    int64_t passes_at_trim = 0;
    while (base::PauseFor(kTrimInterval, stop)) {
      const int64_t passes = passes_;
      if (passes - passes_at_trim < kPassesUntilTrim || queue_->depth() > options_.threads)
        continue;
      malloc_trim(0);
      passes_at_trim = passes;
    }
  }

  // Passes begin once all lists are complete: half a picture would make pods that are there.
  void BeginWork() {
    base::LogInfo("leading", {{"lease", options_.leader_elect ? options_.leader_id : "none"}});
    starter_ = std::jthread([this](std::stop_token stop) {
      if (!cache_.AwaitSynced(absl::InfiniteFuture(), stop)) return;
      leading_ = true;
      if (progress_ != nullptr) progress_->Start();
      for (const std::string& key : cache_.Keys()) queue_->Add(key);
      controller_->Start();
    });
  }

  void EndWork() {
    starter_.request_stop();
    if (starter_.joinable()) starter_.join();
    leading_ = false;
    if (progress_ != nullptr) progress_->Stop();
    if (!controller_->Stop(kPassGrace)) base::LogWarning("passes under way were cut short");
    events_->Flush(absl::Now() + kEventGrace);
  }

  void SampleEvents() {
    const EventCounters counters = events_->counters();
    const auto total = [&](const char* result, int64_t value) {
      metrics_->GetCounter("trainyard_events_total", "Events about jobs", {{"result", result}})
          ->RaiseTo(static_cast<double>(value));
    };
    total("sent", counters.sent);
    total("repeated", counters.repeated);
    total("dropped", counters.dropped);
    total("failed", counters.failed);
    metrics_->GetGauge("trainyard_events_queued", "Events that wait to be sent")
        ->Set(events_->queued());
  }

  void SampleCache() {
    const JobCache::Counts counts = cache_.Count();
    metrics_->GetGauge("trainyard_jobs", "TFJobs that are there")->Set(counts.jobs);
    metrics_->GetGauge("trainyard_pods", "Pods of TFJobs that are there")->Set(counts.pods);
    metrics_->GetGauge("trainyard_services", "Services of TFJobs that are there")
        ->Set(counts.services);
  }

  const OperatorOptions options_;
  const Surroundings surroundings_;
  std::unique_ptr<runtime::Metrics> metrics_;
  std::unique_ptr<runtime::Sampler> process_sampler_;
  JobMetrics job_metrics_;
  std::unique_ptr<runtime::Workqueue> queue_;
  std::unique_ptr<runtime::Sampler> queue_sampler_;
  std::unique_ptr<kube::Client> lease_client_;
  std::unique_ptr<runtime::LeaderElector> elector_;  // asked until the last write
  std::unique_ptr<kube::Client> client_;
  std::atomic<bool> leading_ = false;
  std::atomic<int64_t> passes_ = 0;
  std::unique_ptr<ProgressHistory> history_;  // null without a page
  JobCache cache_;
  Helpers helpers_;
  Executor executor_;
  std::unique_ptr<EventRecorder> events_;
  std::unique_ptr<runtime::Sampler> events_sampler_;
  std::unique_ptr<runtime::Sampler> cache_sampler_;
  std::unique_ptr<ProgressWatch> progress_;
  ProgressMetrics progress_metrics_;
  TfJobController jobs_;
  std::unique_ptr<runtime::Controller> controller_;
  std::unique_ptr<runtime::Sampler> leader_sampler_;
  std::vector<std::unique_ptr<runtime::WatchSink>> sinks_;
  std::vector<std::unique_ptr<runtime::Watcher>> watchers_;
  std::vector<std::string> watcher_names_;
  std::vector<std::unique_ptr<runtime::Sampler>> watcher_samplers_;
  std::jthread starter_;
  std::unique_ptr<runtime::HealthServer> health_;
  std::unique_ptr<PageServer> page_;
};

}  // namespace

std::string LeaseNamespace(const OperatorOptions& options, const Surroundings& surroundings) {
  if (!options.leader_namespace.empty()) return options.leader_namespace;
  return surroundings.ns.empty() ? "default" : surroundings.ns;
}

absl::Status RunOperator(const OperatorOptions& options, const Surroundings& surroundings,
                         std::stop_token stop) {
  return Process(options, surroundings).Run(std::move(stop));
}

}  // namespace tfjob
