#include "kernels/reduce.h"

#include <cstring>

#include "kernels/reduce_ops.h"
#include "kernels/scalar.h"
#include "kernels/vector.h"
#include "unisono/detail/floating_point.h"
#include "unisono/error.h"

namespace unisono::kernels {
namespace {

bool is_complex(DType dtype) noexcept { return dtype == DType::complex64 || dtype == DType::complex128; }
bool is_integer(DType dtype) noexcept { return dtype >= DType::int8 && dtype <= DType::uint64; }
bool is_known(DType dtype) noexcept { return dtype >= DType::boolean && dtype <= DType::complex128; }

// Returns true where a single element is its own result, bit for bit.
bool keeps_one(DType dtype, ReduceOp op) noexcept { return dtype != DType::boolean && info_of(op)->keeps_one; }

}  // namespace

bool supports(DType dtype, ReduceOp op) noexcept {
  const ReduceOpInfo* const info = info_of(op);
  if (info == nullptr || !is_known(dtype)) return false;
  if (dtype == DType::boolean) return info->on_boolean;
  if (is_integer(dtype)) return info->on_integers;
  return is_complex(dtype) ? info->on_complex : info->on_floats;
}

void reduce(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor) {
  if (!supports(dtype, op)) {
    throw InvalidArgument("the operation " + std::string(to_string(op)) + " is not defined on " + std::string(to_string(dtype)));
  }
  if (fan_in == 0) throw InvalidArgument("a reduction of no inputs has no result");
  if (op == ReduceOp::avg && divisor == 0) throw InvalidArgument("an average over 0 has no result");
  if (count == 0) return;
  if (fan_in == 1 && keeps_one(dtype, op)) {
    if (out != inputs[0]) std::memcpy(out, inputs[0], count * size_of(dtype));
    return;
  }
  const detail::FixedFloatingPoint fixed;
  if (!reduce_vector(out, inputs, fan_in, count, {dtype, op, divisor})) reduce_scalar(out, inputs, fan_in, count, dtype, op, divisor);
}

}  // namespace unisono::kernels
