#include "operator/runtime/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace runtime {
namespace {

class CounterImpl : public Counter {
 public:
  explicit CounterImpl(prometheus::Counter* counter) : counter_(*counter) {}
  void Increment(double by) override { counter_.Increment(by); }
  double value() const override { return counter_.Value(); }
  void RaiseTo(double total) override {
    absl::MutexLock lock(&mutex_);
    if (const double missing = total - counter_.Value(); missing > 0) counter_.Increment(missing);
  }

 private:
  absl::Mutex mutex_;  // between look and leap of RaiseTo
  prometheus::Counter& counter_;
};

class GaugeImpl : public Gauge {
 public:
  explicit GaugeImpl(prometheus::Gauge* gauge) : gauge_(*gauge) {}
  void Set(double value) override { gauge_.Set(value); }
  void Add(double by) override { gauge_.Increment(by); }
  double value() const override { return gauge_.Value(); }

 private:
  prometheus::Gauge& gauge_;
};

class HistogramImpl : public Histogram {
 public:
  explicit HistogramImpl(prometheus::Histogram* histogram) : histogram_(*histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

// One kind of series, by name and labels.
template <typename Wrapper, typename Library>
class Shelf {
 public:
  template <typename Builder, typename... Args>
  Wrapper* Get(const Builder& builder, prometheus::Registry& registry, const std::string& name,
               const std::string& help, const Labels& labels, const Args&... args) {
    Series& series = series_[{name, labels}];
    if (series.wrapper) return series.wrapper.get();
    series.family = &builder().Name(name).Help(help).Register(registry);
    series.metric = &series.family->Add(labels, args...);
    series.wrapper = std::make_unique<Wrapper>(series.metric);
    return series.wrapper.get();
  }
  void Remove(const std::string& name, const Labels& labels) {
    const auto found = series_.find({name, labels});
    if (found == series_.end()) return;
    found->second.family->Remove(found->second.metric);
    series_.erase(found);
  }

 private:
  struct Series {
    prometheus::Family<Library>* family = nullptr;
    Library* metric = nullptr;
    std::unique_ptr<Wrapper> wrapper;
  };
  std::map<std::pair<std::string, Labels>, Series> series_;
};

class MetricsImpl : public Metrics {
 public:
  Counter* GetCounter(const std::string& name, const std::string& help,
                      const Labels& labels) override {
    absl::MutexLock lock(&mutex_);
    return counters_.Get(prometheus::BuildCounter, registry_, name, help, labels);
  }

  Gauge* GetGauge(const std::string& name, const std::string& help, const Labels& labels) override {
    absl::MutexLock lock(&mutex_);
    return gauges_.Get(prometheus::BuildGauge, registry_, name, help, labels);
  }

  Histogram* GetHistogram(const std::string& name, const std::string& help, const Labels& labels,
                          const std::vector<double>& buckets) override {
    absl::MutexLock lock(&mutex_);
    return histograms_.Get(prometheus::BuildHistogram, registry_, name, help, labels, buckets);
  }

  void Remove(const std::string& name, const Labels& labels) override {
    absl::MutexLock lock(&mutex_);
    counters_.Remove(name, labels);
    gauges_.Remove(name, labels);
    histograms_.Remove(name, labels);
  }

  std::unique_ptr<Sampler> AddSampler(std::function<void()> sample) override {
    absl::MutexLock lock(&sampler_mutex_);
    return std::make_unique<SamplerImpl>(this,
                                         samplers_.insert(samplers_.end(), std::move(sample)));
  }

  std::string Render() override {
    {
      // Held over the calls, so that a sampler can end only between them.
      absl::MutexLock lock(&sampler_mutex_);
      for (const std::function<void()>& sample : samplers_) sample();
    }
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  using Samplers = std::list<std::function<void()>>;
  class SamplerImpl : public Sampler {
   public:
    SamplerImpl(MetricsImpl* metrics, Samplers::iterator place)
        : metrics_(*metrics), place_(place) {}
    ~SamplerImpl() override {
      absl::MutexLock lock(&metrics_.sampler_mutex_);
      metrics_.samplers_.erase(place_);
    }

   private:
    MetricsImpl& metrics_;
    const Samplers::iterator place_;
  };

  // Merge: a name that comes again with other labels is the same family.
  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};

  absl::Mutex sampler_mutex_;  // taken before mutex_
  Samplers samplers_ ABSL_GUARDED_BY(sampler_mutex_);

  absl::Mutex mutex_;
  Shelf<CounterImpl, prometheus::Counter> counters_ ABSL_GUARDED_BY(mutex_);
  Shelf<GaugeImpl, prometheus::Gauge> gauges_ ABSL_GUARDED_BY(mutex_);
  Shelf<HistogramImpl, prometheus::Histogram> histograms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metrics> Metrics::Create() { return std::make_unique<MetricsImpl>(); }

std::vector<double> ExponentialBuckets(double start, double factor, int count) {
  std::vector<double> buckets;
  for (double bound = start; static_cast<int>(buckets.size()) < count; bound *= factor) {
    buckets.push_back(bound);
  }
  return buckets;
}

}  // namespace runtime
