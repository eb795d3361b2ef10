// Whole plans as files: testdata/NAME.json holds a job (and what is observed of it), NAME.plan.json
// the plan. After a wanted change run with UPDATE_GOLDENS=1 and read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "operator/reconcile/builders.h"

namespace tfjob {
namespace {

constexpr char kFolder[] = "operator/reconcile/testdata/";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

PodPhase PhaseOf(const std::string& name) {
  if (name == "Running") return PodPhase::kRunning;
  if (name == "Succeeded") return PodPhase::kSucceeded;
  if (name == "Failed") return PodPhase::kFailed;
  return PodPhase::kPending;
}

// {"job": TFJob, "pods": [{"type","index","phase","exitCode","reason"}], "compat": bool,
// "gangScheduler": name, "legacyLabels": bool, "retryableExitCodes": [code]}
Plan PlanFor(const Json& input) {
  World world(MakeJob(""), {.compat_v19 = input.value("compat", false)});
  const ParsedTfJob parsed = FromJson(input["job"]);
  EXPECT_TRUE(parsed.ok());
  world.observed.job = parsed.job;
  for (const Json& entry : input.value("pods", Json::array())) {
    PodView& pod = world.Pod(entry["type"], entry["index"], PhaseOf(entry["phase"]));
    pod.owner_uid = parsed.job.metadata.uid;
    if (entry.contains("exitCode")) pod.exit_code = entry["exitCode"].get<int>();
    pod.reason = entry.value("reason", "");
  }
  for (ServiceView& service : world.observed.services) service.owner_uid = parsed.job.metadata.uid;
  world.options.gang_scheduler = input.value("gangScheduler", "");
  world.options.legacy_labels = input.value("legacyLabels", false);
  world.options.retryable_exit_codes = input.value("retryableExitCodes", std::set<int>());
  return world.Look();
}

struct ActionToJson {
  Json operator()(const CreatePodGroup& a) const { return {{"createPodGroup", a.object}}; }
  Json operator()(const UpdatePodGroup& a) const {
    return {{"updatePodGroup", a.name}, {"spec", a.spec}};
  }
  Json operator()(const DeletePodGroup& a) const { return {{"deletePodGroup", a.name}}; }
  Json operator()(const CreateSecret& a) const { return {{"createSecret", a.object}}; }
  Json operator()(const CreateClaim& a) const { return {{"createClaim", a.object}}; }
  Json operator()(const DeleteClaim& a) const { return {{"deleteClaim", a.name}}; }
  Json operator()(const CreateService& a) const { return {{"createService", a.object}}; }
  Json operator()(const CreatePod& a) const { return {{"createPod", a.object}}; }
  Json operator()(const DeletePod& a) const { return {{"deletePod", a.name}}; }
  Json operator()(const DeleteService& a) const { return {{"deleteService", a.name}}; }
  Json operator()(const AdoptService& a) const { return {{"adoptService", a.name}}; }
  Json operator()(const DeleteJob& a) const { return {{"deleteJob", a.name}}; }
};

Json PlanToJson(const Plan& plan) {
  Json out = {{"actions", Json::array()}, {"events", Json::array()}};
  for (const Action& action : plan.actions)
    out["actions"].push_back(std::visit(ActionToJson(), action));
  for (const Event& event : plan.events) {
    out["events"].push_back(event.type + " " + event.reason + ": " + event.message);
  }
  out["status"] = StatusToJson(plan.status);
  if (!plan.waits_for.empty()) out["waitsFor"] = plan.waits_for;
  if (plan.requeue_after) out["requeueAfter"] = absl::FormatDuration(*plan.requeue_after);
  return out;
}

class Golden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plans, Golden,
                         ::testing::Values("new_job", "new_job_v19", "dynamic_workers",
                                           "worker_killed", "chief_done", "bad_spec",
                                           "gang_volcano", "gang_scheduler_plugins",
                                           "legacy_labels", "exit_codes_v14", "networked"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Golden, PlanIsAsOnRecord) {
  const std::string stem = std::string(kFolder) + GetParam();
  const Json input = Json::parse(ReadFile(stem + ".json"), nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(input.is_discarded()) << stem << ".json is missing or broken";
  const std::string plan = PlanToJson(PlanFor(input)).dump(2) + "\n";
  if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(stem + ".plan.json") << plan;
  EXPECT_EQ(plan, ReadFile(stem + ".plan.json"));
}

}  // namespace
}  // namespace tfjob
