#include "operator/api/task_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json TemplateOf(const std::string& image) {
  return {{"spec", {{"containers", {{{"name", kContainerName}, {"image", image}}}}}}};
}

// One parameter server and one worker of these images.
TfJob Job(const std::string& ps_image, const std::string& worker_image,
          const std::string& annotation = "") {
  TfJob job;
  job.metadata.name = "j";
  if (!annotation.empty()) job.metadata.annotations[kAnnotationTaskTls] = annotation;
  job.spec.replicas.emplace();
  (*job.spec.replicas)[kPs] = {.replicas = 1, .pod_template = TemplateOf(ps_image)};
  (*job.spec.replicas)[kWorker] = {.replicas = 1, .pod_template = TemplateOf(worker_image)};
  return job;
}

TEST(TrainerImages, AreKnownByTheirRepositoryAlone) {
  for (const char* image :
       {"trainyard/trainer", "trainyard/trainer:1", "host:5000/x/trainyard/trainer:v1",
        "r.io/a/trainyard-trainer@sha256:00"}) {
    EXPECT_TRUE(IsImageOf(image, TrainerImages())) << image;
  }
  for (const char* image : {"", "trainer", "trainyard/trainer-extra", "mytrainyard/trainer",
                            "my-trainyard-trainer", "trainyard/trainer/x"}) {
    EXPECT_FALSE(IsImageOf(image, TrainerImages())) << image;
  }
  EXPECT_FALSE(IsImageOf("trainyard/trainer", {}));
}

TEST(TaskTls, IsForJobsOfTrainersOnly) {
  EXPECT_TRUE(WantsTaskTls(Job("trainyard/trainer", "trainyard/trainer"), TrainerImages()));
  EXPECT_FALSE(WantsTaskTls(Job("trainyard/trainer", "tensorflow:2.9"), TrainerImages()));
  EXPECT_FALSE(WantsTaskTls(Job("tensorflow:2.9", "tensorflow:2.9"), TrainerImages()));
  EXPECT_FALSE(WantsTaskTls(Job("trainyard/trainer", "trainyard/trainer"), {}));
}

TEST(TaskTls, IsNotForJobsWithoutParameterServers) {
  TfJob job = Job("trainyard/trainer", "trainyard/trainer");
  job.spec.replicas->erase(kPs);
  EXPECT_FALSE(WantsTaskTls(job, TrainerImages()));
}

TEST(TaskTls, IsAsTheAnnotationSays) {
  EXPECT_TRUE(WantsTaskTls(Job("mine", "mine", "true"), TrainerImages()));
  EXPECT_FALSE(
      WantsTaskTls(Job("trainyard/trainer", "trainyard/trainer", "false"), TrainerImages()));
}

TEST(TaskTls, LeavesAloneWhatIsInItsWayUnlessAskedFor) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"env", {{{"name", "TRAINYARD_TLS_DIR"}, {"value", "/own"}}}}}, ".env[0].name"},
      {{{"volumeMounts", {{{"name", "v"}, {"mountPath", kTaskTlsMountPath}}}}},
       ".volumeMounts[0].mountPath"},
      {{{"livenessProbe", {{"grpc", {{"port", 2222}}}}}}, ".livenessProbe.grpc"}};
  for (const auto& [part, path] : cases) {
    TfJob job = Job("trainyard/trainer", "trainyard/trainer");
    job.spec.replicas->at(kWorker).pod_template["spec"]["containers"][0].update(part);
    EXPECT_FALSE(WantsTaskTls(job, TrainerImages())) << path;
    EXPECT_THAT(CheckTaskTls(job), IsEmpty()) << path;
    job.metadata.annotations[kAnnotationTaskTls] = "true";
    const std::vector<FieldError> errors = CheckTaskTls(job);
    ASSERT_EQ(errors.size(), 1u) << path;
    EXPECT_THAT(errors[0].path, HasSubstr("[Worker].template.spec.containers[0]" + path));
  }
  TfJob job = Job("trainyard/trainer", "trainyard/trainer", "true");
  job.spec.replicas->at(kPs).pod_template["spec"]["volumes"] = {{{"name", kTaskTlsVolume}}};
  ASSERT_EQ(CheckTaskTls(job).size(), 1u);
}

TEST(TaskTls, KnowsOnlyTrueAndFalse) {
  const std::vector<FieldError> errors = CheckTaskTls(Job("a", "a", "yes"));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(ToString(errors[0]),
            "metadata.annotations[trainyard.dev/task-tls]: Unsupported value: \"yes\": must be "
            "\"true\" or \"false\"");
}

TEST(TaskTls, SecretIsNamedAfterTheJobAndItsUid) {
  TfJob job = Job("a", "a");
  EXPECT_EQ(TaskTlsSecretName(job), "j-tls");
  job.metadata.uid = "3f0d4cbe-5a4c-4b7e-9f61-2d6d2a1f7c11";
  EXPECT_EQ(TaskTlsSecretName(job), "j-tls-2a1f7c11");
  job.metadata.name = std::string(49, 'j') + "-" + std::string(10, 'k');
  EXPECT_EQ(TaskTlsSecretName(job), std::string(49, 'j') + "-tls-2a1f7c11");
}

TEST(TaskTls, ReachesTheTensorflowContainerAlone) {
  Json pod = {
      {"spec",
       {{"containers",
         {{{"name", "sidecar"}}, {{"name", kContainerName}, {"env", {{{"name", "A"}}}}}}}}}};
  EXPECT_FALSE(HasTaskTls(pod));
  AddTaskTls(pod, "secret", 0444);
  EXPECT_TRUE(HasTaskTls(pod));
  EXPECT_EQ(pod["spec"]["containers"][0], Json({{"name", "sidecar"}}));
  EXPECT_EQ(pod["spec"]["containers"][1].dump(),
            R"({"env":[{"name":"TRAINYARD_TLS_DIR","value":)"
            R"("/var/run/secrets/trainyard.dev/task-tls"},{"name":"A"}],"name":"tensorflow",)"
            R"("volumeMounts":[{"mountPath":"/var/run/secrets/trainyard.dev/task-tls",)"
            R"("name":"trainyard-task-tls","readOnly":true}]})");
  EXPECT_EQ(
      pod["spec"]["volumes"].dump(),
      R"([{"name":"trainyard-task-tls","secret":{"defaultMode":292,"secretName":"secret"}}])");
}

}  // namespace
}  // namespace tfjob
