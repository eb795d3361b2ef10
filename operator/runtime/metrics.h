// Counters, gauges and histograms with labels, and their text for Prometheus. A thin layer over
// prometheus-cpp, so that nothing else need know it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace runtime {

using Labels = std::map<std::string, std::string>;

// One time series each. Thread-safe. Owned by Metrics; valid as long as it, or until Remove.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Increment(double by = 1.0) = 0;
  virtual double value() const = 0;
  // For totals that somebody else keeps: never lowers it.
  virtual void RaiseTo(double total) = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double by) = 0;
  virtual double value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// Keeps a sampler registered as long as it lives. Its end waits for a sampler that is running.
class Sampler {
 public:
  virtual ~Sampler() = default;
};

// Thread-safe.
class Metrics {
 public:
  virtual ~Metrics() = default;
  static std::unique_ptr<Metrics> Create();

  // The series of this name and these labels; the first call makes it (counters at 0), so ask for
  // those whose labels are known at the start. REQUIRES: names as Prometheus wants them
  // ([a-zA-Z_][a-zA-Z0-9_]*); one kind, help and set of label names for a name.
  virtual Counter* GetCounter(const std::string& name, const std::string& help,
                              const Labels& labels = {}) = 0;
  virtual Gauge* GetGauge(const std::string& name, const std::string& help,
                          const Labels& labels = {}) = 0;
  // buckets: upper bounds, ascending, without infinity; those of the first call stay.
  virtual Histogram* GetHistogram(const std::string& name, const std::string& help,
                                  const Labels& labels, const std::vector<double>& buckets) = 0;
  // Ends a series, as when the object that its labels name is gone. No-op if there is none.
  virtual void Remove(const std::string& name, const Labels& labels) = 0;

  // `sample` is called before each Render, to bring gauges up to date. It must not add or end
  // samplers.
  [[nodiscard]] virtual std::unique_ptr<Sampler> AddSampler(std::function<void()> sample) = 0;

  // All series in Prometheus's text format 0.0.4.
  virtual std::string Render() = 0;
};

// The content type that goes with Render.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// `count` bounds: start, start × factor, …
std::vector<double> ExponentialBuckets(double start, double factor, int count);

}  // namespace runtime
