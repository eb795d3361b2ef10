// What a chief says of its training, how the status keeps it, and how a job says whom to ask.
#include "operator/api/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "operator/api/progress_spec.h"

namespace tfjob {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseProgress, ReadsWhatTheTrainerServes) {
  const auto progress = ParseProgress(
      R"({"job":"worker","task":0,"global_step":500,"last_step":1000,"loss":0.12345678,)"
      R"("examples_per_sec":12000.0000001,"eta_seconds":61.6,"updated":null})");
  EXPECT_EQ(progress, (Progress{.global_step = 500,
                                .last_step = 1000,
                                .loss = 0.123457,
                                .examples_per_sec = 12000,
                                .eta_seconds = 62}));
}

TEST(ParseProgress, NeedsNoMoreThanAStep) {
  EXPECT_EQ(ParseProgress(R"({"global_step":7,"loss":null,"eta_seconds":"soon"})"),
            Progress{.global_step = 7});
}

TEST(ParseProgress, TakesNothingElse) {
  for (const char* bad : {"", "[]", "{", R"({"global_step":"x"})", R"({"loss":1})", "null", "7",
                          R"({"global_step":1e999})", "{\"global_step\":1}x"}) {
    EXPECT_FALSE(ParseProgress(bad).has_value()) << bad;
  }
  EXPECT_FALSE(ParseProgress(std::string(60'000, '[')).has_value());
}

TEST(ParseProgress, BoundsNumbers) {
  EXPECT_EQ(ParseProgress(R"({"global_step":-3,"last_step":1e300,"eta_seconds":-1})"),
            (Progress{.global_step = 0, .last_step = 9'000'000'000'000'000'000, .eta_seconds = 0}));
  EXPECT_EQ(ParseProgress(R"({"global_step":18446744073709551615})"),
            Progress{.global_step = 9'000'000'000'000'000'000});
  EXPECT_EQ(ParseProgress(R"({"global_step":9007199254740993})"),
            Progress{.global_step = 9007199254740993});  // no double
}

TEST(ProgressSummary, FitsAColumn) {
  EXPECT_EQ(ProgressSummary({.global_step = 500, .last_step = 1000}), "500/1000 50%");
  EXPECT_EQ(ProgressSummary({.global_step = 0, .last_step = 1000}), "0/1000 0%");
  EXPECT_EQ(ProgressSummary({.global_step = 7}), "step 7");
}

TEST(ProgressSummary, SaysAHundredOnlyAtTheEnd) {
  EXPECT_EQ(ProgressSummary({.global_step = 99'999, .last_step = 100'000}), "99999/100000 99%");
  EXPECT_EQ(ProgressSummary({.global_step = 1002, .last_step = 1000}), "1002/1000 100%");
  constexpr int64_t kLarge = 9'000'000'000'000'000'000;
  EXPECT_THAT(ProgressSummary({.global_step = kLarge - 1, .last_step = kLarge}), HasSubstr(" 99%"));
}

TEST(ProgressStatus, IsReadBackAsWritten) {
  const ProgressStatus full{.read = {.global_step = 500,
                                     .last_step = 1000,
                                     .loss = 0.25,
                                     .examples_per_sec = 12345.6,
                                     .eta_seconds = 62},
                            .last_update_time = absl::FromUnixSeconds(1'700'000'000),
                            .last_step_time = absl::FromUnixSeconds(1'699'999'999)};
  EXPECT_EQ(ProgressStatusToJson(full), Json::parse(R"({
    "summary": "500/1000 50%", "globalStep": 500, "lastStep": 1000, "loss": 0.25,
    "examplesPerSecond": 12345.6, "etaSeconds": 62, "lastUpdateTime": "2023-11-14T22:13:20Z",
    "lastStepTime": "2023-11-14T22:13:19Z"})"));
  EXPECT_EQ(ProgressStatusFromJson(ProgressStatusToJson(full)), full);
  const ProgressStatus least{.read = {.global_step = 7},
                             .last_update_time = full.last_update_time,
                             .last_step_time = full.last_update_time};
  EXPECT_EQ(ProgressStatusFromJson(ProgressStatusToJson(least)), least);
  for (const char* bad : {"null", "[]", "{}", R"({"globalStep":"7"})"}) {
    EXPECT_FALSE(ProgressStatusFromJson(Json::parse(bad)).has_value()) << bad;
  }
}

Json Container(const Json& ports) {
  return {{"name", "tensorflow"}, {"image", "i"}, {"ports", ports}};
}

// A job whose chief-like replica, and worker, have these ports.
Json JobJson(const std::string& type, const Json& ports, const Json& progress = nullptr) {
  const Json sidecar = {
      {"name", "side"}, {"image", "i"}, {"ports", {{{"name", "progress"}, {"containerPort", 1}}}}};
  Json job = {{"apiVersion", "kubeflow.org/v1"}, {"kind", "TFJob"}, {"metadata", {{"name", "j"}}}};
  job["spec"]["tfReplicaSpecs"][type]["template"]["spec"]["containers"] = {sidecar,
                                                                           Container(ports)};
  job["spec"]["progress"] = progress;
  return job;
}

std::optional<int> PortOfJob(const Json& json) { return ProgressPort(FromJson(json).job.spec); }

TEST(ProgressPort, IsTheContainersOfThatName) {
  const Json ports = {{{"name", "http"}, {"containerPort", 80}},
                      {{"name", "progress"}, {"containerPort", 9100}}};
  for (const char* type : {"Worker", "chief", "Master"}) {
    EXPECT_EQ(PortOfJob(JobJson(type, ports)), 9100) << type;
  }
  EXPECT_EQ(PortOfJob(JobJson("Worker", Json::array())), std::nullopt);
  EXPECT_EQ(PortOfJob(JobJson("PS", ports)), std::nullopt);
  EXPECT_EQ(PortOfJob(JobJson("Worker", {{{"name", "progress"}, {"containerPort", 70000}}})),
            std::nullopt);
}

TEST(ProgressPort, IsTheChiefsWhereThereIsOne) {
  Json job = JobJson("Worker", {{{"name", "progress"}, {"containerPort", 1000}}});
  job["spec"]["tfReplicaSpecs"]["Chief"] =
      JobJson("Chief",
              {{{"name", "progress"}, {"containerPort", 2000}}})["spec"]["tfReplicaSpecs"]["Chief"];
  EXPECT_EQ(PortOfJob(job), 2000);
  job["spec"]["tfReplicaSpecs"]["Chief"]["replicas"] = 0;
  EXPECT_EQ(PortOfJob(job), 1000);
}

TEST(ProgressPort, IsWhatTheSpecSays) {
  const Json ports = {{{"name", "http"}, {"containerPort", 80}},
                      {{"name", "progress"}, {"containerPort", 9100}}};
  EXPECT_EQ(PortOfJob(JobJson("Worker", ports, {{"port", 1234}})), 1234);
  EXPECT_EQ(PortOfJob(JobJson("Worker", ports, {{"port", "http"}})), 80);
  EXPECT_EQ(PortOfJob(JobJson("Worker", ports, {{"intervalSeconds", 30}})), 9100);
  EXPECT_EQ(PortOfJob(JobJson("Worker", ports, {{"port", "other"}})), std::nullopt);
}

auto Says(const std::string& path, const std::string& message) {
  return AllOf(Field("path", &FieldError::path, path),
               Field("message", &FieldError::message, HasSubstr(message)));
}

TEST(ProgressSpec, WarnsWhereNobodyCanBeAsked) {
  const Json ports = {{{"name", "progres"}, {"containerPort", 9100}}};
  EXPECT_THAT(FromJson(JobJson("Worker", ports)).warnings, IsEmpty());
  EXPECT_THAT(FromJson(JobJson("Worker", ports, Json::object())).warnings,
              ElementsAre(Says("spec.progress", "did you mean \"progres\"?")));
  EXPECT_THAT(FromJson(JobJson("Worker", Json::array(), {{"port", "http"}})).warnings,
              ElementsAre(Says("spec.progress", "of Worker has no port named \"http\"")));
  EXPECT_THAT(FromJson(JobJson("PS", ports, Json::object())).warnings,
              ElementsAre(Says("spec.progress", "no Chief, Master or Worker")));
  EXPECT_THAT(FromJson(JobJson("Worker", ports, {{"port", 1}, {"interval", 10}})).warnings,
              ElementsAre(Says("spec.progress.interval", "unknown field")));
}

TEST(ProgressSpec, RefusesWhatMakesNoSense) {
  const auto errors = [](const Json& progress) {
    ParsedTfJob parsed = FromJson(JobJson("Worker", Json::array(), progress));
    for (FieldError& error : Validate(parsed.job)) parsed.errors.push_back(std::move(error));
    return parsed.errors;
  };
  EXPECT_THAT(errors({{"port", 0}}),
              ElementsAre(Says("spec.progress.port", "0 is out of range: from 1 to 65535")));
  EXPECT_THAT(errors({{"port", 1.5}}), ElementsAre(Says("spec.progress.port", "an integer")));
  EXPECT_THAT(errors({{"port", "9100"}}),
              ElementsAre(Says("spec.progress.port", "a port number without quotes")));
  EXPECT_THAT(errors({{"port", ""}}), ElementsAre(Says("spec.progress.port", "a port number")));
  EXPECT_THAT(errors({{"port", 1}, {"intervalSeconds", 9}}),
              ElementsAre(Says("spec.progress.intervalSeconds", "9: must be 10 or more")));
  for (const Json& stall : {Json({{"port", 1}, {"stallSeconds", 59}}),
                            Json({{"port", 1}, {"stallSeconds", 60}, {"intervalSeconds", 31}})}) {
    EXPECT_THAT(errors(stall), ElementsAre(Says("spec.progress.stallSeconds", "60 or more")));
  }
  EXPECT_THAT(errors({{"port", 1}, {"stallSeconds", 60}, {"intervalSeconds", 30}}), IsEmpty());
  EXPECT_THAT(errors("often"), ElementsAre(Says("spec.progress", "must be an object")));
  EXPECT_THAT(errors({{"port", 1}, {"intervalSeconds", 10}}), IsEmpty());
}

TEST(ProgressSpec, IsReadBackAsWritten) {
  for (const Json& progress : {Json({{"port", 9100}, {"intervalSeconds", 30}}),
                               Json({{"port", "http"}, {"stallSeconds", 600}}), Json::object()}) {
    Json json = JobJson("Worker", Json::array(), progress);
    EXPECT_EQ(ToJson(FromJson(json).job), json);
  }
}

}  // namespace
}  // namespace tfjob
