#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

enum class DType { boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128 };

UNISONO_API std::string_view to_string(DType dtype) noexcept;  ///< "float32"
UNISONO_API std::size_t size_of(DType dtype) noexcept;         ///< bytes of one element

namespace detail {
UNISONO_API std::uint16_t float_to_half(float value) noexcept;  // round to nearest, ties to even; NaN stays NaN
UNISONO_API float half_to_float(std::uint16_t bits) noexcept;
constexpr std::uint16_t float_to_bfloat(float value) noexcept {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);  // a quiet NaN
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(bits >> 16);
}
constexpr float bfloat_to_float(std::uint16_t bits) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
}  // namespace detail

/// IEEE binary16, for storage: arithmetic happens in float.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value) noexcept : bits(detail::float_to_half(value)) {}
  static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 result;
    result.bits = bits;
    return result;
  }
  operator float() const noexcept { return detail::half_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// The upper half of a float, for storage: arithmetic happens in float.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit constexpr bfloat16(float value) noexcept : bits(detail::float_to_bfloat(value)) {}
  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result;
    result.bits = bits;
    return result;
  }
  constexpr operator float() const noexcept { return detail::bfloat_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// Where memory lives. `index` is the ordinal among the devices of its type; 0 for the cpu.
struct Device {
  enum class Type { cpu, cuda } type = Type::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
UNISONO_API std::string to_string(Device device);  ///< "cpu", "cuda:1"

/// A view of elements somebody else owns: address, dtype, shape, and strides in elements (any sign). No strides: contiguous, row by row.
/// The memory must outlive every operation on it. Throws InvalidArgument for a negative extent, for strides of another count than the shape,
/// and for a null address with elements behind it.
class UNISONO_API TensorView {
 public:
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides = {}, Device device = {});
  /// A contiguous line of `numel` elements on the cpu.
  TensorView(void* data, DType dtype, std::size_t numel) noexcept : data_(data), numel_(static_cast<std::int64_t>(numel)), dtype_(dtype) {}

  void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  std::span<const std::int64_t> shape() const noexcept;
  std::span<const std::int64_t> strides() const noexcept;
  std::int64_t numel() const noexcept { return numel_; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(numel_) * size_of(dtype_); }
  bool is_contiguous() const noexcept { return contiguous_; }
  Device device() const noexcept { return device_; }

 private:
  void* data_;
  std::int64_t numel_ = 0;
  DType dtype_;
  bool contiguous_ = true;
  bool line_ = true;  // one dimension of numel_ elements: nothing in dims_
  Device device_ = {};
  std::vector<std::int64_t> dims_ = {};  // shape, then strides
};

/// The name that version 0.1 had for `TensorView`. It goes with version 0.3.
using Tensor = TensorView;

/// The dtype of a C++ type; `value` exists only for element types.
template <class T>
struct dtype_of {};

namespace detail {
template <DType D>
struct dtype_constant {
  static constexpr DType value = D;
};
template <class T>
constexpr DType integer_dtype() {
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? DType::int8 : DType::uint8;
  else if constexpr (sizeof(T) == 2) return is_signed ? DType::int16 : DType::uint16;
  else if constexpr (sizeof(T) == 4) return is_signed ? DType::int32 : DType::uint32;
  else return is_signed ? DType::int64 : DType::uint64;
}
template <class T>
concept plain_integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8 && !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// std::complex, and what has its shape: two floats or two doubles, real() and imag(). Told by its shape, since <complex> takes longer to compile
/// than all of our headers for collectives together, and a program that has complex numbers includes it anyway.
template <class T>
concept complex_number = std::same_as<T, std::remove_cv_t<T>> && std::is_trivially_copyable_v<T> && requires(const T& z) {
  requires std::same_as<typename T::value_type, float> || std::same_as<typename T::value_type, double>;
  { z.real() } -> std::same_as<typename T::value_type>;
  { z.imag() } -> std::same_as<typename T::value_type>;
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
};
}  // namespace detail

template <>
struct dtype_of<bool> : detail::dtype_constant<DType::boolean> {};
template <detail::plain_integer T>
struct dtype_of<T> : detail::dtype_constant<detail::integer_dtype<T>()> {};
template <>
struct dtype_of<std::byte> : detail::dtype_constant<DType::uint8> {};
template <>
struct dtype_of<float16> : detail::dtype_constant<DType::float16> {};
template <>
struct dtype_of<bfloat16> : detail::dtype_constant<DType::bfloat16> {};
template <>
struct dtype_of<float> : detail::dtype_constant<DType::float32> {};
template <>
struct dtype_of<double> : detail::dtype_constant<DType::float64> {};
template <detail::complex_number T>
struct dtype_of<T> : detail::dtype_constant<std::same_as<typename T::value_type, float> ? DType::complex64 : DType::complex128> {};

/// An element: one of the types a DType stands for.
template <class T>
concept Element = requires {
  dtype_of<std::remove_cv_t<T>>::value;
};

/// Makes a type of the user's a buffer: `static TensorView view(T&)`. A view never outlives the call it is made for. Where an object is only a handle of
/// elements that are elsewhere, `static constexpr bool is_handle = true` makes constants and temporaries buffers as well. Where the type has to know
/// that its elements are about to be written, `static void written(T&)` is called before.
template <class T>
struct buffer_traits {};

namespace detail {

template <class T>
inline constexpr bool is_string = false;
template <class C, class R, class A>
inline constexpr bool is_string<std::basic_string<C, R, A>> = true;
template <class C, class R>
inline constexpr bool is_string<std::basic_string_view<C, R>> = true;

template <class T>
inline constexpr bool is_vector_bool = false;
template <class A>
inline constexpr bool is_vector_bool<std::vector<bool, A>> = true;

template <class T>
concept element_range =
    std::ranges::contiguous_range<T&> && std::ranges::sized_range<T&> && !is_string<std::remove_cv_t<T>> && Element<std::ranges::range_value_t<T&>>;

template <class T>
concept has_view = requires(std::remove_cvref_t<T>& x) {
  { buffer_traits<std::remove_cvref_t<T>>::view(x) } -> std::same_as<TensorView>;
};

/// A type whose objects refer to elements that are elsewhere: `static constexpr bool is_handle = true` in its buffer_traits.
template <class T>
concept is_handle = requires {
  requires buffer_traits<T>::is_handle;
};
template <class T>
inline constexpr bool is_temporary_view =
    std::ranges::view<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, TensorView> || is_handle<std::remove_cvref_t<T>>;

/// The element type where it is known to the compiler, void where only the tensor knows it.
template <class T>
struct element_type {
  using type = void;
};
template <element_range T>
struct element_type<T> {
  using type = std::ranges::range_value_t<T&>;
};
template <class T>
using element_type_t = typename element_type<std::remove_cvref_t<T>>::type;

}  // namespace detail

/// Contiguous ranges of elements are buffers.
template <detail::element_range T>
struct buffer_traits<T> {
  static TensorView view(T& range) {
    using E = std::ranges::range_value_t<T&>;
    return {const_cast<std::remove_const_t<E>*>(std::ranges::data(range)), dtype_of<std::remove_cv_t<E>>::value,
            static_cast<std::size_t>(std::ranges::size(range))};
  }
};
template <>
struct buffer_traits<TensorView> {
  static TensorView view(TensorView& tensor) { return tensor; }
};

/// What a collective can read: a contiguous range of elements, a TensorView, or a type with buffer_traits.
template <class T>
concept InBuffer = detail::has_view<T>;

namespace detail {
template <class T>
inline constexpr bool writable_range = true;
template <element_range T>
inline constexpr bool writable_range<T> = !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T&>>>;
}  // namespace detail

/// What a collective can write to: such a thing as an lvalue that is not const, or as a temporary view (`std::span(x).first(2)`).
template <class T>
concept Buffer = detail::has_view<T> && detail::writable_range<std::remove_reference_t<T>> &&
    (std::is_lvalue_reference_v<T> || detail::is_temporary_view<T>)&&(!std::is_const_v<std::remove_reference_t<T>> || detail::is_temporary_view<T>);

namespace detail {
template <class T>
TensorView view_of(T&& x) {
  using Plain = std::remove_cvref_t<T>;
  return buffer_traits<Plain>::view(const_cast<Plain&>(x));
}
/// Of what the call writes to.
template <class T>
TensorView writable_view_of(T&& x) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (requires(Plain & plain) { buffer_traits<Plain>::written(plain); }) buffer_traits<Plain>::written(const_cast<Plain&>(x));
  return view_of(x);
}
}  // namespace detail

}  // namespace unisono
