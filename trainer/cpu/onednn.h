// The two oneDNN operations that layers need, for one thread each: a matrix product that may keep
// its operands packed, and any primitive run without allocating. oneDNN's exceptions end here.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"

namespace trainer::cpu {

// A compiled primitive with its memory objects. Not thread-safe, because operands are set in place.
class Operation {
 public:
  Operation() = default;
  // `arguments`: DNNL_ARG_… to memory; those without a buffer of their own are set before each Run.
  Operation(dnnl::primitive primitive, std::vector<std::pair<int, dnnl::memory>> arguments);

  // Points argument number `index` (in the constructor's order) at `data`.
  void Set(size_t index, const void* data);
  void Run(const dnnl::stream& stream);
  explicit operator bool() const { return static_cast<bool>(primitive_); }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Memory without a buffer, to be set later.
dnnl::memory Unbound(const dnnl::memory::desc& desc, const dnnl::engine& engine);

// Runs `build`, turning an exception of oneDNN into a status that says what could not be built.
absl::Status Guarded(std::string_view what, const std::function<void()>& build);

// Limits oneDNN to the calling thread while in scope: our own threads share the work out.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// C(m, n) = A(m, k) · B(k, n), C row-major f32. Strides in elements.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row_stride = 0, a_column_stride = 1;
  int64_t b_row_stride = 0, b_column_stride = 1;
  bool bf16 = false;    // A and B are bf16
  bool packed = false;  // A and B are first rearranged as the CPU likes them best
};

class Matmul {
 public:
  Matmul() = default;
  static absl::StatusOr<Matmul> Create(const dnnl::engine& engine, const MatmulShape& shape);

  // REQUIRES: shape.packed. Rearranges an operand; it holds until the next call.
  void PackA(const dnnl::stream& stream, const void* a);
  void PackB(const dnnl::stream& stream, const void* b);
  void RunPacked(const dnnl::stream& stream, float* c);
  // REQUIRES: !shape.packed.
  void Run(const dnnl::stream& stream, const void* a, const void* b, float* c);

  explicit operator bool() const { return static_cast<bool>(product_); }

 private:
  Operation pack_a_, pack_b_, product_;
};

}  // namespace trainer::cpu
