// The whole operator as a process would have it, but for the network: leading, working, handing
// over.
#include <gtest/gtest.h>

#include <future>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "operator/api/names.h"
#include "operator/kube/fake_apiserver.h"
#include "operator/operator_process.h"
#include "operator/pod_groups.h"
#include "operator/pod_view.h"

namespace tfjob {
namespace {

constexpr absl::Duration kProcessPatience = absl::Seconds(30);
constexpr char kLease[] = "1ca428e5.training-operator.kubeflow.org";

OperatorOptions Options() {
  return {.metrics_address = "0", .health_address = "0", .leader_namespace = "system"};
}

Json Job(const std::string& name, int workers) {
  return {{"apiVersion", kApiVersion},
          {"kind", kKind},
          {"metadata", {{"name", name}, {"namespace", "ns"}}},
          {"spec",
           {{"tfReplicaSpecs",
             {{"Worker",
               {{"replicas", workers},
                {"template",
                 {{"spec", {{"containers", {{{"name", "tensorflow"}, {"image", "i"}}}}}}}}}}}}}}};
}

// An operator in a thread.
class Running {
 public:
  Running(std::shared_ptr<kube::FakeApiServer> server, const OperatorOptions& options)
      : ended_(std::async(std::launch::async, [server, options, stop = stop_.get_token()] {
          return RunOperator(options, {.transport = server, .server = "fake", .host = "test"},
                             stop);
        })) {}
  ~Running() { stop_.request_stop(); }
  void Stop() { stop_.request_stop(); }
  absl::Status Wait() {
    if (ended_.wait_for(absl::ToChronoSeconds(kProcessPatience)) != std::future_status::ready) {
      return absl::DeadlineExceededError("it goes on");
    }
    return ended_.get();
  }

 private:
  std::stop_source stop_;
  std::future<absl::Status> ended_;
};

// Watches until the server holds so many objects that `wanted` takes.
bool Await(kube::FakeApiServer& server, std::shared_ptr<kube::FakeApiServer> shared,
           const kube::Resource& resource, int count,
           const std::function<bool(const Json&)>& wanted) {
  const auto client = kube::Client::Create(std::move(shared), {});
  const auto enough = [&] {
    int found = 0;
    for (const Json& object : server.Objects(resource)) found += wanted(object);
    return found >= count;
  };
  std::stop_source stop;
  const kube::WatchOptions options{.timeout = kProcessPatience, .idle_timeout = kProcessPatience};
  const absl::StatusOr<kube::ListPage> page = client->List(resource, "", {});
  if (!page.ok()) return false;
  kube::WatchOptions from = options;
  from.resource_version = page->resource_version;
  if (enough()) return true;
  (void)client->Watch(
      resource, "", from, [&](kube::WatchEvent&) { return !enough(); }, stop.get_token());
  return enough();
}

bool IsReleased(const Json& lease) {
  const Json& spec = lease["spec"];
  return !spec.contains("holderIdentity") || spec["holderIdentity"] == "";
}

TEST(Process, LeadsWorksAndHandsOverInTime) {
  const auto server = std::make_shared<kube::FakeApiServer>();
  server->Put(kube::kTfJobs, Job("before", 2));
  Running process(server, Options());
  ASSERT_TRUE(Await(*server, server, kube::kPods, 2, [](const Json&) { return true; }));
  ASSERT_TRUE(server->WaitForWatches("tfjobs", 1, kProcessPatience));
  server->Put(kube::kTfJobs, Job("after", 3));
  ASSERT_TRUE(Await(*server, server, kube::kPods, 5, [](const Json&) { return true; }));
  const std::optional<Json> lease = server->Find(kube::kLeases, "system", kLease);
  ASSERT_TRUE(lease.has_value());
  EXPECT_FALSE(IsReleased(*lease));
  const absl::Time before = absl::Now();
  process.Stop();
  EXPECT_TRUE(process.Wait().ok());
  EXPECT_LT(absl::Now() - before, absl::Seconds(5));
  EXPECT_TRUE(IsReleased(*server->Find(kube::kLeases, "system", kLease)));
  EXPECT_EQ(server->Count("create", "pods"), 5);
}

TEST(Process, InABurstPodsComeBeforeFirstStatuses) {
  constexpr int kJobs = 20;
  const auto server = std::make_shared<kube::FakeApiServer>();
  for (int i = 0; i < kJobs; ++i) server->Put(kube::kTfJobs, Job(absl::StrCat("j", i), 1));
  OperatorOptions options = Options();
  options.threads = 1;
  Running process(server, options);
  ASSERT_TRUE(Await(*server, server, kube::kPods, kJobs, [](const Json&) { return true; }));
  int pods = 0;
  int statuses_before = 0;  // of all pods but the last
  for (const kube::FakeCall& call : server->Calls()) {
    pods += call.verb == "create" && call.plural == "pods";
    statuses_before += call.verb == "status" && pods < kJobs;
  }
  EXPECT_LE(statuses_before, 3);
  process.Stop();
  EXPECT_TRUE(process.Wait().ok());
}

TEST(Process, AStandbyWritesNothingAndTakesOver) {
  const auto server = std::make_shared<kube::FakeApiServer>();
  Running first(server, Options());
  ASSERT_TRUE(Await(*server, server, kube::kLeases, 1, [](const Json&) { return true; }));
  Running second(server, Options());
  ASSERT_TRUE(server->WaitForWatches("pods", 2, kProcessPatience));
  server->Put(kube::kTfJobs, Job("one", 2));
  ASSERT_TRUE(Await(*server, server, kube::kPods, 2, [](const Json&) { return true; }));
  first.Stop();
  EXPECT_TRUE(first.Wait().ok());
  server->Put(kube::kTfJobs, Job("two", 1));
  ASSERT_TRUE(Await(*server, server, kube::kPods, 3, [](const Json&) { return true; }));
  second.Stop();
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_EQ(server->Count("create", "pods"), 3);
  for (const kube::FakeCall& call : server->Calls()) {
    const bool is_child = call.plural == "pods" || call.plural == "services";
    EXPECT_FALSE(is_child && call.code >= 400) << call.verb << " " << call.name;
  }
}

TEST(Process, EndsWhenTheLeaseIsTaken) {
  const auto server = std::make_shared<kube::FakeApiServer>();
  OperatorOptions options = Options();
  options.retry_period = absl::Milliseconds(50);
  options.renew_deadline = absl::Milliseconds(400);
  options.lease_duration = absl::Seconds(1);
  Running process(server, options);
  ASSERT_TRUE(Await(*server, server, kube::kLeases, 1,
                    [](const Json& lease) { return !IsReleased(lease); }));
  server->SetFaults([](const kube::FakeCall& call) {
    kube::FakeFault fault;
    if (call.plural == "leases") fault.code = 503;
    return fault;
  });
  EXPECT_TRUE(absl::IsAborted(process.Wait()));
}

TEST(Process, ServesOnlyTheNamespacesThatItIsGiven) {
  const auto server = std::make_shared<kube::FakeApiServer>();
  OperatorOptions options = Options();
  options.leader_elect = false;
  options.namespaces = {"ns", "other"};
  Json elsewhere = Job("elsewhere", 1);
  elsewhere["metadata"]["namespace"] = "third";
  server->Put(kube::kTfJobs, elsewhere);
  Json other = Job("other", 1);
  other["metadata"]["namespace"] = "other";
  server->Put(kube::kTfJobs, other);
  server->Put(kube::kTfJobs, Job("one", 1));
  Running process(server, options);
  ASSERT_TRUE(Await(*server, server, kube::kPods, 2, [](const Json&) { return true; }));
  process.Stop();
  EXPECT_TRUE(process.Wait().ok());
  EXPECT_EQ(server->Objects(kube::kPods, "third").size(), 0u);
}

TEST(Process, WatchesThePodGroupsOfItsGangScheduler) {
  const auto server = std::make_shared<kube::FakeApiServer>();
  OperatorOptions options = Options();
  options.gang_scheduler = "volcano";
  server->Put(kube::kTfJobs, Job("j", 2));
  Running process(server, options);
  const kube::Resource pod_groups = PodGroupsOf("volcano");
  ASSERT_TRUE(Await(*server, server, pod_groups, 1, [](const Json&) { return true; }));
  EXPECT_TRUE(server->Objects(kube::kPods).empty());
  server->SetStatus(pod_groups, "ns", "j", {{"phase", "Inqueue"}});
  EXPECT_TRUE(Await(*server, server, kube::kPods, 2, [](const Json&) { return true; }));
  process.Stop();
  EXPECT_TRUE(process.Wait().ok());
}

TEST(Process, EndsAtOnceWhereNobodyKnowsPodGroups) {
  for (const char* scheduler : {"volcano", "coscheduler"}) {
    const auto server = std::make_shared<kube::FakeApiServer>();
    server->SetFaults([](const kube::FakeCall& call) {
      kube::FakeFault fault;
      if (call.plural == "podgroups") fault.code = 404;
      return fault;
    });
    OperatorOptions options = Options();
    options.gang_scheduler = scheduler;
    Running process(server, options);
    const absl::Status ended = process.Wait();
    EXPECT_TRUE(absl::IsInvalidArgument(ended)) << ended;
    EXPECT_TRUE(absl::StrContains(ended.message(), scheduler)) << ended;
    EXPECT_TRUE(absl::StrContains(ended.message(), "install ")) << ended;
  }
}

TEST(Process, SaysWhichAddressItCannotHave) {
  OperatorOptions options = Options();
  options.metrics_address = "256.1.1.1:1";
  const auto server = std::make_shared<kube::FakeApiServer>();
  Running process(server, options);
  const absl::Status ended = process.Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(ended)) << ended;
}

}  // namespace
}  // namespace tfjob
