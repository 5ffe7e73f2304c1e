#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "unisono/detail/object_concept.h"
#include "unisono/detail/standard.h"
#include "unisono/detail/standard_path.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

namespace unisono {

/// A tensor with memory of its own, a number of exact type, a string or a path: for a receiver that
/// does not know what will come.
///
/// It is an object like any other, and broadcast_any returns one. Asking it for what it is not is
/// InvalidArgument; no number is converted.
///
/// ```cpp
/// const AnyValue value = broadcast_any(rank() == 0 ? std::optional(AnyValue(3.5F)) : std::nullopt);
/// if (value.is_number()) use(value.number<float>());
/// ```
class UNISONO_API AnyValue {
 public:
  /// The four kinds of value.
  enum class Kind { tensor, number, string, path };

  /// Copies the elements, row by row, into the host's memory.
  ///
  /// Elements in the memory of a device are copied after everything on the caller's current stream.
  /// Unsupported is thrown if that device's runtime is not available.
  explicit AnyValue(const TensorView& tensor);
  /// Copies the elements of a buffer.
  template <InBuffer B>
  requires(!detail::is_text<const B&> && !std::same_as<B, TensorView>) explicit AnyValue(const B& buffer) : AnyValue(detail::view_of(buffer)) {}
  /// Takes a number, whose type is kept.
  template <Element T>
  AnyValue(T number)  // NOLINT(google-explicit-constructor): stands for the number
      : AnyValue(dtype_of<T>::value, &number) {}
  /// Takes a text.
  AnyValue(std::string text);       // NOLINT(google-explicit-constructor)
  AnyValue(std::string_view text);  // NOLINT(google-explicit-constructor)
  AnyValue(const char* text);       // NOLINT(google-explicit-constructor)
  /// Takes a std::filesystem::path.
  template <detail::path_like P>
  AnyValue(const P& path) : AnyValue(OwnPath(path.native())) {}  // NOLINT(google-explicit-constructor): stands for the path

  AnyValue(const AnyValue& other);
  AnyValue(AnyValue&& other) noexcept;
  AnyValue& operator=(const AnyValue& other);
  AnyValue& operator=(AnyValue&& other) noexcept;
  ~AnyValue();

  /// Tells which of the four it is.
  Kind kind() const noexcept { return static_cast<Kind>(content_.index()); }
  bool is_tensor() const noexcept { return kind() == Kind::tensor; }
  bool is_number() const noexcept { return kind() == Kind::number; }
  bool is_string() const noexcept { return kind() == Kind::string; }
  bool is_path() const noexcept { return kind() == Kind::path; }

  /// Returns the dtype of a tensor or a number.
  DType dtype() const;
  /// Returns a view of a tensor's memory: a buffer. It lasts as long as this value, and also when
  /// the value is moved elsewhere.
  TensorView tensor();
  /// Returns the shape of a tensor, which is empty for one of no dimensions.
  std::span<const std::int64_t> shape() const;
  /// Returns the elements of a tensor of T, row by row.
  template <Element T>
  std::span<const T> elements() const {
    const std::span<const std::byte> bytes = elements_of(dtype_of<T>::value);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// Returns a number of exactly this type.
  template <Element T>
  T number() const {
    T x;
    std::memcpy(&x, number_of(dtype_of<T>::value), sizeof x);
    return x;
  }
  /// Returns a text.
  const std::string& string() const;
  /// Returns a path. To do more than pass it on, include <filesystem>.
  const std::filesystem::path& path() const;

  /// Tells whether both have the same kind, dtype, shape and bits.
  bool operator==(const AnyValue& other) const;

 private:
  friend struct object_traits<AnyValue>;
  struct OwnTensor {
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
    bool operator==(const OwnTensor&) const = default;
  };
  struct Number {
    std::array<std::byte, 16> bytes{};
    bool operator==(const Number&) const = default;
  };
  /// A path that copies of the value share, since it never changes.
  struct OwnPath {
    explicit OwnPath(std::string_view text);
    bool operator==(const OwnPath& other) const;
    std::shared_ptr<const std::filesystem::path> path;
  };
  using Content = std::variant<OwnTensor, Number, std::string, OwnPath>;  // in the order of Kind
  AnyValue(Content content, DType dtype);
  AnyValue(DType dtype, const void* number);
  explicit AnyValue(OwnPath path);
  std::span<const std::byte> elements_of(DType dtype) const;
  const void* number_of(DType dtype) const;

  Content content_;
  DType dtype_;
};

/// Makes an AnyValue an object.
template <>
struct UNISONO_API object_traits<AnyValue> {
  static constexpr std::string_view name = "any value";
  static void write(ObjectWriter& out, const AnyValue& value);
  static AnyValue read(ObjectReader& in);
};

}  // namespace unisono
