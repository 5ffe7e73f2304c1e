#include "engines/gloo/reduction.h"

#include <gloo/allreduce.h>
#include <gloo/reduce.h>

#include <cstring>

#include "unisono/engine.h"

namespace unisono::engines {
namespace {

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
bool is_wide_float(DType dtype) { return dtype >= DType::float32; }  // float32, float64, complex64, complex128

// Elements of which Gloo only knows the size.
template <std::size_t Size>
struct Opaque {
  std::byte bytes[Size];
};

/// Calls `work` with an element type of that size.
template <class F>
void with_element(std::size_t size, F&& work) {
  switch (size) {
    case 1: return work(static_cast<Opaque<1>*>(nullptr));
    case 2: return work(static_cast<Opaque<2>*>(nullptr));
    case 4: return work(static_cast<Opaque<4>*>(nullptr));
    case 8: return work(static_cast<Opaque<8>*>(nullptr));
    default: return work(static_cast<Opaque<16>*>(nullptr));
  }
}

/// Returns a function for out = a op b, where `out` may be `a`.
std::function<void(void*, const void*, const void*, std::size_t)> function_of(const CollectiveCall& call) {
  const DType dtype = call.in.dtype();
  const ReduceOp op = call.op == ReduceOp::avg ? ReduceOp::sum : call.op;
  return [dtype, op, custom = call.custom](void* out, const void* a, const void* b, std::size_t count) {
    if (out != a) std::memcpy(out, a, count * size_of(dtype));
    if (custom) {
      custom->combine(out, b, count);
    } else {
      combine(dtype, op, out, b, count);
    }
  };
}

template <class T>
void divide(void* data, std::size_t count, int divisor) {
  T* const values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) values[i] /= static_cast<T>(divisor);
}

/// Completes an average once the sum is there.
void finish(const CollectiveCall& call, int size) {
  if (call.op != ReduceOp::avg || call.custom) return;
  const auto count = static_cast<std::size_t>(call.out.numel());
  const detail::FixedFloatingPoint fixed;
  switch (call.in.dtype()) {
    case DType::float32: return divide<float>(call.out.data(), count, size);
    case DType::complex64: return divide<float>(call.out.data(), 2 * count, size);
    case DType::float64: return divide<double>(call.out.data(), count, size);
    default: return divide<double>(call.out.data(), 2 * count, size);
  }
}

}  // namespace

bool can_combine(const CollectiveCall& call, int size) {
  const DType dtype = call.in.dtype();
  if (call.custom) return true;
  if (call.op == ReduceOp::avg) return is_wide_float(dtype);
  return size <= 2 || !is_half(dtype);
}

void all_reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call) {
  with_element(size_of(call.in.dtype()), [&]<class T>(T*) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    if (call.in.data() != call.out.data()) options.setInput(static_cast<T*>(call.in.data()), call.count);
    options.setOutput(static_cast<T*>(call.out.data()), call.count);
    options.setReduceFunction(function_of(call));
    gloo::allreduce(options);
  });
  finish(call, context->size);
}

void reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call, Room& room) {
  const bool is_root = context->rank == call.root;
  void* const out = is_root ? call.out.data() : room.of(call.in.bytes());
  with_element(size_of(call.in.dtype()), [&]<class T>(T*) {
    gloo::ReduceOptions options(context);
    if (call.in.data() != out) options.setInput(static_cast<T*>(call.in.data()), call.count);
    options.setOutput(static_cast<T*>(out), call.count);
    options.setReduceFunction(function_of(call));
    options.setRoot(call.root);
    gloo::reduce(options);
  });
  if (is_root) finish(call, context->size);
}

void copy_alone(const CollectiveCall& call) {
  if (call.out.bytes() == 0 || call.in.bytes() == 0) return;
  if (call.out.data() != call.in.data()) std::memcpy(call.out.data(), call.in.data(), call.in.bytes());
  if (!reduces(call.operation) || call.custom) return;
  // Truth values are normalised, also a single element; all else stays as it is.
  const bool is_boolean = call.in.dtype() == DType::boolean;
  if (!is_boolean && call.op != ReduceOp::land && call.op != ReduceOp::lor) return;
  combine(call.in.dtype(), is_boolean ? ReduceOp::bor : call.op, call.out.data(), call.out.data(), call.count);
}

}  // namespace unisono::engines
