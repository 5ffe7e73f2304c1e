#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "unisono/detail/object_concept.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

namespace unisono {

/// A tensor with memory of its own, a number of exact type, a string or a path: for a receiver that does not know what will come. An object like any
/// other. Asking for what it is not is InvalidArgument.
class UNISONO_API AnyValue {
 public:
  enum class Kind { tensor, number, string, path };

  /// A copy of the elements, row by row. Unsupported for memory of a device.
  explicit AnyValue(const Tensor& tensor);
  template <InBuffer B>
  requires(!detail::is_text<const B&> && !std::same_as<B, Tensor>) explicit AnyValue(const B& buffer) : AnyValue(detail::view_of(buffer)) {}
  template <Element T>
  AnyValue(T number)  // NOLINT(google-explicit-constructor): stands for the number
      : content_(Number{}), dtype_(dtype_of<T>::value) {
    std::memcpy(std::get<Number>(content_).bytes.data(), &number, sizeof number);
  }
  AnyValue(std::string text) : content_(std::move(text)) {}            // NOLINT(google-explicit-constructor)
  AnyValue(std::string_view text) : content_(std::string(text)) {}     // NOLINT(google-explicit-constructor)
  AnyValue(const char* text) : content_(std::string(text)) {}          // NOLINT(google-explicit-constructor)
  AnyValue(std::filesystem::path path) : content_(std::move(path)) {}  // NOLINT(google-explicit-constructor)

  Kind kind() const noexcept { return static_cast<Kind>(content_.index()); }
  bool is_tensor() const noexcept { return kind() == Kind::tensor; }
  bool is_number() const noexcept { return kind() == Kind::number; }
  bool is_string() const noexcept { return kind() == Kind::string; }
  bool is_path() const noexcept { return kind() == Kind::path; }

  /// Of a tensor or a number.
  DType dtype() const;
  /// A view of its memory: a buffer. It lasts as long as this value, and moving the value away leaves it valid.
  Tensor tensor();
  /// Empty for a tensor of no dimensions.
  std::span<const std::int64_t> shape() const;
  /// The elements of a tensor of T, row by row.
  template <Element T>
  std::span<const T> elements() const {
    const std::span<const std::byte> bytes = elements_of(dtype_of<T>::value);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// A number of exactly this type.
  template <Element T>
  T number() const {
    T x;
    std::memcpy(&x, number_of(dtype_of<T>::value), sizeof x);
    return x;
  }
  const std::string& string() const;
  const std::filesystem::path& path() const;

  /// Of the same kind, dtype, shape, and the same bits.
  friend bool operator==(const AnyValue&, const AnyValue&) = default;

 private:
  friend struct object_traits<AnyValue>;
  struct OwnTensor {
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
    friend bool operator==(const OwnTensor&, const OwnTensor&) = default;
  };
  struct Number {
    std::array<std::byte, 16> bytes{};
    friend bool operator==(const Number&, const Number&) = default;
  };
  AnyValue(std::variant<OwnTensor, Number, std::string, std::filesystem::path> content, DType dtype) : content_(std::move(content)), dtype_(dtype) {}
  std::span<const std::byte> elements_of(DType dtype) const;
  const void* number_of(DType dtype) const;

  std::variant<OwnTensor, Number, std::string, std::filesystem::path> content_;  // in the order of Kind
  DType dtype_ = DType::uint8;
};

template <>
struct UNISONO_API object_traits<AnyValue> {
  static constexpr std::string_view name = "any value";
  static void write(ObjectWriter& out, const AnyValue& value);
  static AnyValue read(ObjectReader& in);
};

}  // namespace unisono
