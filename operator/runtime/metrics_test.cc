#include "operator/runtime/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "operator/runtime/process_metrics.h"
#include "operator/runtime/runtime_metrics.h"
#include "operator/runtime/test_client.h"

namespace runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Of a watcher that is never started.
class NoSink : public WatchSink {
 public:
  void OnObject(kube::Json&) override {}
  void OnDeleted(const kube::Json&) override {}
  void OnListBegin() override {}
  void OnListEnd() override {}
};

class MetricsTest : public ::testing::Test {
 protected:
  // The value of a series as /metrics shows it, or "none".
  std::string Shown(const std::string& series) {
    const std::string text = absl::StrCat("\n", metrics_->Render());
    const size_t at = text.find(absl::StrCat("\n", series, " "));
    if (at == std::string::npos) return "none";
    const size_t begin = at + series.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  double Number(const std::string& series) {
    const std::string shown = Shown(series);
    return shown == "none" ? -1.0 : std::stod(shown);
  }

  std::unique_ptr<Metrics> metrics_ = Metrics::Create();
};

TEST_F(MetricsTest, RendersEveryKind) {
  Counter* const counter = metrics_->GetCounter("jobs_total", "Jobs.", {{"ns", "a"}});
  EXPECT_EQ(Shown(R"(jobs_total{ns="a"})"), "0");
  counter->Increment();
  counter->Increment(2.0);
  metrics_->GetGauge("depth", "Depth.")->Set(7.0);
  metrics_->GetHistogram("seconds", "Time.", {}, {0.5, 1.0})->Observe(0.75);
  const std::string text = metrics_->Render();
  EXPECT_THAT(text, HasSubstr("# HELP jobs_total Jobs.\n# TYPE jobs_total counter\n"));
  EXPECT_EQ(Shown(R"(jobs_total{ns="a"})"), "3");
  EXPECT_EQ(Shown("depth"), "7");
  EXPECT_EQ(Shown(R"(seconds_bucket{le="0.5"})"), "0");
  EXPECT_EQ(Shown(R"(seconds_bucket{le="1"})"), "1");
  EXPECT_EQ(Shown(R"(seconds_bucket{le="+Inf"})"), "1");
  EXPECT_EQ(Shown("seconds_sum"), "0.75");
}

TEST_F(MetricsTest, TheSameNameAndLabelsAreTheSameSeries) {
  Counter* const one = metrics_->GetCounter("n_total", "N.", {{"a", "1"}});
  EXPECT_EQ(metrics_->GetCounter("n_total", "N.", {{"a", "1"}}), one);
  EXPECT_NE(metrics_->GetCounter("n_total", "N.", {{"a", "2"}}), one);
}

TEST_F(MetricsTest, ARemovedSeriesIsGoneAndMayComeBackAtZero) {
  metrics_->GetGauge("progress", "P.", {{"job", "a"}})->Set(5.0);
  metrics_->GetGauge("progress", "P.", {{"job", "b"}})->Set(6.0);
  metrics_->Remove("progress", {{"job", "a"}});
  metrics_->Remove("progress", {{"job", "never"}});
  EXPECT_EQ(Shown(R"(progress{job="a"})"), "none");
  EXPECT_EQ(Shown(R"(progress{job="b"})"), "6");
  (void)metrics_->GetGauge("progress", "P.", {{"job", "a"}});
  EXPECT_EQ(Shown(R"(progress{job="a"})"), "0");
}

TEST_F(MetricsTest, LabelValuesMayBeAnything) {
  metrics_->GetGauge("g", "G.", {{"path", "a\"b\\c\nd"}})->Set(1.0);
  EXPECT_THAT(metrics_->Render(), HasSubstr(R"(g{path="a\"b\\c\nd"} 1)"));
}

TEST_F(MetricsTest, RaiseToNeverLowers) {
  Counter* const counter = metrics_->GetCounter("n_total", "N.");
  counter->RaiseTo(5.0);
  counter->RaiseTo(3.0);
  EXPECT_EQ(counter->value(), 5.0);
}

TEST_F(MetricsTest, SamplersRunBeforeEachRenderAsLongAsTheyAreKept) {
  Gauge* const gauge = metrics_->GetGauge("g", "G.");
  int samples = 0;
  auto sampler = metrics_->AddSampler([&] { gauge->Set(++samples); });
  EXPECT_EQ(Shown("g"), "1");
  EXPECT_EQ(Shown("g"), "2");
  sampler.reset();
  EXPECT_EQ(Shown("g"), "2");
}

TEST(Buckets, AreExponential) {
  EXPECT_THAT(ExponentialBuckets(1.0, 10.0, 3), ElementsAre(1.0, 10.0, 100.0));
}

TEST_F(MetricsTest, TellsWhatTheProcessUses) {
  const auto sampler = SampleProcess(metrics_.get());
  EXPECT_GT(Number("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(Number("process_virtual_memory_bytes"), Number("process_resident_memory_bytes"));
  EXPECT_GE(Number("process_cpu_seconds_total"), 0.0);
  EXPECT_GE(Number("process_open_fds"), 3.0);
  EXPECT_GE(Number("process_max_fds"), Number("process_open_fds"));
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_NEAR(Number("process_start_time_seconds"), now, 3600.0);
}

TEST(ProcessStat, IsReadWhateverTheProgramIsCalled) {
  const auto stat =
      ParseProcessStat("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 100 20 30 40 5 6 7 8 900 1000 11 12");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->cpu_ticks, 120.0);
  EXPECT_EQ(stat->start_ticks, 900.0);
  EXPECT_EQ(stat->virtual_bytes, 1000.0);
  EXPECT_EQ(stat->resident_pages, 11.0);
  EXPECT_FALSE(ParseProcessStat(""));
  EXPECT_FALSE(ParseProcessStat("7 (a) R 1 2"));
}

TEST_F(MetricsTest, CountsWhatTheQueueDoes) {
  base::FakeClock clock(absl::FromUnixSeconds(1000));
  const auto queue =
      Workqueue::Create({.clock = &clock, .observer = ObserveWorkqueue(metrics_.get(), "jobs")});
  const auto sampler = SampleWorkqueue(metrics_.get(), "jobs", queue.get());
  EXPECT_EQ(Shown(R"(workqueue_adds_total{name="jobs"})"), "0");
  EXPECT_EQ(Shown(R"(workqueue_retries_total{name="jobs"})"), "0");
  queue->Add("a");
  queue->Add("b");
  queue->AddAfter("c", absl::Seconds(9));
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(queue->Get({}), "a");
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(Shown(R"(workqueue_adds_total{name="jobs"})"), "2");
  EXPECT_EQ(Shown(R"(workqueue_retries_total{name="jobs"})"), "1");
  EXPECT_EQ(Shown(R"(workqueue_depth{name="jobs"})"), "1");
  EXPECT_EQ(Shown(R"(workqueue_delayed{name="jobs"})"), "1");
  EXPECT_EQ(Shown(R"(workqueue_oldest_wait_seconds{name="jobs"})"), "5");
  EXPECT_EQ(Shown(R"(workqueue_longest_running_processor_seconds{name="jobs"})"), "3");
  EXPECT_EQ(Shown(R"(workqueue_unfinished_work_seconds{name="jobs"})"), "3");
  EXPECT_EQ(Shown(R"(workqueue_queue_duration_seconds_sum{name="jobs"})"), "2");
  queue->Done("a");
  EXPECT_EQ(Shown(R"(workqueue_work_duration_seconds_sum{name="jobs"})"), "3");
}

TEST_F(MetricsTest, CountsOutcomesAndCallsWhatWasThereBefore) {
  ControllerOptions options;
  int begun = 0;
  int passed = 0;
  options.on_begin = [&] { ++begun; };
  options.on_pass = [&](const Outcome&, absl::Duration) { ++passed; };
  ObserveController(metrics_.get(), "tfjob", &options);
  const auto total = [&](const std::string& result) {
    return Shown("controller_runtime_reconcile_total{controller=\"tfjob\",result=\"" + result +
                 "\"}");
  };
  for (const char* result : {"success", "requeue_after", "requeue", "error"}) {
    EXPECT_EQ(total(result), "0");
  }
  EXPECT_EQ(Shown(R"(controller_runtime_max_concurrent_reconciles{controller="tfjob"})"), "8");
  const absl::Status error = absl::InternalError("x");
  for (const Outcome& outcome : {Outcome::Done(), Outcome::RequeueAfter(absl::Seconds(1)),
                                 Outcome::Retry(error), Outcome::Terminal(error)}) {
    options.on_begin();
    EXPECT_EQ(Shown(R"(controller_runtime_active_workers{controller="tfjob"})"), "1");
    options.on_pass(outcome, absl::Seconds(2));
  }
  EXPECT_EQ(total("success"), "1");
  EXPECT_EQ(total("requeue_after"), "1");
  EXPECT_EQ(total("error"), "2");
  EXPECT_EQ(Shown(R"(controller_runtime_reconcile_errors_total{controller="tfjob"})"), "2");
  EXPECT_EQ(Shown(R"(controller_runtime_terminal_reconcile_errors_total{controller="tfjob"})"),
            "1");
  EXPECT_EQ(Shown(R"(controller_runtime_reconcile_time_seconds_sum{controller="tfjob"})"), "8");
  EXPECT_EQ(Shown(R"(controller_runtime_active_workers{controller="tfjob"})"), "0");
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(passed, 4);
}

TEST_F(MetricsTest, CountsCallsByCodeMethodAndHost) {
  const kube::CallObserver observer = ObserveCalls(metrics_.get(), "https://10.0.0.1:6443/");
  const auto total = [&](const std::string& code, const std::string& method) {
    return Shown("rest_client_requests_total{code=\"" + code +
                 "\",host=\"10.0.0.1:6443\",method=\"" + method + "\"}");
  };
  EXPECT_EQ(total("200", "GET"), "0");
  EXPECT_EQ(total("<error>", "DELETE"), "0");
  observer("get", kube::kPods, 200, absl::Seconds(1));
  observer("watch", kube::kPods, 200, absl::Minutes(5));
  observer("create", kube::kPods, 409, absl::Seconds(1));
  observer("status", kube::kPods, 0, absl::Seconds(1));
  EXPECT_EQ(total("200", "GET"), "2");
  EXPECT_EQ(total("409", "POST"), "1");
  EXPECT_EQ(total("<error>", "PUT"), "1");
  EXPECT_EQ(Shown(R"(rest_client_request_duration_seconds_sum{host="10.0.0.1:6443",verb="GET"})"),
            "1");
}

TEST_F(MetricsTest, ShowsLeaderAndWatcher) {
  bool leads = false;
  const auto leader = SampleLeader(metrics_.get(), "op", [&] { return leads; });
  EXPECT_EQ(Shown(R"(leader_election_master_status{name="op"})"), "0");
  leads = true;
  EXPECT_EQ(Shown(R"(leader_election_master_status{name="op"})"), "1");
  TestClient client;
  NoSink sink;
  const auto watcher = Watcher::Create(&client, {.resource = kube::kPods}, &sink);
  const auto sampler = SampleWatcher(metrics_.get(), "pods", watcher.get());
  EXPECT_EQ(Shown(R"(reflector_lists_total{name="pods"})"), "0");
  EXPECT_EQ(Shown(R"(reflector_watches_total{name="pods"})"), "0");
  EXPECT_EQ(Shown(R"(reflector_synced{name="pods"})"), "0");
}

TEST_F(MetricsTest, MayBeUsedByManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      const std::string own = std::to_string(i);
      for (int n = 0; n < kRounds; ++n) {
        metrics_->GetCounter("shared_total", "S.")->Increment();
        metrics_->GetGauge("own", "O.", {{"thread", own}})->Set(n);
        const auto sampler =
            metrics_->AddSampler([this] { metrics_->GetGauge("sampled", "S.")->Add(1.0); });
        if (n % 50 == 0) (void)metrics_->Render();
        metrics_->Remove("own", {{"thread", own}});
      }
    });
  }
  threads.clear();
  EXPECT_EQ(Number("shared_total"), kThreads * kRounds);
  EXPECT_THAT(metrics_->Render(), Not(HasSubstr("own{")));
}

}  // namespace
}  // namespace runtime
