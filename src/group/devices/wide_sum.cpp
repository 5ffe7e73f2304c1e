#include "group/devices/wide_sum.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/copy.h"
#include "kernels/pack.h"
#include "kernels/reduce.h"

namespace unisono::group {
namespace {

__extension__ using Int128 = __int128;
constexpr int half_bits = 32;  // of a 64-bit number

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
bool is_integer(DType dtype) { return dtype >= DType::int8 && dtype <= DType::uint64; }

template <class F>
void with_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint8: return f(std::uint8_t{});
    case DType::uint16: return f(std::uint16_t{});
    case DType::uint32: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

// Splits 64-bit numbers into upper and lower halves, each with room for the sum of 2^31 of them.
template <class T>
void split(std::int64_t* out, const std::byte* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T x;
    std::memcpy(&x, in + i * sizeof(T), sizeof(T));
    const auto wide = static_cast<Int128>(x);
    out[2 * i] = static_cast<std::int64_t>(wide >> half_bits);
    out[2 * i + 1] = static_cast<std::int64_t>(wide & ((Int128{1} << half_bits) - 1));
  }
}
template <class T>
void join(std::byte* out, const std::int64_t* in, std::size_t count, std::size_t divisor) {
  for (std::size_t i = 0; i < count; ++i) {
    const Int128 sum = static_cast<Int128>(in[2 * i]) * (Int128{1} << half_bits) + in[2 * i + 1];
    const auto x = static_cast<T>(sum / static_cast<Int128>(divisor));  // truncated toward zero
    std::memcpy(out + i * sizeof(T), &x, sizeof(T));
  }
}

template <class H>
void widen(float* out, const std::byte* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    H x;
    std::memcpy(&x, in + i * sizeof(H), sizeof(H));
    out[i] = x;
  }
}
template <class H>
void narrow(std::byte* out, const float* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const H x(in[i]);
    std::memcpy(out + i * sizeof(H), &x, sizeof(H));
  }
}

}  // namespace

WideSum::WideSum(DType dtype, ReduceOp op, std::size_t tensors, int ranks)
    : dtype_(dtype), op_(op), divisor_(tensors * static_cast<std::size_t>(ranks)), wide_(dtype) {
  if (tensors == 1) return;
  divides_ = op == ReduceOp::avg;
  if (is_half(dtype) && (op == ReduceOp::sum || op == ReduceOp::product || divides_)) wide_ = DType::float32;
  if (is_integer(dtype) && divides_) {
    wide_ = DType::int64;
    words_ = 2;
  }
}

void WideSum::combine(std::byte* out, std::span<const TensorView> tensors) const {
  const auto count = static_cast<std::size_t>(tensors.front().numel());
  if (count == 0) return;
  std::vector<std::byte> packed, widened;
  bool first = true;
  for (const TensorView& tensor : tensors) {
    const auto* data = static_cast<const std::byte*>(tensor.data());
    if (!tensor.is_contiguous()) {
      packed.resize(tensor.bytes());
      kernels::pack(packed.data(), tensor);
      data = packed.data();
    }
    if (wide_ != dtype_ || words_ != 1) {
      widened.resize(count * element_bytes());
      if (dtype_ == DType::float16) widen<float16>(reinterpret_cast<float*>(widened.data()), data, count);
      else if (dtype_ == DType::bfloat16) widen<bfloat16>(reinterpret_cast<float*>(widened.data()), data, count);
      else with_integer(dtype_, [&]<class T>(T) { split<T>(reinterpret_cast<std::int64_t*>(widened.data()), data, count); });
      data = widened.data();
    }
    const std::array<const void*, 2> inputs{out, data};
    if (first) kernels::copy(out, data, count * element_bytes());
    else kernels::reduce(out, inputs.data(), 2, count * words_, wide_, op(), 1);
    first = false;
  }
}

void WideSum::finish(std::byte* out, const std::byte* reduced, std::size_t count) const {
  if (count == 0) return;
  if (words_ == 2) {
    with_integer(dtype_, [&]<class T>(T) { join<T>(out, reinterpret_cast<const std::int64_t*>(reduced), count, divisor_); });
    return;
  }
  std::vector<std::byte> divided;
  if (divides_) {
    divided.resize(count * size_of(wide_));
    const void* input = reduced;
    kernels::reduce(divided.data(), &input, 1, count, wide_, ReduceOp::avg, divisor_);
    reduced = divided.data();
  }
  if (dtype_ == wide_) {
    kernels::copy(out, reduced, count * size_of(dtype_));
  } else if (dtype_ == DType::float16) {
    narrow<float16>(out, reinterpret_cast<const float*>(reduced), count);
  } else {
    narrow<bfloat16>(out, reinterpret_cast<const float*>(reduced), count);
  }
}

}  // namespace unisono::group
