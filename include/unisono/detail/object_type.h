#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/object_concept.h"
#include "unisono/export.h"

namespace unisono::detail {

/// Spells out what a type consists of. The text is the same with every compiler, since it names the
/// structure and not what a compiler calls the type.
class TypeName {
 public:
  /// Appends a text.
  TypeName& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  /// Appends a number.
  TypeName& operator<<(std::size_t n) {
    text_ += std::to_string(n);
    return *this;
  }
  /// Appends the name of T.
  template <class T>
  void add() {
    codec<T>::name(*this);
  }
  /// Appends a template with the names of its arguments: "map<int32, string>".
  template <class... T>
  void add(std::string_view name) {
    *this << name << "<";
    [[maybe_unused]] std::string_view between;
    ((*this << std::exchange(between, ", "), add<T>()), ...);
    *this << ">";
  }

  /// Appends the name of a type that may contain itself. Within itself such a type is written as a
  /// number: how many such types further out it began.
  template <class T, class F>
  void nest(F&& contents) {
    const void* const self = &identity<T>;
    for (std::size_t outwards = 0; outwards < open_.size(); ++outwards) {
      if (open_[open_.size() - 1 - outwards] != self) continue;
      *this << "^" << outwards;
      return;
    }
    open_.push_back(self);
    contents();
    open_.pop_back();
  }
  /// Returns the text.
  std::string take() { return std::move(text_); }

 private:
  template <class T>
  static constexpr char identity = 0;

  std::string text_;
  std::vector<const void*> open_;
};

/// The type that ranks compare before an object is read.
struct ObjectType {
  std::string name;
  std::uint64_t fingerprint;
};

/// Returns the hash of a type's name.
UNISONO_API std::uint64_t fingerprint_of(std::string_view name) noexcept;

/// Throws Mismatch unless both are the same.
UNISONO_API void check_fingerprint(const ObjectType& type, std::uint64_t found);

/// Returns the name and fingerprint of O, which are made once.
template <object O>
const ObjectType& object_type() {
  static const ObjectType& type = *new const ObjectType([] {
    TypeName name;
    name.add<O>();
    std::string text = name.take();
    const std::uint64_t fingerprint = fingerprint_of(text);
    return ObjectType{std::move(text), fingerprint};
  }());
  return type;
}

}  // namespace unisono::detail

/// Makes a struct or class an object of these members, in this order, as many as there are. It
/// stands inside the type, in its public part.
///
/// Members are objects of any kind, and arrays of such. The type has a default constructor. A
/// derived class has UNISONO_FIELDS of its own, with the members of its base among them.
#define UNISONO_FIELDS(...)                                     \
  auto unisono_fields() { return std::tie(__VA_ARGS__); }       \
  auto unisono_fields() const { return std::tie(__VA_ARGS__); } \
  void unisono_owner() const {}                                 \
  static constexpr std::string_view unisono_field_names() noexcept { return #__VA_ARGS__; }

namespace unisono::detail {

/// A type with UNISONO_FIELDS.
template <class T>
concept has_fields = requires(T& x) {
  x.unisono_fields();
  T::unisono_field_names();
};

/// A type with object_traits.
template <class T>
concept has_object_traits = requires(ObjectWriter& out, ObjectReader& in, const T& x) {
  object_traits<T>::write(out, x);
  { object_traits<T>::read(in) } -> std::convertible_to<T>;
};

/// The class of a pointer to a member function.
template <class Member>
struct class_of_member;
template <class C>
struct class_of_member<void (C::*)() const> {
  using type = C;
};

/// Tells whether the UNISONO_FIELDS that T has are its own and not those of a base.
template <class T>
inline constexpr bool own_fields = std::same_as<typename class_of_member<decltype(&T::unisono_owner)>::type, T>;

}  // namespace unisono::detail
