// Runs steps on a GPU: kernels and products on one stream, repeated sequences as CUDA graphs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/cuda/plugin/cublaslt.h"
#include "trainer/cuda/plugin/failure.h"
#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/launch.h"
#include "trainer/cuda/plugin/memory_pool.h"

namespace trainer::cuda {

template <typename Body>
__global__ void EachKernel(int64_t size, Body body) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += step) body(i);
}

template <typename Body>
__global__ void BlocksKernel(Body body) {
  __shared__ typename Body::Shared shared[Body::kSharedSize];
  for (int phase = 0; phase < Body::kPhases; ++phase) {
    if (phase > 0) __syncthreads();
    body(phase, blockIdx.x, static_cast<int>(threadIdx.x), shared);
  }
}

// Used by one thread at a time.
class GpuRunner {
 public:
  // device: whose memory the pool is of.
  GpuRunner(int device, bool allow_tf32, std::shared_ptr<MemoryPool> pool)
      : device_(device), pool_(std::move(pool)) {
    Use();
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
    auto* const workspace = Allocate<char>(kWorkspaceBytes);
    multiplier_ =
        std::make_unique<Multiplier>(allow_tf32, workspace, size_t{kWorkspaceBytes}, &failure_);
  }
  ~GpuRunner() {
    cudaSetDevice(device_);
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    DropGraphs();
    multiplier_.reset();
    for (void* piece : pieces_) pool_->Free(piece);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  GpuRunner(const GpuRunner&) = delete;
  GpuRunner& operator=(const GpuRunner&) = delete;

  Failure& failure() { return failure_; }

  template <typename T>
  T* Allocate(int64_t count) {
    if (!failure_.ok()) return nullptr;
    std::string why;
    void* const piece = pool_->Allocate(count * static_cast<int64_t>(sizeof(T)), &why);
    if (piece == nullptr) {
      failure_.Set(kTrainerCudaOutOfMemory, "GPU:" + std::to_string(device_) + ": " + why);
      return nullptr;
    }
    pieces_.push_back(piece);
    return static_cast<T*>(piece);
  }

  template <typename Body>
  void Each(int64_t size, const Body& body) {
    if (!failure_.ok() || size == 0) return;
    const int64_t blocks = (size + kEachThreads - 1) / kEachThreads;
    const auto grid = static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
    EachKernel<<<grid, kEachThreads, 0, stream_>>>(size, body);
    Check(cudaGetLastError(), "start a kernel");
  }

  template <typename Body>
  void Blocks(int64_t blocks, const Body& body) {
    if (!failure_.ok() || blocks == 0) return;
    BlocksKernel<<<static_cast<unsigned>(blocks), Body::kThreads, 0, stream_>>>(body);
    Check(cudaGetLastError(), "start a kernel");
  }

  void Multiply(const Product& product) { multiplier_->Multiply(product, stream_, &failure_); }

  void Upload(void* device, const void* host, int64_t bytes) {
    if (!failure_.ok()) return;
    Use();
    Check(
        cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
        "copy to the GPU");
  }
  void Download(void* host, const void* device, int64_t bytes) {
    if (!failure_.ok()) return;
    Use();
    Check(
        cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
        "copy from the GPU");
  }
  void Finish() {
    if (failure_.ok()) Check(cudaStreamSynchronize(stream_), "compute");
  }

  // The first time plainly, so that every kernel is loaded; the second time captured; from then on
  // one launch of the graph.
  template <typename Enqueue>
  void Repeat(int64_t key, const Enqueue& enqueue) {
    if (!failure_.ok()) return;
    Use();
    if (graphs_.size() > kMaxGraphs) DropGraphs();
    const auto [graph, is_new] = graphs_.try_emplace(key, nullptr);
    if (is_new) return enqueue();
    if (graph->second == nullptr) graph->second = Capture(enqueue);
    if (failure_.ok()) Check(cudaGraphLaunch(graph->second, stream_), "start a graph");
  }

 private:
  static constexpr int kEachThreads = 256;
  static constexpr int64_t kMaxBlocks = 1 << 20;
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
  static constexpr size_t kMaxGraphs = 16;  // batch sizes, trained and evaluated

  void Use() { Check(cudaSetDevice(device_), "use the device"); }
  void Check(cudaError_t status, const char* what) { CheckCuda(status, device_, what, &failure_); }

  template <typename Enqueue>
  cudaGraphExec_t Capture(const Enqueue& enqueue) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture a step");
    if (!failure_.ok()) return nullptr;
    enqueue();
    Check(cudaStreamEndCapture(stream_, &graph), "capture a step");
    if (failure_.ok()) Check(cudaGraphInstantiate(&executable, graph, 0), "build a graph");
    if (graph != nullptr) cudaGraphDestroy(graph);
    return executable;
  }

  void DropGraphs() {
    for (const auto& [key, executable] : graphs_) {
      if (executable != nullptr) cudaGraphExecDestroy(executable);
    }
    graphs_.clear();
  }

  const int device_;
  const std::shared_ptr<MemoryPool> pool_;
  Failure failure_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> pieces_;
  std::unique_ptr<Multiplier> multiplier_;
  std::map<int64_t, cudaGraphExec_t> graphs_;  // by key; null = run once, not captured
};

}  // namespace trainer::cuda
