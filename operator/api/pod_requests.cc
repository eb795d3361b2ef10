#include "operator/api/pod_requests.h"

#include <algorithm>
#include <utility>

#include "base/json_read.h"
#include "operator/api/names.h"
#include "operator/api/quantity.h"

namespace tfjob {
namespace {

void AddList(const Json& list, Amounts& out) {
  if (!list.is_object()) return;
  for (const auto& [name, quantity] : list.items()) {
    const absl::StatusOr<double> amount = ParseQuantity(base::Scalar(quantity));
    if (amount.ok()) out.emplace(name, *amount);  // what is there already wins
  }
}

Amounts AmountsOf(const Json& container) {
  Amounts out;
  const Json& resources = base::At(container, "resources");
  AddList(base::At(resources, "requests"), out);
  AddList(base::At(resources, "limits"), out);
  return out;
}

Amounts Sum(Amounts a, const Amounts& b) {
  for (const auto& [name, amount] : b) a[name] += amount;
  return a;
}

Amounts Max(Amounts a, const Amounts& b) {
  for (const auto& [name, amount] : b) a[name] = std::max(a[name], amount);
  return a;
}

}  // namespace

Amounts RequestsOfPod(const Json& pod) {
  const Json& spec = base::At(pod, "spec");
  Amounts beside;
  Amounts most;
  for (const Json& init : base::ArrayAt(spec, "initContainers")) {
    const Amounts own = AmountsOf(init);
    if (base::StringAt(init, "restartPolicy") == kRestartAlways) {
      beside = Sum(std::move(beside), own);
    } else {
      most = Max(std::move(most), Sum(beside, own));
    }
  }
  for (const Json& container : base::ArrayAt(spec, "containers")) {
    beside = Sum(std::move(beside), AmountsOf(container));
  }
  return Max(std::move(beside), most);
}

}  // namespace tfjob
