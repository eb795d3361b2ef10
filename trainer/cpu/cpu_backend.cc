// Checks what comes in, picks the plan for the batch's size, and adds up the loss.
#include "trainer/cpu/cpu_backend.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cpu/onednn.h"
#include "trainer/cpu/plan.h"
#include "trainer/model/batch_check.h"
#include "trainer/model/device_name.h"

namespace trainer {
namespace {

using cpu::Buffers;
using cpu::Plan;
using cpu::StepArgs;

// Batch sizes that a program keeps compiled besides its own.
constexpr size_t kKeptPlans = 4;

class CpuProgram : public Program {
 public:
  CpuProgram(std::shared_ptr<const Model> model, const ProgramOptions& options,
             std::shared_ptr<Team> team, dnnl::engine engine)
      : model_(std::move(model)),
        options_(options),
        engine_(std::move(engine)),
        buffers_(*model_, options.batch_size, options.training),
        team_(std::move(team)) {}

  // The plan for `batch` examples, compiled if it is not there yet.
  absl::StatusOr<Plan*> PlanFor(int64_t batch) {
    if (last_plan_ != nullptr && last_batch_ == batch) return last_plan_;
    auto found = plans_.find(batch);
    if (found == plans_.end()) {
      if (plans_.size() > kKeptPlans) DropSmallPlans();
      ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan,
                       Plan::Create(*model_, options_, engine_, &buffers_, batch, team_->size()));
      found = plans_.emplace(batch, std::move(plan)).first;
    }
    last_batch_ = batch;
    last_plan_ = found->second.get();
    return last_plan_;
  }

  absl::StatusOr<float> Gradients(const Batch& batch, std::span<const float> parameters,
                                  std::span<float> gradients) override {
    RETURN_IF_ERROR(CheckGradients(*model_, options_, batch, parameters, gradients));
    ASSIGN_OR_RETURN(Plan * plan, PlanFor(batch.size));
    const StepArgs args = {.inputs = batch.inputs.data(),
                           .parameters = parameters.data(),
                           .gradients = gradients.data(),
                           .training = true,
                           .dropout_seed = batch.dropout_seed};
    const Plan::Sums sums = plan->Gradients(batch, args, *team_);
    return LossOfSums(*model_, batch.size, sums.loss, sums.squares);
  }

  absl::Status Forward(const Batch& batch, std::span<const float> parameters,
                       std::span<float> outputs) override {
    RETURN_IF_ERROR(CheckBatch(*model_, options_.batch_size, batch, parameters));
    RETURN_IF_ERROR(CheckSize("outputs", outputs.size(), batch.size * model_->output_size()));
    ASSIGN_OR_RETURN(Plan * plan, PlanFor(batch.size));
    const StepArgs args = {.inputs = batch.inputs.data(),
                           .parameters = parameters.data(),
                           .gradients = nullptr,
                           .training = false,
                           .dropout_seed = 0};
    plan->Forward(args, *team_);
    std::copy_n(buffers_.final_output(), outputs.size(), outputs.data());
    return absl::OkStatus();
  }

 private:
  void DropSmallPlans() {
    last_plan_ = nullptr;
    std::erase_if(plans_, [&](const auto& item) { return item.first != options_.batch_size; });
  }

  const std::shared_ptr<const Model> model_;
  const ProgramOptions options_;
  const dnnl::engine engine_;
  Buffers buffers_;
  const std::shared_ptr<Team> team_;
  std::map<int64_t, std::unique_ptr<Plan>> plans_;  // by batch size
  int64_t last_batch_ = 0;
  Plan* last_plan_ = nullptr;
};

absl::Status CheckOptions(const ProgramOptions& options) {
  if (options.batch_size < 1) {
    return base::UsageError(
        base::StrCat("the batch size must be at least 1, not ", options.batch_size));
  }
  if (options.threads < 1) {
    return base::UsageError(
        base::StrCat("the number of threads must be at least 1, not ", options.threads));
  }
  if (options.device.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const DeviceName device, ParseDeviceName(options.device));
  if (device.type == DeviceType::kCpu) return absl::OkStatus();
  return base::UsageError(base::StrCat("the CPU backend cannot run on ", options.device));
}

class CpuBackend : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<Program>> Compile(std::shared_ptr<const Model> model,
                                                   const ProgramOptions& options) override {
    RETURN_IF_ERROR(CheckOptions(options));
    ProgramOptions usable = options;
    if (usable.compute_dtype == ComputeDtype::kBf16 && !CpuHasBf16()) {
      std::call_once(warned_, [] {
        base::LogWarning("this CPU has no bf16 instructions (AVX-512 BF16 or AMX): using f32");
      });
      usable.compute_dtype = ComputeDtype::kF32;
    }
    dnnl::engine engine;
    RETURN_IF_ERROR(
        cpu::Guarded("a CPU engine", [&] { engine = dnnl::engine(dnnl::engine::kind::cpu, 0); }));
    std::shared_ptr<Team> team = usable.team;
    if (team == nullptr) {
      team = std::make_shared<Team>(cpu::UsefulThreads(*model, usable.batch_size, usable.threads));
    }
    std::unique_ptr<CpuProgram> program;
    RETURN_IF_ERROR(cpu::Guarded("the buffers of a model", [&] {
      program = std::make_unique<CpuProgram>(std::move(model), usable, std::move(team),
                                             std::move(engine));
    }));
    RETURN_IF_ERROR(program->PlanFor(usable.batch_size).status());
    return program;
  }

 private:
  std::once_flag warned_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

bool CpuHasBf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace trainer
