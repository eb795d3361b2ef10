// For the simulator: jobs of any shape, drawn at random.
#pragma once

#include <algorithm>
#include <random>

#include "operator/reconcile/builders.h"

namespace tfjob {

inline constexpr int kRandomStallSeconds = 60;     // of spec.progress, where a job has it
inline constexpr char kRandomClaim[] = "scratch";  // the claim template of workers, likewise

// A rule that may meet what Disturb does.
inline FailureRule RandomRule(std::mt19937& random) {
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const char* const actions[] = {kFailJob, kRestartReplica, kRestartJob, kIgnore};
  FailureRule rule{.action = actions[pick(4)], .counts = pick(3) > 0};
  if (pick(3) == 0) rule.types = {pick(2) == 0 ? kWorker : kPs};
  const int on = pick(4);
  if (on == 0) rule.exit_codes = {.in = pick(2) == 0, .values = {137, 1}};
  if (on == 1) rule.pod_conditions = {{kDisruptionTarget, kTrue}};
  if (on == 2) {
    rule.pending_seconds = 3 + pick(20);
    if (rule.action == kIgnore) rule.action = kRestartReplica;
  }
  return rule;
}

// How its tasks are reached, and what each of them has.
inline void AddNetworkAndClaims(TfJobSpec& spec, std::mt19937& random) {
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  if (pick(3) == 0) spec.network.subdomain = "net";
  if (pick(4) == 0) {
    spec.network.min_host_port = 20'000;
    spec.network.max_host_port = 20'063;
    for (auto& [type, replica] : *spec.replicas) {
      replica.pod_template["spec"]["hostNetwork"] = true;
    }
  }
  if (pick(3) > 0) return;
  ReplicaSpec& workers = spec.replicas->at(kWorker);
  workers.claim_templates =
      Json::array({{{"metadata", {{"name", kRandomClaim}}}, {"spec", Json::object()}}});
  if (pick(2) == 0) workers.claims_when_scaled = pick(2) == 0 ? kDelete : kRetain;
}

// A rule of success that may or may not ever hold.
inline SuccessRule RandomSuccess(const TfJobSpec& spec, std::mt19937& random) {
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  SuccessRule rule;
  for (const auto& [type, replica] : *spec.replicas) {
    if (type != kPs && pick(2) == 0) rule.types.insert(type);
  }
  if (rule.types.empty()) rule.types = {kWorker};
  if (pick(2) == 0) rule.indexes = {0, pick(4)};
  if (rule.indexes.empty() || pick(2) == 0) rule.count = 1 + pick(2);
  if (rule.count && !rule.indexes.empty()) {
    rule.count = std::min(*rule.count, static_cast<int>(rule.indexes.size()));
  }
  return rule;
}

// What types of replicas may have for themselves, and the order of their start.
inline void AddShape(TfJobSpec& spec, std::mt19937& random) {
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const char* const clean[] = {kCleanAll, kCleanRunning, kCleanNone};
  if (pick(3) == 0) spec.startup_order = kInOrder;
  ReplicaSpec& workers = spec.replicas->at(kWorker);
  if (pick(4) == 0) {
    workers.min_replicas = pick(*workers.replicas + 1);
    workers.max_replicas = *workers.replicas + pick(3);
  }
  for (auto& [type, replica] : *spec.replicas) {
    if (pick(5) == 0) replica.clean_pod_policy = clean[pick(3)];
  }
  if (pick(4) > 0) return;
  spec.progress = {.port = 1, .stall_seconds = kRandomStallSeconds};
  if (pick(3) > 0) spec.progress->stall_action = pick(2) == 0 ? kRestartJob : kFailJob;
}

// Up to eight pods of any mix of types and policies.
inline JobBuilder RandomJob(std::mt19937& random) {
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const char* const policies[] = {kRestartExitCode, kRestartOnFailure, kRestartAlways,
                                  kRestartNever};
  const char* const clean[] = {kCleanAll, kCleanRunning, kCleanNone};
  JobBuilder job = MakeJob("j");
  if (pick(3) == 0) job.Chief(policies[pick(4)]);
  if (pick(2) == 0) job.Ps(1 + pick(2), policies[pick(3)]);
  job.Workers(1 + pick(4), policies[pick(4)]);
  if (pick(4) > 0) job.Clean(clean[pick(3)]);
  if (pick(5) == 0) job.Replicas(kEvaluator, 1, policies[pick(4)]);
  if (pick(3) == 0) job.AllWorkers();
  if (pick(3) == 0) job.Backoff(pick(6));
  if (pick(4) == 0) job.Deadline(10 + pick(60));
  if (pick(6) == 0) job.Dynamic();
  for (int rules = pick(3) == 0 ? 1 + pick(2) : 0; rules > 0; --rules) job.Rule(RandomRule(random));
  if (pick(5) == 0) job.job.spec.replicas->at(kWorker).backoff_limit = pick(4);
  AddShape(job.job.spec, random);
  AddNetworkAndClaims(job.job.spec, random);
  for (int rules = pick(4) == 0 ? 1 + pick(2) : 0; rules > 0; --rules) {
    job.job.spec.run_policy.success_rules.push_back(RandomSuccess(job.job.spec, random));
  }
  return job;
}

}  // namespace tfjob
