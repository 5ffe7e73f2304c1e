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

/// The types that elements can have. Values travel between processes; they are never converted.
enum class DType { boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128 };

/// Returns the name of the enumerator: "float32".
UNISONO_API std::string_view to_string(DType dtype) noexcept;
namespace detail {
// Not in the function: there a compiler puts it onto the stack with each call.
inline constexpr std::array<std::uint8_t, 15> element_sizes{1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
}  // namespace detail
/// Returns the bytes that one element takes.
constexpr std::size_t size_of(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < detail::element_sizes.size() ? detail::element_sizes[index] : 0;
}

namespace detail {
/// Converts to IEEE binary16: rounds to nearest, ties to even; NaN stays NaN.
UNISONO_API std::uint16_t float_to_half(float value) noexcept;

/// Converts from IEEE binary16, exactly.
UNISONO_API float half_to_float(std::uint16_t bits) noexcept;

/// Converts to bfloat16: rounds to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t float_to_bfloat(float value) noexcept {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);  // a quiet NaN
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(bits >> 16);
}

/// Converts from bfloat16, exactly.
constexpr float bfloat_to_float(std::uint16_t bits) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
}  // namespace detail

/// IEEE binary16, for storage: it converts from float explicitly and to float implicitly, so that
/// arithmetic happens in float.
struct float16 {
  /// The sign, 5 bits of exponent and 10 of mantissa.
  std::uint16_t bits = 0;
  float16() = default;
  /// Rounds to the nearest number, ties to even. Numbers that round to more than 65504 become
  /// infinite.
  explicit float16(float value) noexcept : bits(detail::float_to_half(value)) {}
  /// Makes a number from its bits.
  static constexpr float16 from_bits(std::uint16_t bits) noexcept { return std::bit_cast<float16>(bits); }
  operator float() const noexcept { return detail::half_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// The upper half of a float, for storage: the range of float with 8 bits of precision. Arithmetic
/// happens in float.
struct bfloat16 {
  /// The sign, 8 bits of exponent and 7 of mantissa.
  std::uint16_t bits = 0;
  bfloat16() = default;
  /// Rounds to the nearest number, ties to even.
  explicit constexpr bfloat16(float value) noexcept : bits(detail::float_to_bfloat(value)) {}
  /// Makes a number from its bits.
  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept { return std::bit_cast<bfloat16>(bits); }
  constexpr operator float() const noexcept { return detail::bfloat_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// A place where memory lives: the host, or a device.
struct Device {
  enum class Type { cpu, cuda } type = Type::cpu;
  /// The number among the devices of that type; 0 for the cpu.
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
/// Returns "cpu" or "cuda:1".
UNISONO_API std::string to_string(Device device);

/// A view of elements that somebody else owns: an address, a dtype, a shape, and strides in
/// elements, which may be negative.
///
/// A view copies nothing and keeps nothing alive: the memory outlives every operation on it. It is
/// a buffer wherever the library takes one. Without strides it is contiguous, row by row; a strided
/// view is packed and unpacked by the library.
///
/// ```cpp
/// const std::int64_t shape[] = {rows, columns}, strides[] = {1, rows};     // column by column
/// TensorView matrix(data, DType::float64, shape, strides);
/// all_reduce(matrix);
/// ```
class UNISONO_API TensorView {
 public:
  /// Views elements of this shape.
  ///
  /// @param strides one for each dimension, in elements; empty for contiguous elements
  /// @param device the device of the memory; the runtime of the group's device is asked about memory
  ///    that is given as the host's
  /// @throws InvalidArgument for a negative extent, for strides that are not as many as the
  ///   dimensions, for a null address with elements, and for more bytes than 64 bits can count
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides = {}, Device device = {});
  /// Views `numel` contiguous elements, in one dimension.
  TensorView(void* data, DType dtype, std::size_t numel) noexcept : data_(data), numel_(static_cast<std::int64_t>(numel)), dtype_(dtype) {}
  /// Views the elements that another view views. A copy takes memory only if the view has several
  /// dimensions or gaps.
  TensorView(const TensorView& other)
      : data_(other.data_), numel_(other.numel_), dtype_(other.dtype_), contiguous_(other.contiguous_), line_(other.line_), device_(other.device_) {
    if (!line_) dims_ = other.dims_;
  }
  TensorView(TensorView&& other) noexcept = default;
  TensorView& operator=(const TensorView& other) {  // NOLINT(bugprone-unhandled-self-assignment): that of each member is sound
    if (!line_ || !other.line_) dims_ = other.dims_;
    data_ = other.data_;
    numel_ = other.numel_;
    dtype_ = other.dtype_;
    contiguous_ = other.contiguous_;
    line_ = other.line_;
    device_ = other.device_;
    return *this;
  }
  TensorView& operator=(TensorView&& other) noexcept = default;
  ~TensorView() = default;

  /// Returns the address of the first element.
  void* data() const noexcept { return data_; }
  /// Returns the type of the elements.
  DType dtype() const noexcept { return dtype_; }
  /// Returns the extents, valid as long as this object.
  std::span<const std::int64_t> shape() const noexcept;
  /// Returns the strides in elements, valid as long as this object.
  std::span<const std::int64_t> strides() const noexcept;
  /// Returns the number of elements: the product of the extents.
  std::int64_t numel() const noexcept { return numel_; }
  /// Returns the bytes that the elements take when packed.
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(numel_) * size_of(dtype_); }
  /// Tells whether the elements lie row by row without gaps. A view without elements does.
  bool is_contiguous() const noexcept { return contiguous_; }
  /// Returns the device that the view was made with.
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

/// The name that version 0.1 had for TensorView. It goes with version 0.3.
using Tensor = TensorView;

/// The dtype of a C++ type: `dtype_of<float>::value` is DType::float32. `value` exists for element
/// types only.
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

/// An integer that counts or measures. The character types other than char are none.
template <class T>
concept plain_integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8 && !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// std::complex, and types of its shape: two floats or two doubles, with real() and imag().
///
/// The concept goes by shape, since <complex> takes longer to compile than all headers for
/// collectives together, and a program that has complex numbers includes it anyway.
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

/// A C++ type that a DType stands for: bool, the integers up to 64 bits, std::byte, float16,
/// bfloat16, float, double, and std::complex of the latter two.
template <class T>
concept Element = requires {
  dtype_of<std::remove_cv_t<T>>::value;
};

/// Makes a type of the program's own a buffer, by a specialisation with a function `view`:
///
/// ```cpp
/// template <>
/// struct unisono::buffer_traits<Matrix> {
///   static TensorView view(Matrix& m) { return {m.data(), DType::float64, m.size()}; }
/// };
/// ```
///
/// The view is made for one call and never outlives it. Two more members are optional:
///
/// - `static constexpr bool is_handle = true`, if an object only refers to elements that are
///   elsewhere, as at::Tensor does. Constants and temporaries of the type are then buffers as well;
/// - `static void written(Matrix&)`, which is called before elements are written, for types that
///   keep count of changes.
template <class T>
struct buffer_traits {};

namespace detail {

/// Tells whether a type is a string or a string view, which are objects and no buffers.
template <class T>
inline constexpr bool is_string = false;
template <class C, class R, class A>
inline constexpr bool is_string<std::basic_string<C, R, A>> = true;
template <class C, class R>
inline constexpr bool is_string<std::basic_string_view<C, R>> = true;

/// Tells whether a type is a std::vector<bool>, whose elements have no addresses.
template <class T>
inline constexpr bool is_vector_bool = false;
template <class A>
inline constexpr bool is_vector_bool<std::vector<bool, A>> = true;

/// A contiguous range whose length is known and whose elements have a dtype.
template <class T>
concept element_range =
    std::ranges::contiguous_range<T&> && std::ranges::sized_range<T&> && !is_string<std::remove_cv_t<T>> && Element<std::ranges::range_value_t<T&>>;

/// A type that buffer_traits makes a view of.
template <class T>
concept has_view = requires(std::remove_cvref_t<T>& x) {
  { buffer_traits<std::remove_cvref_t<T>>::view(x) } -> std::same_as<TensorView>;
};

/// A type whose objects refer to elements that are elsewhere: is_handle is true in its
/// buffer_traits.
template <class T>
concept is_handle = requires {
  requires buffer_traits<T>::is_handle;
};

/// Tells whether a temporary of the type can be written to, because its elements are elsewhere.
template <class T>
inline constexpr bool is_temporary_view =
    std::ranges::view<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, TensorView> || is_handle<std::remove_cvref_t<T>>;

/// The element type if the compiler knows it; void if only the tensor knows it.
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

/// Contiguous ranges of elements are buffers: std::vector, std::array, std::span, arrays, and views
/// of them.
template <detail::element_range T>
struct buffer_traits<T> {
  static TensorView view(T& range) {
    using E = std::ranges::range_value_t<T&>;
    return {const_cast<std::remove_const_t<E>*>(std::ranges::data(range)), dtype_of<std::remove_cv_t<E>>::value,
            static_cast<std::size_t>(std::ranges::size(range))};
  }
};

/// A TensorView is a buffer.
template <>
struct buffer_traits<TensorView> {
  static TensorView view(TensorView& tensor) { return tensor; }
};

/// A buffer that a collective can read: a contiguous range of elements, a TensorView, or a type
/// with buffer_traits. It may be constant.
template <class T>
concept InBuffer = detail::has_view<T>;

namespace detail {
/// Tells whether the elements of a range can be written to.
template <class T>
inline constexpr bool writable_range = true;
template <element_range T>
inline constexpr bool writable_range<T> = !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T&>>>;
}  // namespace detail

/// A buffer that a collective can write to: an lvalue that is not constant, or a temporary view
/// such as `std::span(x).first(2)`.
template <class T>
concept Buffer = detail::has_view<T> && detail::writable_range<std::remove_reference_t<T>> &&
    (std::is_lvalue_reference_v<T> || detail::is_temporary_view<T>)&&(!std::is_const_v<std::remove_reference_t<T>> || detail::is_temporary_view<T>);

namespace detail {
/// Returns a view of a buffer that is read.
template <class T>
TensorView view_of(T&& x) {
  using Plain = std::remove_cvref_t<T>;
  return buffer_traits<Plain>::view(const_cast<Plain&>(x));
}

/// Returns a view of a buffer that the call writes to, and tells its type so.
template <class T>
TensorView writable_view_of(T&& x) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (requires(Plain & plain) { buffer_traits<Plain>::written(plain); }) buffer_traits<Plain>::written(const_cast<Plain&>(x));
  return view_of(x);
}
}  // namespace detail

}  // namespace unisono
