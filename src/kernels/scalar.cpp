#include "kernels/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace unisono::kernels {
namespace {

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

template <class T>
T load(const void* base, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* base, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(base) + index * sizeof(T), &value, sizeof(T));
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool is_complex = false;
template <class F>
inline constexpr bool is_complex<std::complex<F>> = true;

template <class F>
F canonical(F value) {
  return value != value ? std::numeric_limits<F>::quiet_NaN() : value;
}

// The type an operation computes in. Integers are computed unsigned so that they wrap, and no narrower than unsigned so that promotion
// cannot bring the sign back.
template <class T>
struct computed {
  using type = T;
};
template <std::integral T>
struct computed<T> {
  using type = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
};
template <class T>
requires is_half<T>
struct computed<T> {
  using type = float;
};
template <class T>
struct exact {
  using type = typename computed<T>::type;
};
template <std::integral T>
struct exact<T> {
  using type = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) < 8, std::int64_t, int128>,
                                  std::conditional_t<sizeof(T) < 8, std::uint64_t, uint128>>;
};

struct Sum {
  template <class A>
  static A combine(A a, A b) {
    return a + b;
  }
};

struct Product {
  template <class A>
  static A combine(A a, A b) {
    if constexpr (is_complex<A>) {
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else {
      return a * b;
    }
  }
};

struct Min {
  template <class A>
  static A combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) {
      if (a != a || b != b) return std::numeric_limits<A>::quiet_NaN();
      if (a == b) return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
  }
};

struct Max {
  template <class A>
  static A combine(A a, A b) {
    if constexpr (std::is_floating_point_v<A>) {
      if (a != a || b != b) return std::numeric_limits<A>::quiet_NaN();
      if (a == b) return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
  }
};

struct And {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a & b);
  }
};

struct Or {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a | b);
  }
};

struct Xor {
  template <class A>
  static A combine(A a, A b) {
    return static_cast<A>(a ^ b);
  }
};

// A block of accumulators at a time, input by input, so that the inner loops are straight lines over contiguous elements; `from` makes an
// accumulator of an element, `to` an element of an accumulator.
template <class Op, class A, class T, class From, class To>
void fold(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, From from, To to) {
  constexpr std::size_t block = 256;
  A accumulator[block];
  for (std::size_t start = 0; start < count; start += block) {
    const std::size_t n = std::min(block, count - start);
    for (std::size_t i = 0; i < n; ++i) accumulator[i] = from(load<T>(inputs[0], start + i));
    for (std::size_t k = 1; k < fan_in; ++k) {
      const void* input = inputs[k];
      for (std::size_t i = 0; i < n; ++i) accumulator[i] = Op::combine(accumulator[i], from(load<T>(input, start + i)));
    }
    for (std::size_t i = 0; i < n; ++i) store<T>(out, start + i, to(accumulator[i]));
  }
}

template <class T>
auto widen(T value) {
  return static_cast<typename computed<T>::type>(value);
}

template <class T, class A>
T narrow(A value) {
  if constexpr (is_complex<T>) {
    return {canonical(value.real()), canonical(value.imag())};
  } else if constexpr (std::is_floating_point_v<A>) {
    return static_cast<T>(canonical(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T, class Op>
void fold_plain(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  fold<Op, typename computed<T>::type, T>(out, inputs, fan_in, count, widen<T>, narrow<T, typename computed<T>::type>);
}

template <class T, class Op>
void fold_ordered(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  if constexpr (std::is_integral_v<T>) {
    fold<Op, T, T>(
        out, inputs, fan_in, count, [](T value) { return value; }, [](T value) { return value; });
  } else if constexpr (!is_complex<T>) {
    fold_plain<T, Op>(out, inputs, fan_in, count);
  }
}

template <class T, class Op>
void fold_bits(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  if constexpr (std::is_integral_v<T>) {
    fold<Op, T, T>(
        out, inputs, fan_in, count, [](T value) { return value; }, [](T value) { return value; });
  }
}

template <class T, class Op>
void fold_truth(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  if constexpr (!is_complex<T>) {
    const auto from = [](T value) { return static_cast<std::uint8_t>(widen(value) != 0); };
    const auto to = [](std::uint8_t value) { return static_cast<T>(static_cast<typename computed<T>::type>(value)); };
    fold<Op, std::uint8_t, T>(out, inputs, fan_in, count, from, to);
  }
}

template <class T>
void fold_avg(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, std::size_t divisor) {
  using A = typename exact<T>::type;
  const auto from = [](T value) { return static_cast<A>(value); };
  if constexpr (is_complex<T>) {
    const auto by = static_cast<typename T::value_type>(divisor);
    fold<Sum, A, T>(out, inputs, fan_in, count, from, [by](A sum) { return narrow<T>(A{sum.real() / by, sum.imag() / by}); });
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    using Short = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const auto by = static_cast<A>(divisor);
    const auto to = [by](A sum) {  // division in 128 bits is a library call: spare it where the operands fit in 64
      if (static_cast<A>(static_cast<Short>(sum)) == sum && static_cast<A>(static_cast<Short>(by)) == by) {
        return static_cast<T>(static_cast<Short>(sum) / static_cast<Short>(by));
      }
      return static_cast<T>(sum / by);
    };
    fold<Sum, A, T>(out, inputs, fan_in, count, from, to);
  } else {
    const auto by = static_cast<A>(divisor);
    fold<Sum, A, T>(out, inputs, fan_in, count, from, [by](A sum) { return narrow<T>(sum / by); });
  }
}

template <class T>
void dispatch(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, ReduceOp op, std::size_t divisor) {
  switch (op) {
    case ReduceOp::sum: return fold_plain<T, Sum>(out, inputs, fan_in, count);
    case ReduceOp::product: return fold_plain<T, Product>(out, inputs, fan_in, count);
    case ReduceOp::min: return fold_ordered<T, Min>(out, inputs, fan_in, count);
    case ReduceOp::max: return fold_ordered<T, Max>(out, inputs, fan_in, count);
    case ReduceOp::avg: return fold_avg<T>(out, inputs, fan_in, count, divisor);
    case ReduceOp::band: return fold_bits<T, And>(out, inputs, fan_in, count);
    case ReduceOp::bor: return fold_bits<T, Or>(out, inputs, fan_in, count);
    case ReduceOp::bxor: return fold_bits<T, Xor>(out, inputs, fan_in, count);
    case ReduceOp::land: return fold_truth<T, And>(out, inputs, fan_in, count);
    case ReduceOp::lor: return fold_truth<T, Or>(out, inputs, fan_in, count);
  }
}

// A byte that is neither 0 nor 1 is no value of C++'s bool, so booleans are read as uint8.
void dispatch_boolean(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor:
    case ReduceOp::lor: return fold_truth<std::uint8_t, Or>(out, inputs, fan_in, count);
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
    case ReduceOp::land: return fold_truth<std::uint8_t, And>(out, inputs, fan_in, count);
    case ReduceOp::bxor: return fold_truth<std::uint8_t, Xor>(out, inputs, fan_in, count);
    case ReduceOp::avg: break;
  }
}

}  // namespace

void reduce_scalar(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor) {
  switch (dtype) {
    case DType::boolean: return dispatch_boolean(out, inputs, fan_in, count, op);
    case DType::int8: return dispatch<std::int8_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int16: return dispatch<std::int16_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int32: return dispatch<std::int32_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int64: return dispatch<std::int64_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint8: return dispatch<std::uint8_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint16: return dispatch<std::uint16_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint32: return dispatch<std::uint32_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint64: return dispatch<std::uint64_t>(out, inputs, fan_in, count, op, divisor);
    case DType::float16: return dispatch<float16>(out, inputs, fan_in, count, op, divisor);
    case DType::bfloat16: return dispatch<bfloat16>(out, inputs, fan_in, count, op, divisor);
    case DType::float32: return dispatch<float>(out, inputs, fan_in, count, op, divisor);
    case DType::float64: return dispatch<double>(out, inputs, fan_in, count, op, divisor);
    case DType::complex64: return dispatch<std::complex<float>>(out, inputs, fan_in, count, op, divisor);
    case DType::complex128: return dispatch<std::complex<double>>(out, inputs, fan_in, count, op, divisor);
  }
}

}  // namespace unisono::kernels
