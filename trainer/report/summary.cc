#include "trainer/report/summary.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/data/crc32c.h"
#include "trainer/report/event.pb.h"
#include "trainer/report/summary_graph.h"
#include "trainer/report/summary_histogram.h"

namespace trainer {
namespace {

// More queued bytes than this wake the writer before its time.
constexpr int64_t kWakeBytes = 256 << 10;

// An event on its way to the file. Histograms are counted by the writer.
struct Pending {
  event::Event event;
  std::vector<float> values;
  int64_t bytes = 0;
};

// One TFRecord: length, its masked CRC, the data, its masked CRC; numbers little-endian.
void AppendRecord(std::string_view data, std::string* out) {
  const auto append_number = [out](auto number) {
    out->append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const uint64_t length = data.size();
  append_number(length);
  append_number(
      MaskCrc32c(Crc32c(std::string_view(reinterpret_cast<const char*>(&length), sizeof length))));
  out->append(data);
  append_number(MaskCrc32c(Crc32c(data)));
}

class SummaryWriterImpl : public SummaryWriter {
 public:
  SummaryWriterImpl(const SummaryOptions& options, std::string path, int fd)
      : options_(options), path_(std::move(path)), fd_(fd) {
    event::Event version;
    version.set_file_version("brain.Event:2");
    Queue(std::move(version), {});
    thread_ = std::thread([this] { Run(); });
  }
  ~SummaryWriterImpl() override { (void)Close(); }

  void AddScalar(int64_t step, std::string_view tag, float value) override {
    event::Event event = MakeEvent(step, tag);
    event.mutable_summary()->mutable_value(0)->set_simple_value(value);
    Queue(std::move(event), {});
  }

  void AddHistogram(int64_t step, std::string_view tag, std::span<const float> values) override {
    Queue(MakeEvent(step, tag), {values.begin(), values.end()});
  }

  void AddGraph(const Model& model, const GraphDevices& devices) override {
    event::Event event;
    event.set_graph_def(MakeGraph(model, devices).SerializeAsString());
    Queue(std::move(event), {});
  }

  absl::Status Flush() override {
    absl::MutexLock lock(&mutex_);
    const int64_t wanted = added_;
    flush_to_ = std::max(flush_to_, wanted);
    const auto written = [this, wanted]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return written_ >= wanted; };
    mutex_.Await(absl::Condition(&written));
    return status_;
  }

  absl::Status Close() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    absl::MutexLock join_lock(&join_mutex_);
    if (thread_.joinable()) {
      thread_.join();
      // A network file system may report a full volume only now.
      if (options_.files->Close(fd_) < 0) Fail(FileError("close", errno));
    }
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  static event::Event MakeEvent(int64_t step, std::string_view tag) {
    event::Event event;
    event.set_step(step);
    event.mutable_summary()->add_value()->set_tag(std::string(tag));
    return event;
  }

  void Queue(event::Event event, std::vector<float> values) {
    event.set_wall_time(absl::ToDoubleSeconds(options_.clock->Now() - absl::UnixEpoch()));
    Pending pending = {std::move(event), std::move(values), 0};
    pending.bytes = static_cast<int64_t>(pending.event.ByteSizeLong() + sizeof(Pending) +
                                         pending.values.size() * sizeof(float));
    absl::MutexLock lock(&mutex_);
    const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return queued_bytes_ < options_.queue_bytes || stopping_;
    };
    mutex_.Await(absl::Condition(&has_room));
    if (stopping_ || !status_.ok()) return;
    queued_bytes_ += pending.bytes;
    ++added_;
    queue_.push_back(std::move(pending));
  }

  void Run() {
    const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || flush_to_ > written_ || queued_bytes_ > wake_bytes_;
    };
    bool last = false;
    while (!last) {
      std::deque<Pending> batch;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.AwaitWithTimeout(absl::Condition(&has_work), options_.flush_interval);
        last = stopping_;
        batch.swap(queue_);
        queued_bytes_ = 0;
      }
      Write(std::move(batch));
    }
  }

  void Write(std::deque<Pending> batch) {
    std::string bytes;
    const auto count = static_cast<int64_t>(batch.size());
    for (; !batch.empty(); batch.pop_front()) {
      Pending& pending = batch.front();
      if (!pending.values.empty()) {
        *pending.event.mutable_summary()->mutable_value(0)->mutable_histo() =
            MakeHistogram(pending.values);
      }
      AppendRecord(pending.event.SerializeAsString(), &bytes);
    }
    if (ok()) {
      absl::Status status = WriteFully(options_.files, fd_, bytes, path_);
      if (!status.ok()) Fail(std::move(status));
    }
    absl::MutexLock lock(&mutex_);
    written_ += count;
  }

  bool ok() {
    absl::MutexLock lock(&mutex_);
    return status_.ok();
  }

  absl::Status FileError(std::string_view action, int error) const {
    return base::DataError(base::StrCat("cannot ", action, " ", path_, ": ", std::strerror(error)));
  }

  // Keeps and logs the first error.
  void Fail(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      status_ = status;
    }
    base::LogError("no more summaries are written", {{"err", status.message()}});
  }

  const SummaryOptions options_;
  const std::string path_;
  const int fd_;
  const int64_t wake_bytes_ = std::min(kWakeBytes, options_.queue_bytes / 4);

  absl::Mutex mutex_;
  std::deque<Pending> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t added_ ABSL_GUARDED_BY(mutex_) = 0;     // events queued so far
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;   // of them, written or dropped
  int64_t flush_to_ ABSL_GUARDED_BY(mutex_) = 0;  // someone waits until this many are written
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex join_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Create(
    const SummaryOptions& options) {
  RETURN_IF_ERROR(MakeFolders(options.files, options.dir));
  char host[256] = "localhost";
  (void)::gethostname(host, sizeof host - 1);
  // TensorBoard reads the files of a folder in the order of their names: seconds first. Two writers
  // of one second and host differ in the last part.
  static std::atomic<int> counter{0};
  const std::string path =
      base::StrCat(options.dir, "/events.out.tfevents.", absl::ToUnixSeconds(options.clock->Now()),
                   ".", std::string_view(host), ".", ::getpid(), ".", counter.fetch_add(1));
  const int fd = options.files->Open(path, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0) {
    return base::DataError(base::StrCat("cannot create ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<SummaryWriter>(new SummaryWriterImpl(options, path, fd));
}

}  // namespace trainer
