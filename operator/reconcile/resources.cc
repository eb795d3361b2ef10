#include "operator/reconcile/resources.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "operator/api/pod_requests.h"
#include "operator/api/quantity.h"
#include "operator/reconcile/pods.h"

namespace tfjob {
namespace {

constexpr double kMilli = 1000;

// What sums of fractions may be off, in thousandths: the smallest amount there is.
double ToleranceOf(double milli) { return 1e-6 + std::abs(milli) * 1e-12; }

// Whole units where it is whole, else thousandths, rounded up.
std::string QuantityOf(double amount) {
  const double milli = amount * kMilli;
  const double nearest = std::round(milli);
  const double rounded =
      std::abs(milli - nearest) <= ToleranceOf(milli) ? nearest : std::ceil(milli);
  if (std::fmod(rounded, kMilli) == 0) return absl::StrFormat("%.0f", rounded / kMilli);
  return absl::StrFormat("%.0fm", rounded);
}

}  // namespace

Resources RequestsOf(const TfJob& job, int pods) {
  std::vector<std::string> types;
  for (const auto& [type, replica] : *job.spec.replicas) types.push_back(type);
  std::stable_sort(types.begin(), types.end(), [](const std::string& a, const std::string& b) {
    return CreationRank(a) < CreationRank(b);
  });
  Amounts total;
  for (const std::string& type : types) {
    const int count = std::clamp(ReplicaCount(job.spec, type), 0, std::max(pods, 0));
    pods -= count;
    if (count == 0) continue;
    for (const auto& [name, amount] : RequestsOfPod(job.spec.replicas->at(type).pod_template)) {
      total[name] += amount * count;
    }
  }
  Resources out;
  for (const auto& [name, amount] : total) out[name] = QuantityOf(amount);
  return out;
}

bool SameResources(const Resources& a, const Resources& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    if (one == other) return true;
    const absl::StatusOr<double> left = ParseQuantity(one.second);
    const absl::StatusOr<double> right = ParseQuantity(other.second);
    return one.first == other.first && left.ok() && right.ok() &&
           std::abs(*left - *right) * kMilli <= ToleranceOf(*left * kMilli);
  });
}

}  // namespace tfjob
