// What a task prints while it trains: the classic lines, JSON lines, a progress bar on a terminal,
// and the machine-readable last line. Formatting is PURE; ProgressReporter decides when to print.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"

namespace trainer {

// Whose lines to print; follows from the preset and the number of towers.
enum class ProgressStyle { kCluster, kTowers, kDistMnist, kSigmoid, kLinearRegression };

// Local steps between two lines when --log_every is not given.
int64_t DefaultLogEvery(ProgressStyle style);

// One finished training step of this task.
struct StepReport {
  int64_t local_step = 0;   // steps of this task, from 1
  int64_t global_step = 0;  // after this step
  double loss = 0.0;
  int64_t examples = 0;  // in this step
  // kSigmoid only.
  int64_t epoch = 0;  // from 1
  int64_t batch = 0;  // in the epoch, from 1
  int64_t batches_per_epoch = 0;
  // kLinearRegression only.
  double weight = 0.0;
  double bias = 0.0;
};

// What the clock adds to a StepReport.
struct StepTiming {
  double seconds_per_batch = 0.0;    // mean since the line before
  double examples_per_second = 0.0;  // since the line before
  double unix_seconds = 0.0;         // now
};

// One line, without a line end.
std::string FormatStepLine(ProgressStyle style, int worker, const StepReport& step,
                           const StepTiming& timing);
// {"event":"step","task":…,"step":…,"global_step":…,"loss":…,"examples_per_sec":…,
//  "sec_per_batch":…,"time":…}: a loss that is not finite is null.
std::string FormatStepJson(int worker, const StepReport& step, const StepTiming& timing);

// The end of a run. Fields that are not known are left out.
struct FinalReport {
  int64_t local_steps = 0;
  int64_t global_step = 0;
  double seconds = 0.0;
  std::optional<double> test_accuracy;             // 0 … 1
  std::optional<double> validation_cross_entropy;  // kDistMnist
  std::optional<double> final_cost;                // kSigmoid
};
// The style's own closing lines, each ended by '\n'; may be empty.
std::string FormatClosingLines(ProgressStyle style, const FinalReport& report);
// `done global_step=200 seconds=3.214 test_accuracy=0.9812`.
std::string FormatDone(const FinalReport& report);
std::string FormatDoneJson(const FinalReport& report);

// `[=====>    ]  53% 530/1000  loss 0.1234  41203 examples/s  0:12 left`, at most `width` columns.
// last_step 0 = unknown: no bar, no time left.
struct BarState {
  int64_t global_step = 0;
  int64_t last_step = 0;
  double loss = 0.0;
  double examples_per_second = 0.0;
  std::optional<double> seconds_left;
};
std::string FormatBar(const BarState& state, int width);

// "0:07", "3:25", "1:02:09".
std::string FormatDuration(double seconds);

// Growth per second of a counter over the last `window`. Never negative: a counter that goes back
// (a restored checkpoint) starts the window anew. Not thread-safe.
class RateMeter {
 public:
  explicit RateMeter(absl::Duration window = absl::Seconds(5)) : window_(window) {}
  void Add(absl::Time now, int64_t total);
  double per_second() const;  // 0 until two samples lie apart

 private:
  const absl::Duration window_;
  std::deque<std::pair<absl::Time, int64_t>> samples_;
};

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::kCluster;
  int worker = 0;              // task index, for the lines that name it
  int64_t log_every = 0;       // local steps between lines; 0 = the style's own, -1 = never
  bool json = false;           // JSON lines in place of the classic ones and of the bar
  bool bar = false;            // draw a bar: stdout is a terminal
  int bar_width = 80;          // columns
  int64_t first_step = 0;      // global step at which this task starts or resumes
  int64_t last_step = 0;       // global step at which training ends; 0 = unknown
  std::FILE* output = stdout;  // borrowed
  base::Clock* clock = base::Clock::Real();
};

// Not thread-safe: owned by the training loop. OnStep costs about 50 ns when it prints nothing.
class ProgressReporter {
 public:
  explicit ProgressReporter(const ProgressOptions& options);
  ~ProgressReporter();  // takes the bar off the terminal

  void OnStep(const StepReport& step);
  // Whether OnStep for this local step would print a line: lets the caller fetch values only then.
  bool WouldPrint(int64_t local_step) const;
  // Prints a line of the caller's, above the bar.
  void PrintLine(const std::string& line);
  // Closing lines and the last line. Call once.
  void Finish(const FinalReport& report);

 private:
  void PrintStep(const StepReport& step, absl::Time now);
  void DrawBar(absl::Time now);
  void ClearBar();
  void Write(const std::string& text);

  const ProgressOptions options_;
  const int64_t log_every_;
  absl::Time line_time_;    // of the line before
  int64_t line_steps_ = 0;  // local steps since then
  int64_t line_examples_ = 0;
  int64_t total_examples_ = 0;
  absl::Time bar_time_ = absl::InfinitePast();
  bool bar_shown_ = false;
  BarState bar_;
  RateMeter examples_rate_;
  RateMeter step_rate_;
};

}  // namespace trainer
