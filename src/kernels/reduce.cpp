#include "kernels/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/vector.h"
#include "unisono/detail/floating_point.h"
#include "unisono/error.h"

namespace unisono::kernels {
namespace {

/// A reduce operation of the library, as everything but its arithmetic sees it.
struct ReduceOpInfo {
  ReduceOp op;
  std::string_view name;   // of the enumerator
  std::string_view alias;  // in lower case; empty: none
  std::string_view other;  // a second one
  // The dtypes on which it is defined; floats are the real ones.
  bool on_boolean, on_integers, on_floats, on_complex;
  bool keeps_one;  // a single element, not of boolean, is its own result, bit for bit
};

/// Every operation, in the order of the enumerators. Names, checks and messages read it; the arithmetic stands in vector.cpp.
constexpr ReduceOpInfo reduce_ops[] = {
    // op, names, boolean, integers, floats, complex, keeps_one
    {ReduceOp::sum, "sum", "", "", true, true, true, true, true},
    {ReduceOp::product, "product", "prod", "", true, true, true, true, true},
    {ReduceOp::min, "min", "", "", true, true, true, false, true},
    {ReduceOp::max, "max", "", "", true, true, true, false, true},
    {ReduceOp::avg, "avg", "mean", "average", false, true, true, true, false},
    {ReduceOp::band, "band", "and", "", true, true, false, false, true},
    {ReduceOp::bor, "bor", "or", "", true, true, false, false, true},
    {ReduceOp::bxor, "bxor", "xor", "", true, true, false, false, true},
    {ReduceOp::land, "land", "", "", true, true, true, false, false},
    {ReduceOp::lor, "lor", "", "", true, true, true, false, false},
};

consteval bool is_in_order() {
  std::size_t index = 0;
  for (const ReduceOpInfo& info : reduce_ops) {
    if (static_cast<std::size_t>(info.op) != index++) return false;
  }
  return true;
}
static_assert(is_in_order(), "the table has the operations in the order of their enumerators");

/// Returns the row of an operation; null for a value that is no enumerator.
constexpr const ReduceOpInfo* info_of(ReduceOp op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(reduce_ops) ? &reduce_ops[index] : nullptr;
}

bool is_complex(DType dtype) noexcept { return dtype == DType::complex64 || dtype == DType::complex128; }
bool is_integer(DType dtype) noexcept { return dtype >= DType::int8 && dtype <= DType::uint64; }
bool is_known(DType dtype) noexcept { return dtype >= DType::boolean && dtype <= DType::complex128; }

// Returns true where a single element is its own result, bit for bit.
bool keeps_one(DType dtype, ReduceOp op) noexcept { return dtype != DType::boolean && info_of(op)->keeps_one; }

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

/// Reduces the pairs that vector instructions lack the arithmetic for: avg of integers, product of integers of 1 and of 8 bytes.
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

namespace unisono {
namespace {

// tolower would make the result depend on the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string names() {
  std::string text;
  for (const kernels::ReduceOpInfo& info : kernels::reduce_ops) {
    if (&info != kernels::reduce_ops) text += &info == std::end(kernels::reduce_ops) - 1 ? " and " : ", ";
    text += info.name;
  }
  return text;
}

}  // namespace

ReduceOp parse_reduce_op(std::string_view text) {
  const auto is_text = [text](std::string_view name) {
    return !name.empty() && std::equal(text.begin(), text.end(), name.begin(), name.end(), [](char a, char b) { return lower(a) == b; });
  };
  for (const kernels::ReduceOpInfo& info : kernels::reduce_ops) {
    if (is_text(info.name) || is_text(info.alias) || is_text(info.other)) return info.op;
  }
  throw InvalidArgument("no reduction is called \"" + std::string(text) + "\"; there are " + names());
}

std::string_view to_string(ReduceOp op) noexcept {
  const auto* const info = kernels::info_of(op);
  return info != nullptr ? info->name : "unknown";
}

}  // namespace unisono
