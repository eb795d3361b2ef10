#include "trainer/report/monitor.h"

#include <httplib.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/exit_codes.h"
#include "base/str_cat.h"
#include "trainer/report/progress.h"

namespace trainer {
namespace {

constexpr char kPrefix[] = "trainyard_trainer_";

// All time series of one task. They exist from the start, counters at 0.
class Series {
 public:
  explicit Series(const base::Task& task)
      : labels_({{"job", task.job}, {"task", std::to_string(task.index)}}) {}

  prometheus::Registry registry;

 private:
  prometheus::Gauge& AddGauge(const char* name, const char* help) {
    return prometheus::BuildGauge()
        .Name(std::string(kPrefix) + name)
        .Help(help)
        .Register(registry)
        .Add(labels_);
  }
  prometheus::Counter& AddCounter(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(std::string(kPrefix) + name)
        .Help(help)
        .Register(registry)
        .Add(labels_);
  }
  prometheus::Histogram& AddHistogram(const char* name, const char* help,
                                      const prometheus::Histogram::BucketBoundaries& limits) {
    return prometheus::BuildHistogram()
        .Name(std::string(kPrefix) + name)
        .Help(help)
        .Register(registry)
        .Add(labels_, limits);
  }

  const prometheus::Labels labels_;

 public:
  prometheus::Gauge& global_step = AddGauge("global_step", "Updates applied to the variables.");
  prometheus::Gauge& last_step = AddGauge("last_step", "Where training ends; 0 if not known.");
  prometheus::Gauge& loss = AddGauge("loss", "Loss of this task's last batch.");
  prometheus::Gauge& examples_per_second =
      AddGauge("examples_per_second", "This task's examples a second over the last five seconds.");
  prometheus::Gauge& staleness =
      AddGauge("staleness", "Updates by others between this task's last pull and push.");
  prometheus::Gauge& test_accuracy = AddGauge("accuracy", "Of the last evaluation, 0 to 1.");
  prometheus::Gauge& live_workers = AddGauge("live_workers", "Workers that this ps hears of.");
  prometheus::Gauge& parameter_bytes = AddGauge("parameter_bytes", "Variables on this ps.");
  prometheus::Counter& steps = AddCounter("steps_total", "Steps of this task.");
  prometheus::Counter& examples =
      AddCounter("examples_total", "Examples that this task trained on.");
  prometheus::Counter& pushes = AddCounter("pushes_total", "Gradients that this ps received.");
  prometheus::Counter& stale_dropped =
      AddCounter("stale_dropped_total", "Gradients dropped because they were stale.");
  prometheus::Counter& wire_sent = AddCounter("wire_sent_bytes_total", "Payload sent.");
  prometheus::Counter& wire_received = AddCounter("wire_received_bytes_total", "Payload received.");
  prometheus::Histogram& step_seconds = AddHistogram(
      "step_seconds", "Time of a step.",
      {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
  prometheus::Histogram& checkpoint_seconds =
      AddHistogram("checkpoint_seconds", "Time to write a checkpoint.",
                   {0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300});
};

// Brings a counter up to a total that someone else keeps.
void RaiseTo(int64_t total, prometheus::Counter* counter) {
  const double missing = static_cast<double>(total) - counter->Value();
  if (total >= 0 && missing > 0) counter->Increment(missing);
}

nlohmann::json NumberOrNull(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

class MonitorImpl : public Monitor {
 public:
  explicit MonitorImpl(const MonitorOptions& options) : options_(options), series_(options.task) {
    series_.last_step.Set(static_cast<double>(options.last_step));
    // One thread accepts, one answers; a connection is closed after its answer, so that a client
    // that stays away blocks nobody for longer than the time-outs.
    server_.new_task_queue = [] { return new httplib::ThreadPool(1); };
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(std::chrono::seconds(2));
    server_.set_write_timeout(std::chrono::seconds(2));
    server_.set_payload_max_length(1024);
    // The library's own choice lets two processes share a port, each getting half of the requests.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    AddRoutes();
  }

  ~MonitorImpl() override {
    if (!thread_.joinable()) return;
    // A server cannot be stopped before its loop runs; an answered request proves that it does.
    if (!server_.is_running()) (void)httplib::Client(LoopbackAddress(), port_).Get("/healthz");
    server_.stop();
    thread_.join();
  }

  absl::Status Listen() {
    const bool any_port = options_.port == 0;
    port_ = any_port ? server_.bind_to_any_port(options_.address)
                     : (server_.bind_to_port(options_.address, options_.port) ? options_.port : -1);
    if (port_ <= 0) {
      return base::UsageError(base::StrCat("--metrics_port: cannot listen on ", options_.address,
                                           ":", options_.port,
                                           "; is the port in use? Choose another, or 0 for none"));
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

  void OnStep(const MonitorStep& step) override {
    series_.global_step.Set(static_cast<double>(step.global_step));
    series_.loss.Set(step.loss);
    series_.staleness.Set(static_cast<double>(step.staleness));
    series_.steps.Increment();
    series_.examples.Increment(static_cast<double>(step.examples));
    if (step.dropped) series_.stale_dropped.Increment();
    series_.step_seconds.Observe(step.seconds);
    const absl::Time now = options_.clock->Now();
    absl::MutexLock lock(&mutex_);
    loss_ = step.loss;
    examples_ += step.examples;
    examples_rate_.Add(now, examples_);
    SetGlobalStep(step.global_step, now);
  }

  void OnCheckpoint(absl::Duration took) override {
    series_.checkpoint_seconds.Observe(absl::ToDoubleSeconds(took));
  }

  void OnEvaluation(double accuracy) override { series_.test_accuracy.Set(accuracy); }

  void SetTotals(const MonitorTotals& totals) override {
    const absl::Time now = options_.clock->Now();
    absl::MutexLock lock(&mutex_);
    RaiseTo(totals.pushes, &series_.pushes);
    RaiseTo(totals.stale_dropped, &series_.stale_dropped);
    RaiseTo(totals.wire_bytes_sent, &series_.wire_sent);
    RaiseTo(totals.wire_bytes_received, &series_.wire_received);
    if (totals.live_workers >= 0) {
      series_.live_workers.Set(static_cast<double>(totals.live_workers));
    }
    if (totals.parameter_bytes >= 0) {
      series_.parameter_bytes.Set(static_cast<double>(totals.parameter_bytes));
    }
    if (totals.global_step >= 0) {
      series_.global_step.Set(static_cast<double>(totals.global_step));
      SetGlobalStep(totals.global_step, now);
    }
  }

  void SetSampler(std::function<MonitorTotals()> sampler) override {
    absl::MutexLock lock(&sampler_mutex_);
    sampler_ = std::move(sampler);
  }

 private:
  std::string LoopbackAddress() const {
    return options_.address == "0.0.0.0" ? "127.0.0.1" : options_.address;
  }

  void AddRoutes() {
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(Metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/progress", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(Progress(), "application/json");
    });
    server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
  }

  void Sample() {
    std::function<MonitorTotals()> sampler;
    {
      absl::MutexLock lock(&sampler_mutex_);
      sampler = sampler_;
    }
    if (sampler) SetTotals(sampler());
  }

  std::string Metrics() {
    Sample();
    {
      absl::MutexLock lock(&mutex_);
      series_.examples_per_second.Set(ExamplesPerSecond());
    }
    return prometheus::TextSerializer().Serialize(series_.registry.Collect());
  }

  // A rate is true only as long as samples come: an idle task falls to zero.
  double ExamplesPerSecond() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    examples_rate_.Add(options_.clock->Now(), examples_);
    return examples_rate_.per_second();
  }

  std::string Progress() {
    Sample();
    absl::MutexLock lock(&mutex_);
    nlohmann::json progress;
    progress["job"] = options_.task.job;
    progress["task"] = options_.task.index;
    progress["global_step"] = global_step_;
    progress["last_step"] = options_.last_step;
    progress["loss"] = NumberOrNull(loss_);
    progress["examples_per_sec"] = ExamplesPerSecond();
    progress["eta_seconds"] = NumberOrNull(EtaSeconds());
    progress["updated"] = updated_ ? nlohmann::json(absl::FormatTime(
                                         "%Y-%m-%dT%H:%M:%E3SZ", *updated_, absl::UTCTimeZone()))
                                   : nlohmann::json(nullptr);
    return progress.dump() + "\n";
  }

  std::optional<double> EtaSeconds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.last_step <= 0) return std::nullopt;
    const int64_t left = std::max<int64_t>(0, options_.last_step - global_step_);
    if (left == 0) return 0.0;
    const double rate = step_rate_.per_second();
    if (rate <= 0.0) return std::nullopt;
    return static_cast<double>(left) / rate;
  }

  void SetGlobalStep(int64_t step, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (step != global_step_ || !updated_) updated_ = now;
    global_step_ = step;
    step_rate_.Add(now, step);
  }

  const MonitorOptions options_;
  Series series_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;

  absl::Mutex mutex_;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t examples_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<double> loss_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> updated_ ABSL_GUARDED_BY(mutex_);
  RateMeter examples_rate_ ABSL_GUARDED_BY(mutex_);
  RateMeter step_rate_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex sampler_mutex_;
  std::function<MonitorTotals()> sampler_ ABSL_GUARDED_BY(sampler_mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const MonitorOptions& options) {
  auto monitor = std::make_unique<MonitorImpl>(options);
  absl::Status status = monitor->Listen();
  if (!status.ok()) return status;
  return monitor;
}

}  // namespace trainer
