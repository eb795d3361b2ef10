// What the cache believes: watches, lists, own writes, and their order.
#include "operator/job_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "operator/api/names.h"

namespace tfjob {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Json Job(int version, const std::string& ns = "ns", const std::string& uid = "u") {
  return {{"apiVersion", kApiVersion},
          {"kind", kKind},
          {"metadata",
           {{"name", "j"},
            {"namespace", ns},
            {"uid", uid},
            {"resourceVersion", std::to_string(version)}}},
          {"spec", {{"tfReplicaSpecs", {{"Worker", {{"replicas", 2}}}}}}}};
}

Json Pod(const std::string& uid, int version, const std::string& phase = "Running") {
  return {
      {"metadata",
       {{"name", "j-worker-0"},
        {"namespace", "ns"},
        {"uid", uid},
        {"resourceVersion", std::to_string(version)},
        {"labels",
         {{kLabelJobName, "j"}, {kLabelReplicaType, "worker"}, {kLabelReplicaIndex, "0"}}},
        {"ownerReferences",
         Json::array({{{"kind", "TFJob"}, {"name", "j"}, {"uid", "u"}, {"controller", true}}})}}},
      {"status", {{"phase", phase}}}};
}

class JobCacheTest : public ::testing::Test {
 protected:
  JobCacheTest() {
    Show(*jobs_, Job(1));
    changes_.clear();
  }
  static void Show(runtime::WatchSink& sink, Json object) { sink.OnObject(object); }
  void List(runtime::WatchSink& sink, std::vector<Json> objects) {
    sink.OnListBegin();
    for (Json& object : objects) sink.OnObject(object);
    sink.OnListEnd();
  }
  std::vector<std::string> PodUids() {
    std::vector<std::string> uids;
    const std::optional<JobCache::Snapshot> snapshot = cache_.Observe("ns/j");
    for (const PodView& pod : snapshot->observed.pods) uids.push_back(pod.uid);
    return uids;
  }

  base::FakeClock clock_{absl::FromUnixSeconds(1'700'000'000)};
  std::vector<std::string> changes_;
  std::vector<runtime::Priority> priorities_;
  std::vector<std::string> deleted_;
  JobCache cache_{{.clock = &clock_,
                   .on_change =
                       [this](const std::string& key, runtime::Priority priority) {
                         changes_.push_back(key);
                         priorities_.push_back(priority);
                       },
                   .on_job_deleted = [this](const std::string& key) { deleted_.push_back(key); }}};
  std::unique_ptr<runtime::WatchSink> jobs_ = cache_.MakeJobSink("");
  std::unique_ptr<runtime::WatchSink> pods_ = cache_.MakePodSink("");
};

TEST_F(JobCacheTest, TellsWhichJobAChangeConcerns) {
  Show(*pods_, Pod("a", 2));
  EXPECT_THAT(changes_, ElementsAre("ns/j"));
  Show(*pods_, Pod("a", 2));  // nothing new
  Show(*pods_, Pod("a", 3));  // newer, but nothing that decisions need
  EXPECT_THAT(changes_, ElementsAre("ns/j"));
  pods_->OnDeleted(Pod("a", 4));
  EXPECT_THAT(changes_, ElementsAre("ns/j", "ns/j"));
  EXPECT_THAT(PodUids(), IsEmpty());
}

// A burst of new jobs must not hold up the status of those whose pods run already.
TEST_F(JobCacheTest, PutsPodsOfRunningJobsBeforeNewJobsAndFinishedJobsLast) {
  using runtime::Priority;
  Json other = Job(2);
  other["metadata"]["name"] = "new";
  Show(*jobs_, other);
  EXPECT_EQ(priorities_.back(), Priority::kNormal);
  Show(*pods_, Pod("a", 3));
  EXPECT_EQ(priorities_.back(), Priority::kHigh);
  const auto services = cache_.MakeServiceSink("");
  Show(*services, Pod("s", 4));
  EXPECT_EQ(priorities_.back(), Priority::kNormal);
  pods_->OnDeleted(Pod("a", 5));  // to be replaced
  EXPECT_EQ(priorities_.back(), Priority::kHigh);
  Json done = Job(6);
  done["status"]["conditions"] = Json::array({{{"type", "Failed"}, {"status", "True"}}});
  Show(*jobs_, done);
  Show(*pods_, Pod("b", 7));
  EXPECT_EQ(priorities_.back(), Priority::kLow);
  List(*pods_, {});
  EXPECT_EQ(priorities_.back(), Priority::kLow);
  EXPECT_EQ(priorities_.size(), 8u);
}

TEST_F(JobCacheTest, KnowsItsOwnWritesAtOnceAndKeepsThemThroughOlderLists) {
  cache_.NotePod(Pod("a", 5, "Pending"));
  EXPECT_THAT(PodUids(), ElementsAre("a"));
  List(*pods_, {});  // began before the write was in the server's cache
  EXPECT_THAT(PodUids(), ElementsAre("a"));
  clock_.Advance(absl::Minutes(1));
  List(*pods_, {});
  EXPECT_THAT(PodUids(), IsEmpty());
}

TEST_F(JobCacheTest, BelievesAnUnseenWriteForFiveMinutes) {
  cache_.NotePod(Pod("a", 5, "Pending"));
  clock_.Advance(absl::Minutes(4));
  EXPECT_THAT(PodUids(), ElementsAre("a"));
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(PodUids(), IsEmpty());
  Show(*pods_, Pod("a", 5, "Pending"));
  EXPECT_THAT(PodUids(), ElementsAre("a"));
}

TEST_F(JobCacheTest, OlderEventsChangeNothing) {
  cache_.NotePod(Pod("b", 9, "Pending"));
  Show(*pods_, Pod("a", 7, "Failed"));  // its predecessor of the same name
  pods_->OnDeleted(Pod("a", 8));
  EXPECT_THAT(PodUids(), ElementsAre("b"));
}

TEST_F(JobCacheTest, ADeletionThatWasAskedForIsNotForgotten) {
  Show(*pods_, Pod("a", 2));
  cache_.NotePodDeleting("ns/j", "a");
  Show(*pods_, Pod("a", 3));  // from before the deletion
  EXPECT_TRUE(cache_.Observe("ns/j")->observed.pods[0].deletion_time.has_value());
}

TEST_F(JobCacheTest, RemembersASucceededPodUntilTheStatusDoes) {
  Show(*pods_, Pod("a", 2, "Succeeded"));
  pods_->OnDeleted(Pod("a", 3, "Succeeded"));
  List(*pods_, {});
  EXPECT_THAT(PodUids(), ElementsAre("a"));
  TfJobStatus status;
  status.replica_statuses[kWorker].succeeded_indexes = {0};
  cache_.NoteStatus("ns/j", "u", 4, status);
  EXPECT_THAT(PodUids(), IsEmpty());
}

TEST_F(JobCacheTest, ItsOwnStatusIsNewerThanTheWatch) {
  TfJobStatus status;
  status.start_time = absl::FromUnixSeconds(5);
  cache_.NoteStatus("ns/j", "u", 7, status);
  Show(*jobs_, Job(3));
  Show(*jobs_, Job(7));  // its own write comes back
  EXPECT_THAT(changes_, IsEmpty());
  EXPECT_TRUE(cache_.Observe("ns/j")->observed.job.status.start_time.has_value());
  EXPECT_EQ(cache_.Observe("ns/j")->observed.job.metadata.resource_version, "7");
  Show(*jobs_, Job(8));
  EXPECT_THAT(changes_, ElementsAre("ns/j"));
}

TEST_F(JobCacheTest, AListTakesAwayWhatItDoesNotName) {
  Show(*jobs_, Job(2, "elsewhere"));
  const auto one_namespace = cache_.MakeJobSink("ns");
  List(*one_namespace, {});
  EXPECT_FALSE(cache_.Observe("ns/j").has_value());
  EXPECT_TRUE(cache_.Observe("elsewhere/j").has_value());
  EXPECT_THAT(deleted_, ElementsAre("ns/j"));
  EXPECT_THAT(cache_.Keys(), ElementsAre("elsewhere/j"));
}

TEST_F(JobCacheTest, ANewJobOfTheSameNameReplacesTheOld) {
  Show(*jobs_, Job(5, "ns", "second"));
  jobs_->OnDeleted(Job(4));
  EXPECT_EQ(cache_.Observe("ns/j")->observed.job.metadata.uid, "second");
  EXPECT_THAT(deleted_, IsEmpty());
}

TEST_F(JobCacheTest, TheHashIsOfTheSpecAlone) {
  const size_t before = cache_.Observe("ns/j")->spec_hash;
  Json job = Job(2);
  job["status"] = {{"startTime", "2026-01-02T03:04:05Z"}};
  Show(*jobs_, job);
  EXPECT_EQ(cache_.Observe("ns/j")->spec_hash, before);
  job = Job(3);
  job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 3;
  Show(*jobs_, job);
  EXPECT_NE(cache_.Observe("ns/j")->spec_hash, before);
}

TEST_F(JobCacheTest, IsSyncedOnceEachSinkHasHadAList) {
  EXPECT_FALSE(cache_.AwaitSynced(absl::InfinitePast(), {}));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(cache_.AwaitSynced(absl::InfiniteFuture(), stopped.get_token()));
  List(*jobs_, {});
  std::jthread other([this] { List(*pods_, {}); });
  EXPECT_TRUE(cache_.AwaitSynced(absl::InfiniteFuture(), {}));
}

TEST(JobCacheProgress, IsToldFromWatchesAndOwnWrites) {
  std::vector<std::string> told;
  JobCache cache({.on_progress = [&](const std::string& key, const std::string& uid,
                                     const ProgressStatus& progress) {
    told.push_back(key + " " + uid + " " + ProgressSummary(progress.read));
  }});
  const auto sink = cache.MakeJobSink("");
  Json job = Job(1);
  sink->OnObject(job);
  EXPECT_THAT(told, IsEmpty());
  TfJobStatus status;
  status.progress = {.read = {.global_step = 5}};
  cache.NoteStatus("ns/j", "u", 2, status);
  cache.NoteStatus("ns/j", "other", 2, status);
  job = Job(3);
  job["status"] = {{"progress", {{"globalStep", 6}, {"lastStep", 10}}}};
  sink->OnObject(job);
  EXPECT_THAT(told, ElementsAre("ns/j u step 5", "ns/j u 6/10 60%"));
}

TEST(JobCacheConditions, AreThoseOfTheNamespace) {
  JobCache cache({});
  const auto sink = cache.MakeJobSink("");
  for (const char* ns : {"a", "ab", "b"}) {
    Json job = Job(1, ns);
    sink->OnObject(job);
  }
  EXPECT_EQ(cache.Conditions("").size(), 3U);
  EXPECT_EQ(cache.Conditions("a").size(), 1U);
  EXPECT_EQ(cache.Conditions("a").begin()->first, "a/j");
}

}  // namespace
}  // namespace tfjob
