// A toy cluster under chaos: pods fail, succeed, are evicted and deleted; the caches of pods and
// services lag; the operator crashes between any two writes. Whatever happens, the invariants hold,
// and once the chaos ends the job settles. 100,000 histories, each given again by its seed.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "base/json_read.h"
#include "operator/api/claims.h"
#include "operator/api/success_policy.h"
#include "operator/reconcile/failures.h"
#include "operator/reconcile/pods.h"
#include "operator/reconcile/random_job.h"
#include "operator/reconcile/restart.h"

namespace tfjob {
namespace {

constexpr int kMaxChaosTicks = 40;
constexpr int kMaxCalmTicks = 300;
constexpr char kDecoyUid[] = "decoy-uid";

class Simulator {
 public:
  Simulator(const JobBuilder& builder, uint32_t seed, bool in_gangs)
      : random_(seed), options_{.gang_scheduler = in_gangs ? kVolcano : ""} {
    ChangeFlags();
    truth_.job = builder.job;
    truth_.now = absl::FromUnixSeconds(1'000'000);
    truth_.pods.push_back({.name = "other-worker-0",
                           .uid = kDecoyUid,
                           .owner_uid = "other",
                           .type = "worker",
                           .index = 0,
                           .phase = PodPhase::kFailed});
    truth_.services.push_back({.name = "other-worker-0",
                               .uid = kDecoyUid,
                               .owner_uid = "other",
                               .type = "worker",
                               .index = 0});
    cache_ = truth_;
  }

  void RunChaos() {
    const int ticks = 5 + Pick(kMaxChaosTicks - 5);
    for (int tick = 0; tick < ticks; ++tick) {
      truth_.now += absl::Seconds(Chance(0.05) ? 40 : 1);
      for (PodView& pod : truth_.pods) Disturb(pod);
      if (Chance(0.3)) MakeStep();
      if (Chance(0.1)) Scale();
      DisturbPodGroup();
      RemoveTerminated(0.5);
      past_.push_back(truth_.pods);
      if (Chance(0.4)) Refresh();
      Reconcile(/*may_crash=*/true);
      Check();
    }
  }

  // Pods start and end well, caches are fresh, nobody crashes.
  void RunCalm() {
    at_rest_ = false;
    for (int tick = 0; tick < kMaxCalmTicks && !at_rest_; ++tick) {
      // Nothing happens while a restart backs off.
      truth_.now += std::max(absl::Seconds(1), requeue_after_);
      for (PodView& pod : truth_.pods) Advance(pod);
      MakeStep();
      for (PodGroupView& group : truth_.pod_groups) group.phase = "Inqueue";
      RemoveTerminated(1);
      Reconcile(/*may_crash=*/false);
      Check();
    }
  }

  void ExpectSettled() {
    EXPECT_TRUE(IsFinished(truth_.job.status)) << ToJson(truth_.job).dump(1);
    cache_ = truth_;
    EXPECT_TRUE(truth_.pod_groups.empty());
    ExpectClean();
    const Plan plan = MakePlan(cache_, options_);
    EXPECT_TRUE(plan.actions.empty());
    EXPECT_EQ(plan.status, truth_.job.status);
  }

 private:
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int Pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void End(PodView& pod, int exit_code) {
    pod.phase = exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
    pod.exit_code = exit_code;
  }

  void Disturb(PodView& pod) {
    if (pod.owner_uid != kTestUid || pod.deletion_time) return;
    const bool is_over = pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
    const bool may_vanish = pod.phase != PodPhase::kSucceeded || IsRecorded(pod);
    if (Chance(0.02) && may_vanish) {
      pod.deletion_time = truth_.now;
    } else if (pod.phase == PodPhase::kPending && Chance(stuck_.contains(pod.uid) ? 0.02 : 0.6)) {
      pod.phase = PodPhase::kRunning;
      pod.ready = Chance(0.5);
    } else if (pod.phase == PodPhase::kRunning && Chance(0.2)) {
      pod.ready = !pod.ready;
    } else if (!is_over && Chance(0.02)) {
      pod.phase = PodPhase::kFailed;
      pod.disrupted = true;
    } else if (pod.phase == PodPhase::kRunning && Chance(0.04)) {
      constexpr int kCodes[] = {0, 137, 143, 138, 0, 137, 143, 1};  // see also RandomRule
      End(pod, pod.type == "ps" ? 137 : kCodes[Pick(8)]);
    }
  }

  void Advance(PodView& pod) {
    if (pod.owner_uid != kTestUid || pod.deletion_time) return;
    if (pod.phase == PodPhase::kPending) {
      pod.phase = PodPhase::kRunning;
    } else if (pod.phase == PodPhase::kRunning && !pod.ready) {
      pod.ready = true;
    } else if (pod.phase == PodPhase::kRunning && pod.type != "ps" && Chance(0.3)) {
      End(pod, 0);
    }
  }

  // Of the training, as its chief tells it.
  void MakeStep() {
    if (!truth_.job.spec.progress) return;
    const int64_t step = truth_.progress ? truth_.progress->global_step + 1 : 0;
    truth_.progress = {.global_step = step, .last_step = 1'000'000};
    stepped_at_ = truth_.now;
  }

  // Somebody changes the number of elastic workers.
  void Scale() {
    ReplicaSpec& workers = truth_.job.spec.replicas->at(kWorker);
    if (!workers.min_replicas) return;
    workers.replicas =
        *workers.min_replicas + Pick(1 + *workers.max_replicas - *workers.min_replicas);
  }

  // Its scheduler admits it, and may send it back; somebody may delete it.
  void DisturbPodGroup() {
    for (PodGroupView& group : truth_.pod_groups) {
      constexpr const char* kPhases[] = {"Pending", "Inqueue", "Running", "Unknown"};
      if (Chance(0.3)) group.phase = kPhases[Pick(4)];
    }
    if (Chance(0.03)) truth_.pod_groups.clear();
  }

  void RemoveTerminated(double p) {
    std::erase_if(truth_.pods, [&](const PodView& pod) { return pod.deletion_time && Chance(p); });
    RemoveUnusedClaims();
  }

  // Each kind of object catches up on its own; the status is always what was last written. Pods may
  // catch up step by step.
  void Refresh() {
    if (Chance(0.7)) SeePods(seen_ + Pick(static_cast<int>(past_.size() - seen_)));
    if (Chance(0.7)) cache_.services = truth_.services;
    if (Chance(0.7)) cache_.pod_groups = truth_.pod_groups;
  }

  void Reconcile(bool may_crash) {
    if (!may_crash) {
      cache_.pods = truth_.pods;
      cache_.services = truth_.services;
      cache_.pod_groups = truth_.pod_groups;
    }
    cache_.job = truth_.job;
    cache_.progress = truth_.progress;
    cache_.now = truth_.now;
    const Plan plan = MakePlan(cache_, options_);
    requeue_after_ = plan.requeue_after.value_or(absl::ZeroDuration());
    at_rest_ =
        IsFinished(truth_.job.status) && plan.actions.empty() && plan.status == truth_.job.status;
    waits_for_claim_ = false;
    for (const Action& action : plan.actions) {
      if (may_crash && Chance(0.05)) return Restart();
      std::visit([this](const auto& a) { Execute(a); }, action);
    }
    if (may_crash && Chance(0.05)) return Restart();
    WriteStatus(plan.status);
    if (may_crash && Chance(0.05)) Restart();
  }

  // Which jobs speak TLS.
  void ChangeFlags() {
    options_.task_tls_images.clear();
    if (Chance(0.5)) options_.task_tls_images = {"i"};
  }

  // A new operator lists everything afresh, and may be shown pods of the past. Its flags may be
  // others, once it is on record that the job has started.
  void Restart() {
    if (truth_.job.status.start_time) ChangeFlags();
    cache_ = truth_;
    past_.push_back(truth_.pods);
    SeePods(Chance(0.5) ? past_.size() - 1 : Pick(static_cast<int>(past_.size())));
  }

  void SeePods(size_t moment) {
    seen_ = moment;
    cache_.pods = past_.at(moment);
  }

  void Execute(const CreatePodGroup& create) {
    EXPECT_FALSE(IsFinished(truth_.job.status));
    EXPECT_FALSE(options_.gang_scheduler.empty());
    if (!truth_.pod_groups.empty()) return;  // AlreadyExists, and it is ours
    truth_.pod_groups.push_back(
        {.name = create.name,
         .uid = NextUid(),
         .owner_uid = kTestUid,
         .spec = {.min_member = create.object["spec"]["minMember"],
                  .queue = create.object["spec"]["queue"].get<std::string>()}});
  }
  void Execute(const UpdatePodGroup& update) { ADD_FAILURE() << update.name << " was right"; }
  void Execute(const DeletePodGroup& gone) {
    EXPECT_TRUE(IsFinished(truth_.job.status));
    std::erase_if(truth_.pod_groups, [&](const PodGroupView& g) { return g.uid == gone.uid; });
  }
  void Execute(const CreateSecret& create) {
    EXPECT_FALSE(IsFinished(truth_.job.status));
    if (secret_.empty()) secret_ = create.name;
    EXPECT_EQ(create.name, secret_) << "a job has one";
  }
  // One that is about to go lets nothing be made that would mount it.
  void Execute(const CreateClaim& create) {
    if (leaving_claims_.contains(create.name)) waits_for_claim_ = true;
    if (!waits_for_claim_) claims_.insert(create.name);
  }
  void Execute(const DeleteClaim& gone) {
    const ReplicaSpec& workers = truth_.job.spec.replicas->at(kWorker);
    EXPECT_EQ(workers.claims_when_scaled, kDelete) << gone.name;
    for (int index = 0; index < *workers.replicas; ++index) {
      EXPECT_NE(gone.name, ClaimName(kRandomClaim, ReplicaName("j", kWorker, index)));
    }
    if (claims_.contains(gone.name)) leaving_claims_.insert(gone.name);
    RemoveUnusedClaims();
  }
  // As pvc-protection does.
  void RemoveUnusedClaims() {
    std::erase_if(leaving_claims_, [&](const std::string& claim) {
      for (const PodView& pod : truth_.pods) {
        if (ClaimName(kRandomClaim, pod.name) == claim) return false;
      }
      claims_.erase(claim);
      return true;
    });
  }
  // Its claims are there, and it listens where all others were told that it does.
  void ExpectNetworkAndClaims(const CreatePod& create) {
    for (const Json& volume : base::ArrayAt(create.object["spec"], "volumes")) {
      const Json& claim = base::At(volume, "persistentVolumeClaim");
      if (claim.is_null()) continue;
      EXPECT_TRUE(claims_.contains(base::StringAt(claim, "claimName"))) << create.name;
    }
    const int port = create.object["spec"]["containers"][0]["ports"][0]["containerPort"];
    for (const Json& variable : create.object["spec"]["containers"][0]["env"]) {
      if (variable["name"] != kTfConfigEnv) continue;
      const Json cluster = Json::parse(variable["value"].get<std::string>())["cluster"];
      for (const auto& [type, addresses] : cluster.items()) {
        if (addresses.is_array()) NoteAddresses(type, addresses);
      }
    }
    if (const auto known = addresses_.find(create.name); known != addresses_.end()) {
      EXPECT_TRUE(absl::EndsWith(known->second, ":" + std::to_string(port))) << known->second;
    }
  }
  void NoteAddresses(const std::string& type, const Json& addresses) {
    const NetworkSpec& network = truth_.job.spec.network;
    // Sparse ones do not tell the index.
    if (truth_.job.spec.enable_dynamic_worker) return;
    for (size_t index = 0; index < addresses.size(); ++index) {
      const std::string address = addresses[index];
      const std::string name = ReplicaName("j", type, static_cast<int>(index));
      EXPECT_EQ(addresses_.emplace(name, address).first->second, address) << "it has moved";
      EXPECT_TRUE(
          absl::StartsWith(address, network.subdomain.empty() ? name + ".ns." : name + ".net.ns."))
          << address;
      if (!network.min_host_port) continue;
      const std::string port = address.substr(address.rfind(':'));
      EXPECT_EQ(ports_.emplace(port, name).first->second, name) << "two have the port " << port;
    }
  }
  void Execute(const CreatePod& create) {
    if (waits_for_claim_) return;
    ExpectNetworkAndClaims(create);
    const bool task_tls = HasTaskTls(create.object);
    EXPECT_TRUE(!task_tls || !secret_.empty()) << create.name << " would wait for its Secret";
    if (!options_.gang_scheduler.empty()) {
      ASSERT_FALSE(cache_.pod_groups.empty());
      EXPECT_NE(cache_.pod_groups[0].phase, "");
      EXPECT_NE(cache_.pod_groups[0].phase, "Pending");
    }
    const std::string type = CanonicalReplicaType(create.type);
    EXPECT_LT(create.index, ReplicaCount(truth_.job.spec, type)) << create.name;
    EXPECT_FALSE(recorded_.contains({create.type, create.index})) << create.name << " runs again";
    ExpectWholeRestart(create.name);
    ExpectOrder(create);
    for (const PodView& pod : truth_.pods) {
      if (pod.name == create.name) return;  // AlreadyExists, and it is ours
    }
    truth_.pods.push_back({.name = create.name,
                           .uid = NextUid(),
                           .owner_uid = kTestUid,
                           .type = create.type,
                           .index = create.index,
                           .creation_time = truth_.now,
                           .task_tls = task_tls});
    if (Chance(0.1)) stuck_.insert(truth_.pods.back().uid);
  }
  // Where types start in order, all before it have started, as far as the operator sees.
  void ExpectOrder(const CreatePod& create) {
    const TfJobSpec& spec = truth_.job.spec;
    if (spec.startup_order != kInOrder || !options_.gang_scheduler.empty()) return;
    for (const auto& [type, replica] : *spec.replicas) {
      if (CreationRank(type) >= CreationRank(CanonicalReplicaType(create.type))) continue;
      for (int index = 0; index < *replica.replicas; ++index) {
        EXPECT_TRUE(HasStarted(LowerReplicaType(type), index))
            << create.name << " came before " << type << " " << index;
      }
    }
  }
  bool HasStarted(const std::string& type, int index) const {
    if (recorded_.contains({type, index})) return true;
    return std::any_of(cache_.pods.begin(), cache_.pods.end(), [&](const PodView& pod) {
      if (pod.owner_uid != kTestUid || pod.type != type || pod.index != index) return false;
      const bool is_over = pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
      return is_over || (pod.phase == PodPhase::kRunning && pod.ready && !pod.deletion_time);
    });
  }
  // Where the job restarts as a whole, no new pod meets one of before, as far as the operator sees.
  void ExpectWholeRestart(const std::string& name) {
    if (!MayRestartJob(truth_.job)) return;
    for (const PodView& pod : cache_.pods) {
      if (pod.phase == PodPhase::kSucceeded || IsRecorded(pod)) continue;
      EXPECT_FALSE(IsCharged(truth_.job.status, pod)) << name << " beside " << pod.name;
    }
  }
  // A rule says that the restart of this pod, failed or Pending for too long, does not count.
  bool IsFree(const PodView& pod) const {
    const FailureRule* rule = RuleFor(truth_.job, CanonicalReplicaType(pod.type), pod, truth_.now);
    return rule == nullptr ? pod.disrupted : rule->action == kIgnore || !rule->counts;
  }
  void Execute(const CreateService& create) {
    if (waits_for_claim_) return;
    EXPECT_EQ(create.index < 0, !truth_.job.spec.network.subdomain.empty()) << create.name;
    for (const ServiceView& service : truth_.services) {
      if (service.name == create.name) return;
    }
    truth_.services.push_back({.name = create.name,
                               .uid = NextUid(),
                               .owner_uid = kTestUid,
                               .type = create.type,
                               .index = create.index});
  }
  void Execute(const DeletePod& gone) {
    EXPECT_NE(gone.uid, kDecoyUid);
    for (PodView& pod : truth_.pods) {
      if (pod.uid != gone.uid || pod.deletion_time) continue;
      pod.deletion_time = truth_.now;
      if (IsFinished(truth_.job.status) || IsSurplus(pod)) continue;
      const bool is_charged = IsCharged(truth_.job.status, pod);
      const bool was_pending = SeenPendingForFree(pod);
      const bool is_restart = pod.phase == PodPhase::kFailed && !IsFree(pod) && !was_pending;
      EXPECT_TRUE(!is_restart || is_charged) << pod.name << " was not put on record";
      EXPECT_TRUE(pod.phase == PodPhase::kFailed || is_charged || was_pending)
          << pod.name << " is well";
      if (is_restart && !MayRestartJob(truth_.job)) ++replaced_;
    }
  }
  // The job was scaled down meanwhile.
  bool IsSurplus(const PodView& pod) const {
    return pod.index >= ReplicaCount(truth_.job.spec, CanonicalReplicaType(pod.type));
  }
  // As far as the operator sees, it has been Pending for too long by a rule that does not count.
  bool SeenPendingForFree(const PodView& pod) const {
    return std::any_of(cache_.pods.begin(), cache_.pods.end(), [&](const PodView& seen) {
      if (seen.uid != pod.uid || seen.phase != PodPhase::kPending) return false;
      const FailureRule* rule =
          RuleFor(truth_.job, CanonicalReplicaType(seen.type), seen, truth_.now);
      return rule != nullptr && !rule->counts;
    });
  }
  void Execute(const DeleteService& gone) {
    EXPECT_NE(gone.uid, kDecoyUid);
    std::erase_if(truth_.services, [&](const ServiceView& s) { return s.uid == gone.uid; });
  }
  void Execute(const AdoptService& adopt) { ADD_FAILURE() << adopt.name << " has an owner"; }
  void Execute(const DeleteJob&) { ADD_FAILURE() << "no TTL was set"; }

  void WriteStatus(const TfJobStatus& status) {
    const TfJobStatus& before = truth_.job.status;
    for (const char* final_type : {kSucceeded, kFailed}) {
      if (!IsFinished(before)) continue;
      EXPECT_EQ(HasCondition(before, final_type), HasCondition(status, final_type));
    }
    for (const auto& [type, replica] : before.replica_statuses) {
      EXPECT_GE(status.replica_statuses.at(type).restarts, replica.restarts);
    }
    for (const std::string& uid : status.charged_pods) {
      if (!IsCharged(before, {.uid = uid})) {
        EXPECT_TRUE(charged_.insert(uid).second) << uid << " is charged again";
      }
    }
    if (!IsFinished(before)) ExpectElastic(status);
    if (!IsFinished(before)) ExpectRules(status);
    if (TellsOfStall(status) && !TellsOfStall(before)) {
      EXPECT_GE(truth_.now - stepped_at_, absl::Seconds(kRandomStallSeconds));
    }
    truth_.job.status = status;
    for (const auto& [type, replica] : status.replica_statuses) {
      for (const int index : replica.succeeded_indexes) {
        recorded_.insert({LowerReplicaType(type), index});
      }
    }
  }

  static bool TellsOfStall(const TfJobStatus& status) {
    return absl::StrContains(MessageOf(status, kRestarting), "made no step") ||
           absl::StrContains(MessageOf(status, kFailed), "made no step");
  }

  // Elastic workers fail the job only where too few are left, or none is left to wait for.
  void ExpectElastic(const TfJobStatus& status) {
    const ReplicaSpec& workers = truth_.job.spec.replicas->at(kWorker);
    if (!workers.min_replicas || !HasCondition(status, kFailed)) return;
    if (!absl::StrContains(MessageOf(status, kFailed), "Worker replica(s) failed")) return;
    const ReplicaStatus& counts = status.replica_statuses.at(kWorker);
    EXPECT_TRUE(*workers.replicas - counts.failed < *workers.min_replicas ||
                counts.failed + counts.succeeded >= *workers.replicas)
        << counts.failed << " of " << *workers.replicas << " failed";
  }

  // Where there are rules, one of them holds, or nothing is left that could succeed.
  void ExpectRules(const TfJobStatus& status) {
    const TfJobSpec& spec = truth_.job.spec;
    if (spec.run_policy.success_rules.empty() || !HasCondition(status, kSucceeded)) return;
    bool all = true;
    std::map<std::string, std::set<int>> succeeded;
    for (const auto& [type, replica] : *spec.replicas) {
      for (const int index : status.replica_statuses.at(type).succeeded_indexes) {
        if (index < *replica.replicas) succeeded[type].insert(index);
      }
      all = all && (type == kPs || static_cast<int>(succeeded[type].size()) == *replica.replicas);
    }
    bool one = false;
    for (const SuccessRule& rule : spec.run_policy.success_rules) {
      one = one || std::all_of(rule.types.begin(), rule.types.end(), [&](const std::string& type) {
              return Holds(rule, succeeded[type], ReplicaCount(spec, type));
            });
    }
    EXPECT_TRUE(one || all) << MessageOf(status, kSucceeded);
  }

  // What the policies let stay, and services only of pods that go on.
  void ExpectClean() {
    TfJob job = truth_.job;
    SetDefaults(job);
    std::set<std::string> going_on;
    for (const PodView& pod : truth_.pods) {
      if (pod.owner_uid != kTestUid) continue;
      const std::string& policy = CleanPolicyOf(job.spec, CanonicalReplicaType(pod.type));
      const bool is_over = pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
      EXPECT_TRUE(policy == kCleanNone || (policy == kCleanRunning && is_over)) << pod.name;
      if (!is_over) going_on.insert(pod.name);
    }
    for (const ServiceView& service : truth_.services) {
      if (service.owner_uid != kTestUid) continue;
      EXPECT_TRUE(service.index < 0 ? !going_on.empty() : going_on.contains(service.name))
          << service.name;
    }
  }

  bool IsRecorded(const PodView& pod) const { return recorded_.contains({pod.type, pod.index}); }

  void Check() {
    const TfJobStatus& status = truth_.job.status;
    EXPECT_FALSE(HasCondition(status, kSucceeded) && HasCondition(status, kFailed));
    EXPECT_FALSE(IsFinished(status) && HasCondition(status, kRunning));
    EXPECT_EQ(IsFinished(status), status.completion_time.has_value());
    int restarts = 0;
    for (const auto& [type, replica] : status.replica_statuses) restarts += replica.restarts;
    EXPECT_LE(replaced_, restarts) << "a restart was not put on record";
    EXPECT_LE(restarts, truth_.job.spec.run_policy.backoff_limit.value_or(restarts));
    const std::optional<int32_t> of_workers = truth_.job.spec.replicas->at(kWorker).backoff_limit;
    if (of_workers && status.replica_statuses.contains(kWorker)) {
      EXPECT_LE(status.replica_statuses.at(kWorker).restarts, *of_workers);
    }
    EXPECT_LE(status.failures.size(), kFirstFailures + kLastFailures);
    EXPECT_EQ(truth_.pods.front().uid, kDecoyUid);
    EXPECT_EQ(truth_.services.front().uid, kDecoyUid);
    std::set<std::string> names;
    std::set<bool> task_tls;
    for (const PodView& pod : truth_.pods) {
      EXPECT_TRUE(names.insert(pod.name).second) << pod.name;
      if (pod.owner_uid == kTestUid) task_tls.insert(pod.task_tls);
    }
    EXPECT_LE(task_tls.size(), 1u) << "tasks could not talk to each other";
  }

  std::string NextUid() { return "uid-" + std::to_string(next_uid_++); }

  std::mt19937 random_;
  PlanOptions options_;
  Observed truth_;
  Observed cache_;
  std::vector<std::vector<PodView>> past_;  // the pods at the end of each tick
  size_t seen_ = 0;                         // the moment that the cache of pods shows
  std::set<std::pair<std::string, int>> recorded_;
  std::set<std::string> charged_;
  std::set<std::string> stuck_;  // pods that no node has room for
  absl::Time stepped_at_;        // the training
  std::string secret_;           // that the tasks share, once it has been made
  std::set<std::string> claims_;
  std::set<std::string> leaving_claims_;          // asked to go, and still mounted
  bool waits_for_claim_ = false;                  // this pass
  std::map<std::string, std::string> addresses_;  // as tasks were told, by pod
  std::map<std::string, std::string> ports_;      // the pods that they belong to
  int replaced_ = 0;  // failed pods that the operator deleted in order to replace them
  absl::Duration requeue_after_;
  bool at_rest_ = false;  // the latest pass had nothing to do for a finished job
  int next_uid_ = 0;
};

#ifdef TRAINYARD_SANITIZED
constexpr int kHistories = 500;  // a shard; sanitizers make each one slow
#else
constexpr int kHistories = 10'000;  // a shard
#endif

class Simulation : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Shards, Simulation, ::testing::Range(0, 10));

TEST_P(Simulation, KeepsItsInvariantsUnderChaosAndSettlesAfterwards) {
  for (int i = 0; i < kHistories; ++i) {
    const uint32_t seed = static_cast<uint32_t>(GetParam() * kHistories + i);
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const JobBuilder job = RandomJob(random);
    Simulator simulator(job, seed, /*in_gangs=*/random() % 4 == 0);
    simulator.RunChaos();
    simulator.RunCalm();
    simulator.ExpectSettled();
    if (::testing::Test::HasFailure()) return;  // one seed is enough to look at
  }
}

}  // namespace
}  // namespace tfjob
