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

/// A tensor with memory of its own, a number of exact type, a string or a path: for a receiver that does not know what will come. An object like any
/// other. Asking for what it is not is InvalidArgument.
class UNISONO_API AnyValue {
 public:
  enum class Kind { tensor, number, string, path };

  /// A copy of the elements, row by row, in the host's memory. Of memory of a device after all that is on the caller's current stream; Unsupported
  /// where that device's runtime is not to be had.
  explicit AnyValue(const TensorView& tensor);
  template <InBuffer B>
  requires(!detail::is_text<const B&> && !std::same_as<B, TensorView>) explicit AnyValue(const B& buffer) : AnyValue(detail::view_of(buffer)) {}
  template <Element T>
  AnyValue(T number)  // NOLINT(google-explicit-constructor): stands for the number
      : AnyValue(dtype_of<T>::value, &number) {}
  AnyValue(std::string text);       // NOLINT(google-explicit-constructor)
  AnyValue(std::string_view text);  // NOLINT(google-explicit-constructor)
  AnyValue(const char* text);       // NOLINT(google-explicit-constructor)
  template <detail::path_like P>
  AnyValue(const P& path) : AnyValue(OwnPath(path.native())) {}  // NOLINT(google-explicit-constructor): stands for the path

  AnyValue(const AnyValue& other);
  AnyValue(AnyValue&& other) noexcept;
  AnyValue& operator=(const AnyValue& other);
  AnyValue& operator=(AnyValue&& other) noexcept;
  ~AnyValue();

  Kind kind() const noexcept { return static_cast<Kind>(content_.index()); }
  bool is_tensor() const noexcept { return kind() == Kind::tensor; }
  bool is_number() const noexcept { return kind() == Kind::number; }
  bool is_string() const noexcept { return kind() == Kind::string; }
  bool is_path() const noexcept { return kind() == Kind::path; }

  /// Of a tensor or a number.
  DType dtype() const;
  /// A view of its memory: a buffer. It lasts as long as this value, and moving the value away leaves it valid.
  TensorView tensor();
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
  const std::filesystem::path& path() const;  ///< to do more than pass it on, include <filesystem>

  /// Of the same kind, dtype, shape, and the same bits.
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
  /// Copies share it: it never changes.
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

template <>
struct UNISONO_API object_traits<AnyValue> {
  static constexpr std::string_view name = "any value";
  static void write(ObjectWriter& out, const AnyValue& value);
  static AnyValue read(ObjectReader& in);
};

}  // namespace unisono
