// For tests: jobs, pods and passes written down in one line each.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/names.h"
#include "operator/api/task_tls.h"
#include "operator/reconcile/gang.h"
#include "operator/reconcile/plan.h"
#include "operator/reconcile/status.h"

namespace tfjob {

inline constexpr char kTestUid[] = "job-uid";

inline Json TestTemplate() {
  return {{"spec", {{"containers", {{{"name", kContainerName}, {"image", "i"}}}}}}};
}

inline TfJob WithDefaults(TfJob job) {
  SetDefaults(job);
  return job;
}

inline constexpr PodPhase kPodPending = PodPhase::kPending;
inline constexpr PodPhase kPodRunning = PodPhase::kRunning;
inline constexpr PodPhase kPodSucceeded = PodPhase::kSucceeded;
inline constexpr PodPhase kPodFailed = PodPhase::kFailed;

// MakeJob("j").Ps(1).Workers(2).Backoff(3).job
struct JobBuilder {
  TfJob job;

  JobBuilder& Replicas(const std::string& type, int count, const std::string& policy = "") {
    (*job.spec.replicas)[type] = {
        .replicas = count, .restart_policy = policy, .pod_template = TestTemplate()};
    return *this;
  }
  JobBuilder& Chief(const std::string& policy = "") { return Replicas(kChief, 1, policy); }
  JobBuilder& Ps(int count, const std::string& policy = "") { return Replicas(kPs, count, policy); }
  JobBuilder& Workers(int count, const std::string& policy = "") {
    return Replicas(kWorker, count, policy);
  }
  JobBuilder& Backoff(int limit) {
    job.spec.run_policy.backoff_limit = limit;
    return *this;
  }
  JobBuilder& Rule(FailureRule rule) {
    job.spec.run_policy.failure_rules.push_back(std::move(rule));
    return *this;
  }
  JobBuilder& Deadline(int seconds) {
    job.spec.run_policy.active_deadline_seconds = seconds;
    return *this;
  }
  JobBuilder& Ttl(int seconds) {
    job.spec.run_policy.ttl_seconds_after_finished = seconds;
    return *this;
  }
  JobBuilder& Clean(const std::string& policy) {
    job.spec.run_policy.clean_pod_policy = policy;
    return *this;
  }
  JobBuilder& AllWorkers() {
    job.spec.success_policy = kSuccessAllWorkers;
    return *this;
  }
  JobBuilder& MinAvailable(int count) {
    SchedulingPolicy policy = job.spec.run_policy.scheduling_policy.value_or(SchedulingPolicy());
    policy.min_available = count;
    job.spec.run_policy.scheduling_policy = policy;
    return *this;
  }
  JobBuilder& Dynamic() {
    job.spec.enable_dynamic_worker = true;
    return *this;
  }
};

inline JobBuilder MakeJob(const std::string& name) {
  JobBuilder builder;
  builder.job.metadata = {.name = name, .namespace_name = "ns", .uid = kTestUid};
  builder.job.spec.replicas.emplace();
  return builder;
}

// One job with its children, and passes over it. Children are set by hand or by applying plans.
struct World {
  explicit World(const JobBuilder& builder, PlanOptions plan_options = {})
      : options(std::move(plan_options)) {
    observed.job = builder.job;
    observed.now = absl::FromUnixSeconds(1'000'000);
  }

  // Adds (or finds) a pod in the given phase, with its service.
  PodView& Pod(const std::string& type, int index, PodPhase phase = PodPhase::kRunning,
               std::optional<int> exit_code = std::nullopt) {
    const std::string name = ReplicaName(observed.job.metadata.name, type, index);
    for (PodView& pod : observed.pods) {
      if (pod.name != name) continue;
      pod.phase = phase;
      pod.exit_code = exit_code;
      return pod;
    }
    const std::string lower = LowerReplicaType(type);
    Service(type, index);
    observed.pods.push_back({.name = name,
                             .uid = NextUid(),
                             .owner_uid = kTestUid,
                             .type = lower,
                             .index = index,
                             .phase = phase,
                             .exit_code = exit_code});
    return observed.pods.back();
  }
  void Service(const std::string& type, int index) {
    const std::string& subdomain = observed.job.spec.network.subdomain;
    const std::string name =
        subdomain.empty() ? ReplicaName(observed.job.metadata.name, type, index) : subdomain;
    for (const ServiceView& service : observed.services) {
      if (service.name == name) return;
    }
    observed.services.push_back({.name = name,
                                 .uid = NextUid(),
                                 .owner_uid = kTestUid,
                                 .type = subdomain.empty() ? LowerReplicaType(type) : "",
                                 .index = subdomain.empty() ? index : -1});
  }
  // The first `count` indexes of a type, all in one phase.
  World& Pods(const std::string& type, int count, PodPhase phase) {
    for (int i = 0; i < count; ++i) Pod(type, i, phase);
    return *this;
  }
  // The job's PodGroup as its scheduler has it; made by a plan before.
  World& Admit(const std::string& phase, const std::string& message = "") {
    for (PodGroupView& group : observed.pod_groups) {
      group.phase = phase;
      group.message = message;
    }
    return *this;
  }
  void RemovePod(const std::string& type, int index) {
    const std::string name = ReplicaName(observed.job.metadata.name, type, index);
    std::erase_if(observed.pods, [&](const PodView& pod) { return pod.name == name; });
  }

  Plan Look() const { return MakePlan(observed, options); }
  // One pass: writes the status, then applies the actions as a perfect cluster would.
  Plan Step() {
    Plan plan = Look();
    observed.job.status = plan.status;
    for (const Action& action : plan.actions) Apply(action);
    return plan;
  }
  // Passes until one changes nothing.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      const TfJobStatus before = observed.job.status;
      if (Step().actions.empty() && observed.job.status == before) return;
    }
  }
  void Apply(const Action& action) {
    if (const auto* pod = std::get_if<CreatePod>(&action)) {
      observed.pods.push_back({.name = pod->name,
                               .uid = NextUid(),
                               .owner_uid = kTestUid,
                               .type = pod->type,
                               .index = pod->index,
                               .task_tls = HasTaskTls(pod->object)});
    } else if (const auto* claim = std::get_if<CreateClaim>(&action)) {
      claims.insert(claim->name);
    } else if (const auto* gone_claim = std::get_if<DeleteClaim>(&action)) {
      claims.erase(gone_claim->name);
    } else if (std::holds_alternative<CreateSecret>(action)) {
      ++secrets;
    } else if (const auto* service = std::get_if<CreateService>(&action)) {
      observed.services.push_back({.name = service->name,
                                   .uid = NextUid(),
                                   .owner_uid = kTestUid,
                                   .type = service->type,
                                   .index = service->index});
    } else if (const auto* gone = std::get_if<DeletePod>(&action)) {
      std::erase_if(observed.pods, [&](const PodView& p) { return p.uid == gone->uid; });
    } else if (const auto* gone_service = std::get_if<DeleteService>(&action)) {
      std::erase_if(observed.services,
                    [&](const ServiceView& s) { return s.uid == gone_service->uid; });
    } else if (const auto* adopted = std::get_if<AdoptService>(&action)) {
      for (ServiceView& service : observed.services) {
        if (service.uid == adopted->uid) service.owner_uid = kTestUid;
      }
    } else if (const auto* group = std::get_if<CreatePodGroup>(&action)) {
      observed.pod_groups.push_back({.name = group->name,
                                     .uid = NextUid(),
                                     .owner_uid = kTestUid,
                                     .spec = PodGroupSpecOf(Defaulted(), options)});
    } else if (std::holds_alternative<UpdatePodGroup>(action)) {
      observed.pod_groups.front().spec = PodGroupSpecOf(Defaulted(), options);
    } else if (std::holds_alternative<DeletePodGroup>(action)) {
      observed.pod_groups.clear();
    } else {
      deleted = true;
    }
  }

  TfJob Defaulted() const { return WithDefaults(observed.job); }
  const TfJobStatus& status() const { return observed.job.status; }
  bool Has(const std::string& condition) const { return HasCondition(status(), condition); }
  std::string NextUid() { return "uid-" + std::to_string(next_uid++); }

  Observed observed;
  PlanOptions options;
  bool deleted = false;
  int secrets = 0;               // made so far
  std::set<std::string> claims;  // that are there
  int next_uid = 0;
};

// The names of what a plan creates or deletes, by kind of action.
template <typename Kind>
std::vector<std::string> NamesOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const Action& action : plan.actions) {
    if (const auto* match = std::get_if<Kind>(&action)) names.push_back(match->name);
  }
  return names;
}

// "Created", "Running=False", …: in the order of the status.
inline std::vector<std::string> ConditionsOf(const TfJobStatus& status) {
  std::vector<std::string> out;
  for (const Condition& condition : status.conditions) {
    out.push_back(condition.type + (condition.status == kTrue ? "" : "=" + condition.status));
  }
  return out;
}

inline std::string MessageOf(const TfJobStatus& status, const std::string& type) {
  const Condition* const condition = FindCondition(status, type);
  return condition == nullptr ? "" : condition->message;
}

}  // namespace tfjob
