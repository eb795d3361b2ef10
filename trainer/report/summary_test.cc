#include "trainer/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "trainer/data/crc32c.h"
#include "trainer/data/test_folder.h"
#include "trainer/report/event.pb.h"
#include "trainer/report/summary_graph.h"
#include "trainer/report/summary_histogram.h"

namespace trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Splits an event file into its events, checking both checksums of each.
std::vector<event::Event> ReadEvents(const TestFolder& folder) {
  const auto names = ListFolder(folder.path());
  EXPECT_EQ(names->size(), 1u);
  EXPECT_THAT(names->at(0), StartsWith("events.out.tfevents."));
  const std::string bytes = folder.Read(names->at(0));
  std::vector<event::Event> events;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, rest.data(), 8);
    std::memcpy(&crc, rest.data() + 8, 4);
    EXPECT_EQ(UnmaskCrc32c(crc), Crc32c(rest.substr(0, 8)));
    EXPECT_LE(length + 16, rest.size());
    const std::string_view data = rest.substr(12, length);
    std::memcpy(&crc, rest.data() + 12 + length, 4);
    EXPECT_EQ(UnmaskCrc32c(crc), Crc32c(data));
    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(data)));
    rest.remove_prefix(16 + length);
  }
  return events;
}

std::unique_ptr<SummaryWriter> MakeWriter(const TestFolder& folder, SummaryOptions options = {}) {
  options.dir = folder.path();
  auto writer = SummaryWriter::Create(options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

Model TwoLayers() {
  ModelSpec spec;
  spec.input_shape = {4};
  LayerSpec first;
  first.name = "layer1";
  first.units = 3;
  first.l2 = true;
  LayerSpec relu;
  relu.kind = LayerKind::kRelu;
  LayerSpec second;
  second.name = "layer2";
  second.units = 2;
  second.device = "/gpu:0";
  spec.layers = {first, relu, second};
  return *Model::Create(spec);
}

TEST(SummaryTest, BeginsWithTheFileVersion) {
  const TestFolder folder;
  ASSERT_TRUE(MakeWriter(folder)->Close().ok());
  const auto events = ReadEvents(folder);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
}

TEST(SummaryTest, WritesScalarsWithStepAndTime) {
  const TestFolder folder;
  base::FakeClock clock(absl::FromUnixMillis(1500250));
  SummaryOptions options;
  options.clock = &clock;
  auto writer = MakeWriter(folder, options);
  writer->AddScalar(7, "loss", 0.5f);
  ASSERT_TRUE(writer->Close().ok());
  const auto events = ReadEvents(folder);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[1].wall_time(), 1500.25);
  EXPECT_EQ(events[1].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
}

TEST(SummaryTest, LosesNothingAtTheEnd) {
  const TestFolder folder;
  {
    auto writer = MakeWriter(folder);
    for (int i = 0; i < 5000; ++i) writer->AddScalar(i, "loss", 1.0f);
  }
  EXPECT_EQ(ReadEvents(folder).size(), 5001u);
}

TEST(SummaryTest, ManyThreadsMayAdd) {
  const TestFolder folder;
  {
    SummaryOptions options;
    options.queue_bytes = 1000;  // makes the callers wait for the writer
    auto writer = MakeWriter(folder, options);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&writer] {
        for (int i = 0; i < 200; ++i) writer->AddScalar(i, "loss", 1.0f);
      });
    }
    threads.clear();
    EXPECT_TRUE(writer->Flush().ok());
    EXPECT_EQ(ReadEvents(folder).size(), 801u);
  }
}

TEST(SummaryTest, FlushWritesBeforeTheIntervalIsOver) {
  const TestFolder folder;
  SummaryOptions options;
  options.flush_interval = absl::Hours(1);
  auto writer = MakeWriter(folder, options);
  writer->AddScalar(1, "loss", 1.0f);
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(ReadEvents(folder).size(), 2u);
}

class FullVolume : public Files {
 public:
  ssize_t Write(int, const void*, size_t) override {
    errno = ENOSPC;
    return -1;
  }
};

TEST(SummaryTest, AFullVolumeIsReportedOnceAndStopsNothing) {
  const TestFolder folder;
  FullVolume files;
  SummaryOptions options;
  options.files = &files;
  ::testing::internal::CaptureStderr();
  auto writer = MakeWriter(folder, options);
  for (int i = 0; i < 3; ++i) {
    writer->AddScalar(i, "loss", 1.0f);
    EXPECT_THAT(writer->Flush().message(), HasSubstr("No space left"));
  }
  EXPECT_THAT(writer->Close().message(), HasSubstr(folder.path()));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("no more summaries");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("no more summaries", first + 1), std::string::npos);
}

TEST(SummaryTest, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  folder.Write("x", "");
  SummaryOptions options;
  options.dir = folder.path() + "/x/logs";
  EXPECT_THAT(SummaryWriter::Create(options).status().message(), HasSubstr(folder.path() + "/x"));
}

TEST(HistogramTest, PutsEveryValueBelowItsLimit) {
  const std::vector<double>& limits = HistogramLimits();
  std::vector<double> values = {0.0, -0.0, 1e-13, -1e-13, 1e30, -1e30, 1.0, -1.0, 3.5e-7};
  for (const double limit : limits) {
    values.push_back(limit);
    values.push_back(std::nextafter(limit, 0.0));
  }
  for (const double value : values) {
    const auto expected = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
    const auto last = static_cast<std::ptrdiff_t>(limits.size()) - 1;
    EXPECT_EQ(HistogramBucket(value), static_cast<size_t>(std::min(expected, last))) << value;
  }
}

TEST(HistogramTest, HasTheMomentsOfItsValues) {
  const float values[] = {1.0f, 2.0f, -3.0f, 0.0f};
  const event::Histogram histogram = MakeHistogram(values);
  EXPECT_EQ(histogram.min(), -3.0);
  EXPECT_EQ(histogram.max(), 2.0);
  EXPECT_EQ(histogram.num(), 4.0);
  EXPECT_EQ(histogram.sum(), 0.0);
  EXPECT_EQ(histogram.sum_squares(), 14.0);
  double count = 0;
  for (const double bucket : histogram.bucket()) count += bucket;
  EXPECT_EQ(count, 4.0);
}

TEST(HistogramTest, JoinsRunsOfEmptyBuckets) {
  const float values[] = {1.0f};
  const event::Histogram histogram = MakeHistogram(values);
  EXPECT_THAT(histogram.bucket(), ElementsAre(0, 1, 0));
  EXPECT_LE(histogram.bucket_limit(0), 1.0);
  EXPECT_GT(histogram.bucket_limit(1), 1.0);
}

TEST(HistogramTest, LeavesOutWhatIsNotFinite) {
  const float values[] = {std::nanf(""), std::numeric_limits<float>::infinity(), 1.0f};
  EXPECT_EQ(MakeHistogram(values).num(), 1.0);
  EXPECT_EQ(MakeHistogram({}).num(), 0.0);
  EXPECT_EQ(MakeHistogram({}).max(), 0.0);
}

TEST(GraphTest, ShowsVariablesOnTheirPs) {
  GraphDevices devices;
  devices.default_device = "/job:worker/task:0/device:CPU:0";
  devices.variables["layer1/weights"] = "/job:ps/task:1/device:CPU:0";
  const Model model = TwoLayers();
  const event::GraphDef graph = MakeGraph(model, devices);
  std::map<std::string, event::NodeDef> nodes;
  for (const event::NodeDef& node : graph.node()) {
    EXPECT_TRUE(nodes.emplace(node.name(), node).second) << node.name();
    for (const std::string& input : node.input()) EXPECT_TRUE(nodes.contains(input)) << input;
  }
  EXPECT_EQ(nodes["layer1/weights"].device(), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(nodes["layer1/weights"].op(), "VariableV2");
  EXPECT_EQ(nodes["layer1/MatMul"].device(), "/job:worker/task:0/device:CPU:0");
  EXPECT_EQ(nodes["layer2/MatMul"].device(), "/gpu:0");
  EXPECT_THAT(nodes["layer1/MatMul"].input(), ElementsAre("input", "layer1/weights"));
  EXPECT_THAT(nodes["loss/total"].input(), ElementsAre("loss/Mean", "layer1/weights/L2Loss"));
}

TEST(GraphTest, IsWrittenAsAnEvent) {
  const TestFolder folder;
  {
    auto writer = MakeWriter(folder);
    writer->AddGraph(TwoLayers(), {});
  }
  const auto events = ReadEvents(folder);
  ASSERT_EQ(events.size(), 2u);
  event::GraphDef graph;
  ASSERT_TRUE(graph.ParseFromString(events[1].graph_def()));
  EXPECT_GT(graph.node_size(), 8);
}

}  // namespace
}  // namespace trainer
