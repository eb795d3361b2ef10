// oneDNN behind status codes. Arguments are kept as arrays of the C interface, which a run passes
// on as they are; the C++ interface would build them anew each time.
#include "trainer/cpu/onednn.h"

#include <omp.h>

#include <utility>

#include "base/str_cat.h"

namespace trainer::cpu {

using dnnl::memory;

Operation::Operation(dnnl::primitive primitive, std::vector<std::pair<int, memory>> arguments)
    : primitive_(std::move(primitive)) {
  for (auto& [kind, mem] : arguments) {
    arguments_.push_back({kind, mem.get()});
    memories_.push_back(std::move(mem));
  }
}

void Operation::Set(size_t index, const void* data) {
  // Input operands are not written to: oneDNN's memory objects have no const form.
  dnnl_memory_set_data_handle(arguments_[index].memory, const_cast<void*>(data));
}

void Operation::Run(const dnnl::stream& stream) {
  dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                         arguments_.data());
}

memory Unbound(const memory::desc& desc, const dnnl::engine& engine) {
  return memory(desc, engine, DNNL_MEMORY_NONE);
}

absl::Status Guarded(std::string_view what, const std::function<void()>& build) {
  try {
    build();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::InternalError(base::StrCat("oneDNN cannot build ", what, ": ", error.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(base::StrCat("out of memory for ", what));
  }
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

absl::StatusOr<Matmul> Matmul::Create(const dnnl::engine& engine, const MatmulShape& shape) {
  Matmul result;
  const absl::Status status = Guarded("a matrix product", [&] {
    const auto type = shape.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc plain_a({shape.m, shape.k}, type,
                               memory::dims{shape.a_row_stride, shape.a_column_stride});
    const memory::desc plain_b({shape.k, shape.n}, type,
                               memory::dims{shape.b_row_stride, shape.b_column_stride});
    const memory::desc c({shape.m, shape.n}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc any_a({shape.m, shape.k}, type, memory::format_tag::any);
    const memory::desc any_b({shape.k, shape.n}, type, memory::format_tag::any);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc desc(shape.packed ? dnnl::matmul::desc(any_a, any_b, c)
                                                         : dnnl::matmul::desc(plain_a, plain_b, c),
                                            attributes, engine);
    memory a = shape.packed ? memory(desc.src_desc(), engine) : Unbound(plain_a, engine);
    memory b = shape.packed ? memory(desc.weights_desc(), engine) : Unbound(plain_b, engine);
    if (shape.packed) {
      memory from_a = Unbound(plain_a, engine);
      memory from_b = Unbound(plain_b, engine);
      result.pack_a_ =
          Operation(dnnl::reorder(from_a, a), {{DNNL_ARG_FROM, from_a}, {DNNL_ARG_TO, a}});
      result.pack_b_ =
          Operation(dnnl::reorder(from_b, b), {{DNNL_ARG_FROM, from_b}, {DNNL_ARG_TO, b}});
    }
    result.product_ = Operation(dnnl::matmul(desc),
                                {{DNNL_ARG_SRC, std::move(a)},
                                 {DNNL_ARG_WEIGHTS, std::move(b)},
                                 {DNNL_ARG_DST, Unbound(c, engine)},
                                 {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc(), engine)}});
  });
  if (!status.ok()) return status;
  return result;
}

void Matmul::PackA(const dnnl::stream& stream, const void* a) {
  pack_a_.Set(0, a);
  pack_a_.Run(stream);
}

void Matmul::PackB(const dnnl::stream& stream, const void* b) {
  pack_b_.Set(0, b);
  pack_b_.Run(stream);
}

void Matmul::RunPacked(const dnnl::stream& stream, float* c) {
  product_.Set(2, c);
  product_.Run(stream);
}

void Matmul::Run(const dnnl::stream& stream, const void* a, const void* b, float* c) {
  product_.Set(0, a);
  product_.Set(1, b);
  product_.Set(2, c);
  product_.Run(stream);
}

}  // namespace trainer::cpu
