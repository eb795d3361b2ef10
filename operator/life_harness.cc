#include "operator/life_harness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "operator/api/names.h"
#include "operator/pod_groups.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

bool IsOurWrite(const kube::Request& request) {
  return request.method != "GET" && !absl::StrContains(request.path, "/events");
}

}  // namespace

absl::StatusOr<kube::Response> MortalTransport::Call(const kube::Request& request,
                                                     std::stop_token stop) {
  if (dead_) return absl::UnavailableError("the operator is dead");
  const bool fatal = IsOurWrite(request) && ++writes_ == fatal_write_;
  if (fatal) dead_ = true;
  absl::StatusOr<kube::Response> answer = to_->Call(request, std::move(stop));
  if (fatal && lose_answer_) return absl::UnavailableError("the operator died");
  return answer;
}

absl::StatusOr<kube::Response> MortalTransport::Stream(
    const kube::Request& request, const std::function<bool(std::string_view)>& on_data,
    std::stop_token stop) {
  return to_->Stream(request, on_data, std::move(stop));
}

Life::Life(LifeOptions options)
    : options_(options),
      clock_(absl::FromUnixSeconds(1'700'000'000)),
      metrics_(runtime::Metrics::Create()),
      job_metrics_(metrics_.get()) {
  kube::FakeApiServerOptions server;
  server.store.clock = &clock_;
  server.store.graceful_pods = options.graceful_pods;
  server_ = std::make_shared<kube::FakeApiServer>(server);
  StartOperator();
}

Life::~Life() { StopOperator(); }

void Life::Submit(const std::string& name, const std::map<std::string, int>& replicas,
                  const Json& spec, const std::string& restart_policy) {
  Json job = {{"apiVersion", kApiVersion},
              {"kind", kKind},
              {"metadata", {{"name", name}, {"namespace", "ns"}}},
              {"spec", spec}};
  for (const auto& [type, count] : replicas) {
    job["spec"]["tfReplicaSpecs"][type] = {
        {"replicas", count},
        {"restartPolicy", restart_policy},
        {"template", {{"spec", {{"containers", {{{"name", "tensorflow"}, {"image", "i"}}}}}}}}};
  }
  const auto client = kube::Client::Create(server_, {});
  const absl::StatusOr<Json> made = client->Create(kube::kTfJobs, "ns", job);
  if (!made.ok()) std::abort();
}

void Life::StartOperator() {
  StopOperator();
  transport_ = std::make_shared<MortalTransport>(server_);
  kube::ClientOptions client;
  client.wait = [](absl::Duration, std::stop_token) { return true; };
  client_ = kube::Client::Create(transport_, client);
  JobCacheOptions cache;
  cache.clock = &clock_;
  cache.remember_succeeded = !options_.compat_v19;
  cache.on_job_deleted = [this](const std::string& key) {
    job_metrics_.Deleted(key.substr(0, key.find('/')));
  };
  cache_ = std::make_unique<JobCache>(cache);
  sinks_.push_back(cache_->MakeJobSink(""));
  sinks_.push_back(cache_->MakePodSink(""));
  sinks_.push_back(cache_->MakeServiceSink(""));
  if (!options_.gang_scheduler.empty()) sinks_.push_back(cache_->MakePodGroupSink(""));
  helpers_ = std::make_unique<Helpers>(4);
  executor_ = std::make_unique<Executor>(
      client_.get(), cache_.get(), helpers_.get(),
      ExecutorOptions{.single_events = options_.compat_v19, .pod_groups = pod_groups()});
  events_ = EventRecorder::Create(client_.get(), {.clock = &clock_, .instance = "test"});
  TfJobControllerOptions controller;
  controller.clock = &clock_;
  controller.plan.compat_v19 = options_.compat_v19;
  controller.is_busy = [this] { return options_.busy; };
  controller.plan.gang_scheduler = options_.gang_scheduler;
  controller.plan.task_tls_images = options_.task_tls_images;
  controller_ = std::make_unique<TfJobController>(
      TfJobController::Parts{client_.get(), cache_.get(), executor_.get(), events_.get(),
                             &job_metrics_, options_.progress},
      controller);
}

void Life::StopOperator() {
  if (events_ != nullptr) events_->Flush(clock_.Now() + absl::Hours(1));
  controller_.reset();
  events_.reset();
  executor_.reset();
  helpers_.reset();
  sinks_.clear();
  cache_.reset();
}

void Life::Feed(runtime::WatchSink& sink, const kube::Resource& resource) {
  sink.OnListBegin();
  for (Json& object : server_->Objects(resource)) {
    const bool ours =
        resource == kube::kTfJobs ||
        kube::Selected(object, "", absl::StrCat(kLabelOperatorName, "=", kOperatorName));
    if (ours) sink.OnObject(object);
  }
  sink.OnListEnd();
}

void Life::Sync(bool pods) {
  Feed(*sinks_[0], kube::kTfJobs);
  if (pods) Feed(*sinks_[1], kube::kPods);
  Feed(*sinks_[2], kube::kServices);
  if (sinks_.size() > 3) Feed(*sinks_[3], pod_groups());
}

std::map<std::string, runtime::Outcome> Life::Pass() {
  std::map<std::string, runtime::Outcome> outcomes;
  for (const std::string& key : cache_->Keys()) {
    outcomes[key] = controller_->Reconcile(key, {});
  }
  return outcomes;
}

std::vector<int64_t> Life::Versions() const {
  std::vector<int64_t> sums;
  for (const kube::Resource& resource :
       {kube::kTfJobs, kube::kPods, kube::kServices, pod_groups()}) {
    int64_t sum = 0;
    for (const Json& object : server_->Objects(resource)) {
      sum += static_cast<int64_t>(ResourceVersionOf(object)) + 1;
    }
    sums.push_back(sum);
  }
  return sums;
}

void Life::Settle(absl::Duration patience) {
  for (int i = 0; i < 100; ++i) {
    if (transport_->dead()) StartOperator();
    const std::vector<int64_t> before = Versions();
    Sync();
    absl::Duration wait = absl::InfiniteDuration();
    for (const auto& [key, outcome] : Pass()) {
      if (outcome.kind == runtime::Outcome::Kind::kRequeueAfter) {
        wait = std::min(wait, outcome.after);
      }
      if (outcome.kind == runtime::Outcome::Kind::kRetry) wait = absl::ZeroDuration();
    }
    if (!options_.graceful_pods) server_->CollectGarbage();
    if (wait <= patience) {
      clock_.Advance(wait);
    } else if (!transport_->dead() && Versions() == before) {
      break;
    }
  }
  events_->Flush(clock_.Now() + absl::Hours(1));
}

void Life::SetPod(const std::string& name, const std::string& phase, int exit_code) {
  Json status = {{"phase", phase}};
  if (exit_code >= 0) {
    status["containerStatuses"] = Json::array(
        {{{"name", "tensorflow"}, {"state", {{"terminated", {{"exitCode", exit_code}}}}}}});
  }
  server_->SetStatus(kube::kPods, "ns", name, status);
}

void Life::SetAll(const std::string& phase) {
  for (const Json& pod : server_->Objects(kube::kPods, "ns")) {
    const PodPhase now = PodViewOf(pod).phase;
    if (now == PodPhase::kSucceeded || now == PodPhase::kFailed) continue;
    SetPod(NameOf(pod), phase, phase == "Succeeded" ? 0 : -1);
  }
}

void Life::RefuseCreations(const std::string& plural, const kube::FakeFault& fault) {
  server_->SetFaults([plural, fault](const kube::FakeCall& call) {
    return call.verb == "create" && call.plural == plural ? fault : kube::FakeFault();
  });
}

void Life::FailEveryThirdCall(int code) {
  // Shared: the server copies what it asks.
  server_->SetFaults([code, calls = std::make_shared<std::atomic<int>>(0)](const auto& call) {
    kube::FakeFault fault;
    if (call.plural != "events" && ++*calls % 3 == 0 && call.verb != "list") {
      fault.code = code;
      fault.reason = code == 409 ? "Conflict" : "";
    }
    return fault;
  });
}

void Life::SetPodGroup(const std::string& name, const std::string& phase) {
  server_->SetStatus(pod_groups(), "ns", name, {{"phase", phase}});
}

kube::Resource Life::pod_groups() const { return PodGroupsOf(options_.gang_scheduler); }

Json Life::Job(const std::string& name) const {
  return server_->Find(kube::kTfJobs, "ns", name).value_or(Json::object());
}

std::vector<std::string> Life::Conditions(const std::string& name) const {
  std::vector<std::string> out;
  const Json job = Job(name);
  if (!job.contains("status") || !job["status"].contains("conditions")) return out;
  for (const Json& condition : job["status"]["conditions"]) {
    const std::string status = condition["status"];
    out.push_back(condition["type"].get<std::string>() + (status == kTrue ? "" : "=" + status));
  }
  return out;
}

std::vector<std::string> Life::Names(const kube::Resource& resource) const {
  std::vector<std::string> names;
  for (const Json& object : server_->Objects(resource)) names.push_back(NameOf(object));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Life::Events() const {
  std::vector<std::string> out;
  for (const Json& event : server_->Objects(kube::kEvents)) {
    out.push_back(event["reason"].get<std::string>() + ": " + event["message"].get<std::string>());
  }
  return out;
}

int Life::CallsMade() const {
  int made = 0;
  for (const kube::FakeCall& call : server_->Calls()) {
    made += call.verb != "list" && call.verb != "watch";
  }
  return made;
}

double Life::Metric(const std::string& name) const {
  return metrics_
      ->GetCounter(absl::StrCat("training_operator_jobs_", name, "_total"),
                   absl::StrCat("TFJobs ", name),
                   {{"job_namespace", "ns"}, {"framework", "tensorflow"}})
      ->value();
}

}  // namespace tfjob
