// For tests: a device that is this machine's memory, and kernels that are loops.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/cuda/plugin/failure.h"
#include "trainer/cuda/plugin/launch.h"
#include "trainer/cuda/plugin/memory_pool.h"
#include "trainer/cuda/plugin/product.h"

namespace trainer::cuda {

class HostRunner {
 public:
  explicit HostRunner(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  ~HostRunner() {
    for (void* piece : pieces_) pool_->Free(piece);
  }

  Failure& failure() { return failure_; }

  // Filled with NaNs, so that what a step reads before it has written it is seen.
  template <typename T>
  T* Allocate(int64_t count) {
    std::string why;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    void* const piece = pool_->Allocate(bytes, &why);
    if (piece == nullptr) {
      failure_.Set(kTrainerCudaOutOfMemory, why);
      return nullptr;
    }
    pieces_.push_back(piece);
    std::memset(piece, 0xff, static_cast<size_t>(bytes));
    return static_cast<T*>(piece);
  }

  template <typename Body>
  void Each(int64_t size, const Body& body) {
    if (failure_.ok()) HostLaunch::Each(size, body);
  }
  template <typename Body>
  void Blocks(int64_t blocks, const Body& body) {
    if (failure_.ok()) HostLaunch::Blocks(blocks, body);
  }
  void Multiply(const Product& product) {
    if (failure_.ok()) MultiplyOnHost(product);
  }

  void Upload(void* device, const void* host, int64_t bytes) {
    if (failure_.ok()) std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void Download(void* host, const void* device, int64_t bytes) {
    if (failure_.ok()) std::memcpy(host, device, static_cast<size_t>(bytes));
  }
  template <typename Enqueue>
  void Repeat(int64_t /*key*/, const Enqueue& enqueue) {
    enqueue();
  }
  void Finish() {}

 private:
  const std::shared_ptr<MemoryPool> pool_;
  Failure failure_;
  std::vector<void*> pieces_;
};

}  // namespace trainer::cuda
