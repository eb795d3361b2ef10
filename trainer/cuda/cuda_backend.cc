// Tells the plug-in what a model is, checks what comes in, and scales what comes back.
#include "trainer/cuda/cuda_backend.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/exit_codes.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/str_cat.h"
#include "trainer/cuda/describe_model.h"
#include "trainer/model/batch_check.h"
#include "trainer/model/device_name.h"

namespace trainer {
namespace {

class CudaProgram : public Program {
 public:
  CudaProgram(std::shared_ptr<const cuda::Plugin> plugin, std::shared_ptr<const Model> model,
              const ProgramOptions& options)
      : plugin_(std::move(plugin)), model_(std::move(model)), options_(options) {}
  ~CudaProgram() override {
    if (program_ != nullptr) plugin_->api().destroy(program_);
  }

  absl::Status Create(const TrainerCudaOptions& options) {
    const cuda::DescribedModel described = cuda::Describe(*model_);
    const TrainerCudaModel model = described.Raw();
    TrainerCudaError error = {};
    return cuda::Plugin::ToStatus(plugin_->api().create(&model, &options, &program_, &error),
                                  error);
  }

  absl::StatusOr<float> Gradients(const Batch& batch, std::span<const float> parameters,
                                  std::span<float> gradients) override {
    RETURN_IF_ERROR(CheckGradients(*model_, options_, batch, parameters, gradients));
    const TrainerCudaBatch raw = cuda::RawBatch(batch);
    TrainerCudaSums sums = {};
    TrainerCudaError error = {};
    RETURN_IF_ERROR(
        cuda::Plugin::ToStatus(plugin_->api().gradients(program_, &raw, parameters.data(),
                                                        gradients.data(), &sums, &error),
                               error));
    return LossOfSums(*model_, batch.size, sums.loss, sums.squares);
  }

  absl::Status Forward(const Batch& batch, std::span<const float> parameters,
                       std::span<float> outputs) override {
    RETURN_IF_ERROR(CheckBatch(*model_, options_.batch_size, batch, parameters));
    RETURN_IF_ERROR(CheckSize("outputs", outputs.size(), batch.size * model_->output_size()));
    const TrainerCudaBatch raw = cuda::RawBatch(batch);
    TrainerCudaError error = {};
    return cuda::Plugin::ToStatus(
        plugin_->api().forward(program_, &raw, parameters.data(), outputs.data(), &error), error);
  }

 private:
  const std::shared_ptr<const cuda::Plugin> plugin_;
  const std::shared_ptr<const Model> model_;
  const ProgramOptions options_;
  TrainerCudaProgram* program_ = nullptr;
};

class CudaBackend : public Backend {
 public:
  CudaBackend(std::shared_ptr<const cuda::Plugin> plugin, CudaBackendOptions options)
      : plugin_(std::move(plugin)), options_(std::move(options)) {}

  std::string_view name() const override { return "cuda"; }

  absl::StatusOr<std::unique_ptr<Program>> Compile(std::shared_ptr<const Model> model,
                                                   const ProgramOptions& options) override {
    if (options.batch_size < 1) {
      return base::UsageError(
          base::StrCat("the batch size must be at least 1, not ", options.batch_size));
    }
    if (options.compute_dtype == ComputeDtype::kBf16) {
      std::call_once(warned_, [] {
        base::LogWarning("bf16 is not there on GPUs yet: using f32; --allow_tf32 is faster");
      });
    }
    TrainerCudaOptions raw = {};
    ASSIGN_OR_RETURN(raw.device, DeviceFor(options.device));
    raw.training = options.training ? 1 : 0;
    raw.batch_size = options.batch_size;
    raw.memory_fraction = options_.memory_fraction;
    raw.allow_growth = options_.allow_growth ? 1 : 0;
    raw.allow_tf32 = options_.allow_tf32 ? 1 : 0;
    auto program = std::make_unique<CudaProgram>(plugin_, std::move(model), options);
    RETURN_IF_ERROR(program->Create(raw));
    return program;
  }

 private:
  absl::StatusOr<int> DeviceFor(const std::string& name) {
    if (name.empty()) return options_.devices[next_++ % options_.devices.size()];
    ASSIGN_OR_RETURN(const DeviceName device, ParseDeviceName(name));
    if (device.type == DeviceType::kGpu) return device.index;
    return base::UsageError(base::StrCat("the GPU backend cannot run on ", name));
  }

  const std::shared_ptr<const cuda::Plugin> plugin_;
  const CudaBackendOptions options_;
  std::atomic<size_t> next_{0};
  std::once_flag warned_;
};

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(std::shared_ptr<const cuda::Plugin> plugin,
                                         const CudaBackendOptions& options) {
  return std::make_unique<CudaBackend>(std::move(plugin), options);
}

}  // namespace trainer
