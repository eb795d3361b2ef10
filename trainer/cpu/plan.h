// A model compiled for one batch size: its layers over shared buffers, and the phases of a step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "trainer/cpu/layer.h"
#include "trainer/model/backend.h"
#include "trainer/model/team.h"

namespace trainer::cpu {

// f32 buffers for the outputs of layers and their gradients, sized for the largest batch and shared
// by the plans of one program, which never run at the same time.
class Buffers {
 public:
  Buffers(const Model& model, int64_t batch, bool training);

  // Where layer `index` finds and leaves its values.
  Tensors TensorsOf(size_t index) const { return tensors_[index]; }
  float* final_output() const { return final_output_; }
  float* final_gradient() const { return final_gradient_; }
  float* scratch() { return scratch_.data(); }  // batch · output_size
  // Whether layer `index` does the ReLU that follows it; that ReLU is then left out.
  bool FusesRelu(size_t index) const { return fuses_relu_[index]; }
  bool IsLeftOut(size_t index) const { return left_out_[index]; }

 private:
  void PlaceOutputs(const Model& model, int64_t batch);
  void PlaceGradients(const Model& model, int64_t batch);
  float* Allocate(int64_t size);

  std::vector<std::vector<float>> memory_;
  std::vector<Tensors> tensors_;
  std::vector<bool> fuses_relu_;
  std::vector<bool> left_out_;
  std::vector<float> scratch_;
  float* final_output_ = nullptr;
  float* final_gradient_ = nullptr;
};

class Plan {
 public:
  static absl::StatusOr<std::unique_ptr<Plan>> Create(const Model& model,
                                                      const ProgramOptions& options,
                                                      const dnnl::engine& engine, Buffers* buffers,
                                                      int64_t batch, int threads);

  // The loss without its L2 term, summed over the examples, and Σ w² of that term.
  struct Sums {
    double loss = 0.0;
    double squares = 0.0;
  };
  // Forward, loss, backward. REQUIRES: options.training, batch.size as created, labels in range.
  Sums Gradients(const Batch& batch, const StepArgs& args, Team& team);
  // Leaves the outputs in buffers.final_output().
  void Forward(const StepArgs& args, Team& team);

 private:
  Plan(const Model& model, Buffers* buffers) : model_(model), buffers_(*buffers) {}
  double Loss(const Batch& batch, Slice slice) const;
  void PrepareWeights(const StepArgs& args, Team& team);

  const Model& model_;
  Buffers& buffers_;
  std::vector<Slice> slices_;
  std::vector<std::unique_ptr<CpuLayer>> layers_;
  std::vector<Sums> sums_;  // one a thread, added up in order
  bool prepares_weights_ = false;
};

// Threads that pay for a step of `batch` examples: at most `threads`, one for tiny models.
int UsefulThreads(const Model& model, int64_t batch, int threads);

}  // namespace trainer::cpu
