// How the bodies of kernels are written so that a GPU and a test on the host run the same code: a
// body is a struct over plain pointers, marked TRAINER_CUDA_HD, of one of two shapes.
//
//   An element body:  void operator()(int64_t i) const
//     computes element i alone; the device runs a thread for each, the host a loop.
//
//   A block body:     static constexpr int kThreads, kPhases; using Shared;
//                     void operator()(int phase, int64_t block, int thread, Shared* shared) const
//     a block of threads with kSharedSize elements of memory in common, in phases: every thread of
//     a block has ended a phase before any begins the next.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TRAINER_CUDA_HD __host__ __device__
#else
#define TRAINER_CUDA_HD
#endif

namespace trainer::cuda {

// Runs an element body's or a block body's whole launch on the host, one thread after the other.
struct HostLaunch {
  template <typename Body>
  static void Each(int64_t size, const Body& body) {
    for (int64_t i = 0; i < size; ++i) body(i);
  }

  template <typename Body>
  static void Blocks(int64_t blocks, const Body& body) {
    for (int64_t block = 0; block < blocks; ++block) {
      typename Body::Shared shared[Body::kSharedSize];
      for (int phase = 0; phase < Body::kPhases; ++phase) {
        for (int thread = 0; thread < Body::kThreads; ++thread) {
          body(phase, block, thread, shared);
        }
      }
    }
  }
};

// One level of a tree sum over values[0, 2 · reach): after levels reach = n/2, …, 1 the sum of n
// values is in values[0].
template <typename T>
TRAINER_CUDA_HD inline void AddAbove(T* values, int thread, int reach) {
  if (thread < reach) values[thread] += values[thread + reach];
}

}  // namespace trainer::cuda
