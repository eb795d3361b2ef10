// For tests: whole lives of jobs, step by step, with the fake API server, a kubelet that does as it
// is told and a clock that stands still. The operator can be killed at any of its writes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/event_recorder.h"
#include "operator/executor.h"
#include "operator/job_cache.h"
#include "operator/job_metrics.h"
#include "operator/kube/fake_apiserver.h"
#include "operator/tfjob_controller.h"

namespace tfjob {

// Passes requests on until it dies: from then on nothing goes out.
class MortalTransport : public kube::Transport {
 public:
  explicit MortalTransport(std::shared_ptr<kube::Transport> to) : to_(std::move(to)) {}
  // Dies with its n-th write (not counting events), which the server carries out; its answer
  // arrives or is lost.
  void DieAfterWrite(int n, bool lose_answer) {
    fatal_write_ = n;
    lose_answer_ = lose_answer;
  }
  bool dead() const { return dead_; }
  int writes() const { return writes_; }

  absl::StatusOr<kube::Response> Call(const kube::Request& request, std::stop_token stop) override;
  absl::StatusOr<kube::Response> Stream(const kube::Request& request,
                                        const std::function<bool(std::string_view)>& on_data,
                                        std::stop_token stop) override;

 private:
  const std::shared_ptr<kube::Transport> to_;
  std::atomic<int> writes_ = 0;
  std::atomic<int> fatal_write_ = 0;
  std::atomic<bool> lose_answer_ = false;
  std::atomic<bool> dead_ = false;
};

struct LifeOptions {
  bool compat_v19 = false;
  bool graceful_pods = false;
  bool busy = false;  // as in a burst of jobs
  std::string gang_scheduler;
  std::vector<std::string> task_tls_images;
  ProgressWatch* progress = nullptr;  // outlives the Life
};

class Life {
 public:
  explicit Life(LifeOptions options = {});
  ~Life();

  // A job of namespace ns; `replicas` by type, in the v1 form.
  void Submit(const std::string& name, const std::map<std::string, int>& replicas,
              const Json& spec = Json::object(), const std::string& restart_policy = "ExitCode");
  void StartOperator();
  void StopOperator();

  // Shows the operator what the cluster holds now; `pods` false: that watch lags.
  void Sync(bool pods = true);
  // One pass over each job; the outcomes by key.
  std::map<std::string, runtime::Outcome> Pass();
  // Sync and Pass, moving the clock past waits of at most `patience`, until nothing changes. Starts
  // a new operator when the old one has died.
  void Settle(absl::Duration patience = absl::Seconds(1));

  // The kubelet.
  void SetPod(const std::string& name, const std::string& phase, int exit_code = -1);
  void SetAll(const std::string& phase);
  // The gang scheduler.
  void SetPodGroup(const std::string& name, const std::string& phase);
  // The API server, each until server().SetFaults({}): every creation of this kind fails so; every
  // third call fails with this HTTP code.
  void RefuseCreations(const std::string& plural, const kube::FakeFault& fault);
  void FailEveryThirdCall(int code);

  Json Job(const std::string& name) const;
  std::vector<std::string> Conditions(const std::string& name) const;  // "Created", "Running=False"
  std::vector<std::string> Names(const kube::Resource& resource) const;
  std::vector<std::string> Events() const;  // "reason: message", sent so far, in any order
  // Requests but lists and watches.
  int CallsMade() const;
  double Metric(const std::string& name) const;

  kube::FakeApiServer& server() { return *server_; }
  // What the gang scheduler reads; an empty resource where there is none.
  kube::Resource pod_groups() const;
  base::FakeClock& clock() { return clock_; }
  MortalTransport& transport() { return *transport_; }
  TfJobController& controller() { return *controller_; }
  JobCache& cache() { return *cache_; }

 private:
  void Feed(runtime::WatchSink& sink, const kube::Resource& resource);
  std::vector<int64_t> Versions() const;

  const LifeOptions options_;
  base::FakeClock clock_;
  std::shared_ptr<kube::FakeApiServer> server_;
  std::unique_ptr<runtime::Metrics> metrics_;  // outlives operators, as a scraper's memory does
  JobMetrics job_metrics_;

  // Of one operator.
  std::shared_ptr<MortalTransport> transport_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<JobCache> cache_;
  std::vector<std::unique_ptr<runtime::WatchSink>> sinks_;
  std::unique_ptr<Helpers> helpers_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<EventRecorder> events_;
  std::unique_ptr<TfJobController> controller_;
};

}  // namespace tfjob
