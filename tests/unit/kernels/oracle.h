#pragma once

#include <algorithm>
#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

// The oracle that the reduce kernels are tested against: one element at a time, by other means than theirs (128-bit integers, keys for the order).
namespace unisono::oracle {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;
using Bytes = std::vector<std::byte>;

inline constexpr DType every_dtype[] = {DType::boolean,  DType::int8,    DType::int16,   DType::int32,     DType::int64,
                                        DType::uint8,    DType::uint16,  DType::uint32,  DType::uint64,    DType::float16,
                                        DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};
inline constexpr ReduceOp every_op[] = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min,  ReduceOp::max,  ReduceOp::avg,
                                        ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor, ReduceOp::land, ReduceOp::lor};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Calls f with an object of the C++ type; booleans as bytes, for a byte of 2 is an input too.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean: return f(std::uint8_t{});
    case DType::int8: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint8: return f(std::uint8_t{});
    case DType::uint16: return f(std::uint16_t{});
    case DType::uint32: return f(std::uint32_t{});
    case DType::uint64: return f(std::uint64_t{});
    case DType::float16: return f(float16{});
    case DType::bfloat16: return f(bfloat16{});
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    case DType::complex64: return f(std::complex<float>{});
    default: return f(std::complex<double>{});
  }
}

template <class F>
F one_nan(F value) {
  return value != value ? std::numeric_limits<F>::quiet_NaN() : value;
}

template <std::integral T>
T combined(const std::vector<T>& x, ReduceOp op, std::size_t divisor) {
  Wide a = x[0];
  Wide total = x[0];
  auto product = static_cast<UnsignedWide>(Wide{x[0]});
  bool all = x[0] != 0;
  bool any = x[0] != 0;
  for (std::size_t k = 1; k < x.size(); ++k) {
    const Wide b = x[k];
    total += b;
    product *= static_cast<UnsignedWide>(b);
    all = all && b != 0;
    any = any || b != 0;
    if (op == ReduceOp::min) a = std::min(a, b);
    if (op == ReduceOp::max) a = std::max(a, b);
    if (op == ReduceOp::band) a &= b;
    if (op == ReduceOp::bor) a |= b;
    if (op == ReduceOp::bxor) a ^= b;
  }
  switch (op) {
    case ReduceOp::sum: return static_cast<T>(total);
    case ReduceOp::product: return static_cast<T>(product);
    case ReduceOp::avg: return static_cast<T>(total / static_cast<Wide>(divisor));
    case ReduceOp::land: return static_cast<T>(all);
    case ReduceOp::lor: return static_cast<T>(any);
    default: return static_cast<T>(a);
  }
}

template <std::floating_point F>
Wide key(F value) {  // grows with the value, -0 below +0
  using Bits = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;
  const auto bits = std::bit_cast<Bits>(value);
  return bits < 0 ? -Wide{bits & std::numeric_limits<Bits>::max()} - 1 : Wide{bits};
}

template <std::floating_point F>
F combined(const std::vector<F>& x, ReduceOp op, std::size_t divisor) {
  F a = x[0];
  bool nan = x[0] != x[0];
  bool all = x[0] != 0;
  bool any = x[0] != 0;
  for (std::size_t k = 1; k < x.size(); ++k) {
    const F b = x[k];
    nan = nan || b != b;
    all = all && b != 0;
    any = any || b != 0;
    if (op == ReduceOp::sum || op == ReduceOp::avg) a += b;
    if (op == ReduceOp::product) a *= b;
    if (op == ReduceOp::min && key(b) < key(a)) a = b;
    if (op == ReduceOp::max && key(b) > key(a)) a = b;
  }
  if (op == ReduceOp::land) return static_cast<F>(all);
  if (op == ReduceOp::lor) return static_cast<F>(any);
  if (op == ReduceOp::avg) a /= static_cast<F>(divisor);
  return nan ? std::numeric_limits<F>::quiet_NaN() : one_nan(a);
}

template <class F>
std::complex<F> combined(const std::vector<std::complex<F>>& x, ReduceOp op, std::size_t divisor) {
  F re = x[0].real();
  F im = x[0].imag();
  for (std::size_t k = 1; k < x.size(); ++k) {
    const F c = x[k].real();
    const F d = x[k].imag();
    if (op == ReduceOp::product) {
      const F ac = re * c;
      const F bd = im * d;
      const F ad = re * d;
      const F bc = im * c;
      re = ac - bd;
      im = ad + bc;
    } else {
      re += c;
      im += d;
    }
  }
  if (op == ReduceOp::avg) {
    re /= static_cast<F>(divisor);
    im /= static_cast<F>(divisor);
  }
  return {one_nan(re), one_nan(im)};
}

template <class H>
requires is_half<H> H combined(const std::vector<H>& x, ReduceOp op, std::size_t divisor) {
  static thread_local std::vector<float> floats;  // spares an allocation for each element
  floats.assign(x.begin(), x.end());
  return H(combined(floats, op, divisor));
}

/// The result of one element; the content of `x` afterwards does not matter.
template <class T>
T element(DType dtype, ReduceOp op, std::vector<T>& x, std::size_t divisor) {
  const bool truth = op == ReduceOp::land || op == ReduceOp::lor || dtype == DType::boolean;
  if (x.size() == 1 && op != ReduceOp::avg && !truth) return x[0];
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    if (dtype == DType::boolean) {
      for (auto& value : x) value = value != 0;
      if (op == ReduceOp::sum || op == ReduceOp::max) op = ReduceOp::lor;
      if (op == ReduceOp::product || op == ReduceOp::min) op = ReduceOp::land;
    }
  }
  return combined(x, op, divisor);
}

/// The results of whole inputs, each of `count` elements from its first byte on.
inline Bytes reduce(const std::vector<Bytes>& inputs, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor) {
  Bytes out(count * size_of(dtype));
  with_type(dtype, [&]<class T>(T) {
    std::vector<T> x(inputs.size());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < x.size(); ++k) std::memcpy(&x[k], inputs[k].data() + i * sizeof(T), sizeof(T));
      const T result = element(dtype, op, x, divisor);
      std::memcpy(out.data() + i * sizeof(T), &result, sizeof(T));
    }
  });
  return out;
}

/// Elements that differ from each other: two thirds of moderate size, the rest any bits at all or one of the values at the edges.
inline Bytes values(DType dtype, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(dtype));
  Bytes out(count * size_of(dtype));
  with_type(dtype, [&]<class T>(T) {
    const auto floating = [&]<class F>(F) -> F {
      using Limits = std::numeric_limits<F>;
      const F edges[] = {F(0),
                         -F(0),
                         F(1),
                         -F(1),
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN(),
                         -Limits::quiet_NaN(),
                         Limits::max(),
                         Limits::lowest(),
                         Limits::min(),
                         Limits::denorm_min()};
      const auto pick = random() % 24;
      if (pick < 2) return edges[random() % std::size(edges)];
      return static_cast<F>(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-60);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const auto any = random();
      T value;
      if constexpr (std::is_same_v<T, std::complex<float>>) value = {floating(float{}), floating(float{})};
      else if constexpr (std::is_same_v<T, std::complex<double>>) value = {floating(double{}), floating(double{})};
      else if constexpr (std::is_floating_point_v<T>) value = floating(T{});
      else if constexpr (is_half<T>) value = any % 4 == 0 ? T::from_bits(static_cast<std::uint16_t>(any >> 16)) : T(floating(float{}));
      else if (any % 3 == 0) value = any % 2 == 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
      else value = any % 5 == 0 ? T{0} : static_cast<T>(any >> 17);
      std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return out;
}

}  // namespace unisono::oracle
