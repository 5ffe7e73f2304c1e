#pragma once

#include <concepts>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "unisono/detail/object_concept.h"

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
