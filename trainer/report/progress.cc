#include "trainer/report/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/str_cat.h"

namespace trainer {
namespace {

constexpr absl::Duration kBarInterval = absl::Milliseconds(100);  // at most ten redraws a second

// JSON knows neither NaN nor infinity.
std::string JsonNumber(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

int64_t DefaultLogEvery(ProgressStyle style) {
  switch (style) {
    case ProgressStyle::kCluster:
    case ProgressStyle::kSigmoid:
      return 100;
    case ProgressStyle::kTowers:
      return 10;
    case ProgressStyle::kDistMnist:
      return 1;
    case ProgressStyle::kLinearRegression:
      return 1000;
  }
  return 100;
}

std::string FormatStepLine(ProgressStyle style, int worker, const StepReport& step,
                           const StepTiming& timing) {
  switch (style) {
    case ProgressStyle::kCluster:
      return absl::StrFormat(
          "After %d training steps (%d global steps), loss on training batch is %g. (%.3f "
          "sec/batch)",
          step.local_step, step.global_step, step.loss, timing.seconds_per_batch);
    case ProgressStyle::kTowers:
      return absl::StrFormat("step %d, loss = %.2f (%.1f examples/sec; %.3f sec/batch)",
                             step.local_step, step.loss, timing.examples_per_second,
                             timing.seconds_per_batch);
    case ProgressStyle::kDistMnist:
      return absl::StrFormat("%f: Worker %d: training step %d done (global step: %d)",
                             timing.unix_seconds, worker, step.local_step, step.global_step);
    case ProgressStyle::kSigmoid:
      return absl::StrFormat(
          "Step: %d,  Epoch: %2d,  Batch: %3d of %3d,  Cost: %.4f,  AvgTime: %3.2fms",
          step.global_step, step.epoch, step.batch, step.batches_per_epoch, step.loss,
          timing.seconds_per_batch * 1000.0);
    case ProgressStyle::kLinearRegression:
      return absl::StrFormat("step: %d, weight: %f, biase: %f, loss: %f", step.global_step,
                             step.weight, step.bias, step.loss);
  }
  return "";
}

std::string FormatStepJson(int worker, const StepReport& step, const StepTiming& timing) {
  return absl::StrFormat(R"({"event":"step","task":%d,"step":%d,"global_step":%d,"loss":%s,)"
                         R"("examples_per_sec":%s,"sec_per_batch":%s,"time":%.3f})",
                         worker, step.local_step, step.global_step, JsonNumber(step.loss),
                         JsonNumber(timing.examples_per_second),
                         JsonNumber(timing.seconds_per_batch), timing.unix_seconds);
}

std::string FormatClosingLines(ProgressStyle style, const FinalReport& report) {
  std::string lines;
  if (style == ProgressStyle::kDistMnist) {
    lines = absl::StrFormat("Training elapsed time: %f s\n", report.seconds);
    if (report.validation_cross_entropy) {
      absl::StrAppendFormat(&lines, "After %d training step(s), validation cross entropy = %g\n",
                            report.global_step, *report.validation_cross_entropy);
    }
  } else if (style == ProgressStyle::kSigmoid) {
    if (report.test_accuracy) {
      lines = absl::StrFormat("Test-Accuracy: %2.2f\n", *report.test_accuracy);
    }
    absl::StrAppendFormat(&lines, "Total Time: %3.2fs\n", report.seconds);
    if (report.final_cost) absl::StrAppendFormat(&lines, "Final Cost: %.4f\n", *report.final_cost);
  }
  return lines;
}

std::string FormatDone(const FinalReport& report) {
  std::string line =
      absl::StrFormat("done global_step=%d seconds=%.3f", report.global_step, report.seconds);
  if (report.test_accuracy) {
    absl::StrAppendFormat(&line, " test_accuracy=%.4f", *report.test_accuracy);
  }
  return line;
}

std::string FormatDoneJson(const FinalReport& report) {
  std::string line = absl::StrFormat(R"({"event":"done","global_step":%d,"seconds":%.3f)",
                                     report.global_step, report.seconds);
  const auto add = [&line](const char* name, const std::optional<double>& value) {
    if (value) absl::StrAppendFormat(&line, R"(,"%s":%s)", name, JsonNumber(*value));
  };
  add("test_accuracy", report.test_accuracy);
  add("validation_cross_entropy", report.validation_cross_entropy);
  add("final_cost", report.final_cost);
  return line + "}";
}

std::string FormatDuration(double seconds) {
  // Also false for NaN.
  if (!(seconds < 360000.0)) return "--:--";
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  if (hours > 0) return absl::StrFormat("%d:%02d:%02d", hours, minutes, whole % 60);
  return absl::StrFormat("%d:%02d", minutes, whole % 60);
}

std::string FormatBar(const BarState& state, int width) {
  const bool known_end = state.last_step > 0;
  std::string text = known_end ? absl::StrFormat(" %d/%d", state.global_step, state.last_step)
                               : absl::StrFormat("step %d", state.global_step);
  absl::StrAppendFormat(&text, "  loss %.4g  %.0f examples/s", state.loss,
                        state.examples_per_second);
  if (!known_end) return text.substr(0, static_cast<size_t>(std::max(0, width)));
  if (state.seconds_left) {
    absl::StrAppendFormat(&text, "  %s left", FormatDuration(*state.seconds_left));
  }
  const double part = std::clamp(
      static_cast<double>(state.global_step) / static_cast<double>(state.last_step), 0.0, 1.0);
  text = absl::StrFormat(" %3d%%", static_cast<int>(part * 100.0)) + text;
  const int room = std::min(20, width - static_cast<int>(text.size()) - 2);
  if (room < 4) return text.substr(1, static_cast<size_t>(std::max(0, width)));
  const auto filled = static_cast<size_t>(part * room);
  std::string bar(filled, '=');
  if (filled < static_cast<size_t>(room)) bar += '>';
  bar.resize(static_cast<size_t>(room), ' ');
  return base::StrCat("[", bar, "]", text);
}

void RateMeter::Add(absl::Time now, int64_t total) {
  if (!samples_.empty() && (total < samples_.back().second || now < samples_.back().first)) {
    samples_.clear();
  }
  // Samples closer than a fiftieth of the window change nothing that anyone could see.
  if (samples_.size() >= 2 && now - samples_[samples_.size() - 2].first < window_ / 50) {
    samples_.back() = {now, total};
  } else {
    samples_.emplace_back(now, total);
  }
  // Keeps one sample at or before the beginning of the window.
  while (samples_.size() > 2 && samples_[1].first <= now - window_) samples_.pop_front();
}

double RateMeter::per_second() const {
  if (samples_.size() < 2) return 0.0;
  const double seconds = absl::ToDoubleSeconds(samples_.back().first - samples_.front().first);
  if (seconds <= 0.0) return 0.0;
  return static_cast<double>(samples_.back().second - samples_.front().second) / seconds;
}

ProgressReporter::ProgressReporter(const ProgressOptions& options)
    : options_(options),
      log_every_(options.log_every != 0 ? options.log_every : DefaultLogEvery(options.style)),
      line_time_(options.clock->Now()) {
  bar_.last_step = options_.last_step;
  examples_rate_.Add(line_time_, 0);
  step_rate_.Add(line_time_, options_.first_step);
}

ProgressReporter::~ProgressReporter() { ClearBar(); }

bool ProgressReporter::WouldPrint(int64_t local_step) const {
  return log_every_ > 0 && local_step % log_every_ == 0;
}

void ProgressReporter::OnStep(const StepReport& step) {
  ++line_steps_;
  line_examples_ += step.examples;
  total_examples_ += step.examples;
  const bool print = WouldPrint(step.local_step);
  const bool draw = options_.bar && !options_.json;
  if (!print && !draw) return;
  const absl::Time now = options_.clock->Now();
  if (print) PrintStep(step, now);
  if (!draw || now - bar_time_ < kBarInterval) return;
  bar_.global_step = step.global_step;
  bar_.loss = step.loss;
  examples_rate_.Add(now, total_examples_);
  step_rate_.Add(now, step.global_step);
  DrawBar(now);
}

void ProgressReporter::PrintStep(const StepReport& step, absl::Time now) {
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(now - line_time_));
  StepTiming timing;
  timing.seconds_per_batch = seconds / static_cast<double>(line_steps_);
  timing.examples_per_second = static_cast<double>(line_examples_) / seconds;
  timing.unix_seconds = UnixSeconds(now);
  PrintLine(options_.json ? FormatStepJson(options_.worker, step, timing)
                          : FormatStepLine(options_.style, options_.worker, step, timing));
  line_time_ = now;
  line_steps_ = 0;
  line_examples_ = 0;
}

void ProgressReporter::PrintLine(const std::string& line) {
  const bool redraw = bar_shown_;
  ClearBar();
  Write(line + "\n");
  if (redraw) DrawBar(bar_time_);
}

void ProgressReporter::DrawBar(absl::Time now) {
  bar_.examples_per_second = examples_rate_.per_second();
  const double steps_per_second = step_rate_.per_second();
  bar_.seconds_left.reset();
  if (steps_per_second > 0.0) {
    bar_.seconds_left =
        static_cast<double>(std::max<int64_t>(0, bar_.last_step - bar_.global_step)) /
        steps_per_second;
  }
  // Back to the first column, the bar, and away with what the last one left to its right.
  Write(base::StrCat("\r", FormatBar(bar_, options_.bar_width - 1), "\x1b[K"));
  bar_shown_ = true;
  bar_time_ = now;
}

void ProgressReporter::ClearBar() {
  if (!bar_shown_) return;
  Write("\r\x1b[K");
  bar_shown_ = false;
}

void ProgressReporter::Finish(const FinalReport& report) {
  ClearBar();
  if (options_.json) {
    Write(FormatDoneJson(report) + "\n");
    return;
  }
  Write(FormatClosingLines(options_.style, report) + FormatDone(report) + "\n");
}

// Flushed at once: whoever reads a pipe wants the line now.
void ProgressReporter::Write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), options_.output);
  std::fflush(options_.output);
}

}  // namespace trainer
