#include "kernels/scalar.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "unisono/error.h"

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

// Accumulates elements of type T in type A, a block of accumulators at a time, input by input: the inner loops run over contiguous elements, so the
// compiler can vectorise them. `result` makes an element of an accumulator.
template <class T, class A, class Combine, class Result>
void fold(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, Combine combine, Result result) {
  constexpr std::size_t block = 256;
  A accumulator[block];
  for (std::size_t start = 0; start < count; start += block) {
    const std::size_t n = std::min(block, count - start);
    for (std::size_t i = 0; i < n; ++i) accumulator[i] = static_cast<A>(load<T>(inputs[0], start + i));
    for (std::size_t k = 1; k < fan_in; ++k) {
      const void* input = inputs[k];
      for (std::size_t i = 0; i < n; ++i) accumulator[i] = combine(accumulator[i], static_cast<A>(load<T>(input, start + i)));
    }
    for (std::size_t i = 0; i < n; ++i) store<T>(out, start + i, result(accumulator[i]));
  }
}

// The type is unsigned so that the product wraps, and no narrower than unsigned int so that promotion does not make it signed.
template <class T>
void multiply(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  using A = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
  fold<T, A>(out, inputs, fan_in, count, std::multiplies<A>(), [](A product) { return static_cast<T>(product); });
}

// Sums of integers up to 32 bits stay below 2^53, which a double holds exactly. The whole part of the quotient is exact as well: a quotient that is
// not whole lies at least 1/divisor below the next whole number, and rounding moves it by less.
template <class T>
bool average_in_doubles(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, std::size_t divisor) {
  constexpr std::size_t largest_fan_in = 1U << 20, largest_divisor = 1U << 30;
  if (fan_in > largest_fan_in || divisor < fan_in || divisor > largest_divisor) return false;
  using Whole = std::conditional_t<std::is_same_v<T, std::uint32_t>, std::int64_t, std::int32_t>;
  const auto by = static_cast<double>(divisor);
  fold<T, double>(out, inputs, fan_in, count, std::plus<double>(), [by](double sum) { return static_cast<T>(static_cast<Whole>(sum / by)); });
  return true;
}

template <class T>
void average(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, std::size_t divisor) {
  if constexpr (sizeof(T) < 8) {
    if (average_in_doubles<T>(out, inputs, fan_in, count, divisor)) return;
  }
  using A = std::conditional_t<std::is_signed_v<T>, int128, uint128>;
  using Short = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const auto by = static_cast<A>(divisor);
  const bool short_divisor = static_cast<A>(static_cast<Short>(by)) == by;
  fold<T, A>(out, inputs, fan_in, count, std::plus<A>(), [by, short_divisor](A sum) {
    const auto low = static_cast<Short>(sum);  // a division in 128 bits is a function call; 64 bits suffice for most sums
    return short_divisor && static_cast<A>(low) == sum ? static_cast<T>(low / static_cast<Short>(by)) : static_cast<T>(sum / by);
  });
}

template <class T>
void dispatch(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, ReduceOp op, std::size_t divisor) {
  if (op == ReduceOp::avg) return average<T>(out, inputs, fan_in, count, divisor);
  if (op == ReduceOp::product) return multiply<T>(out, inputs, fan_in, count);
  throw Error("no kernel computes " + std::string(to_string(op)));
}

}  // namespace

void reduce_scalar(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor) {
  switch (dtype) {
    case DType::int8: return dispatch<std::int8_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int16: return dispatch<std::int16_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int32: return dispatch<std::int32_t>(out, inputs, fan_in, count, op, divisor);
    case DType::int64: return dispatch<std::int64_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint8: return dispatch<std::uint8_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint16: return dispatch<std::uint16_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint32: return dispatch<std::uint32_t>(out, inputs, fan_in, count, op, divisor);
    case DType::uint64: return dispatch<std::uint64_t>(out, inputs, fan_in, count, op, divisor);
    default: throw Error("no kernel computes " + std::string(to_string(op)) + " of " + std::string(to_string(dtype)));
  }
}

}  // namespace unisono::kernels
