#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "unisono/tensor.h"

// The types that are objects, without the code that turns them into bytes (unisono/objects.h brings
// that).

namespace unisono {

class ObjectWriter;
class ObjectReader;

/// Makes a type of the user's an object if UNISONO_FIELDS cannot stand inside it:
///
///   template <>
///   struct unisono::object_traits<Colour> {
///     static constexpr std::string_view name = "Colour";              // optional; compared between the ranks
///     static void write(ObjectWriter& out, const Colour& c) { out.write(c.red(), c.green()); }
///     static Colour read(ObjectReader& in) {
///       const auto red = in.read<float>();
///       return Colour(red, in.read<float>());
///     }
///   };
///
/// `read` takes what `write` wrote: the same number of values, in the same order, of the same types.
/// Otherwise it throws Mismatch. Both may throw.
template <class O>
struct object_traits {};

namespace detail {

/// std::filesystem::path, and types of its shape. The concept goes by shape, so that <filesystem>
/// need not be included here.
template <class T>
concept path_like = std::same_as<T, std::remove_cv_t<T>> && requires(const T& path) {
  T::preferred_separator;
  { path.native() } -> std::same_as<const std::string&>;
  { path.lexically_normal() } -> std::same_as<T>;
  T(std::string_view());
};

/// The way in which a type is written, read and named; specialised for every type that is an
/// object.
template <class T>
struct codec {};

/// A type that can be written, and read as itself.
template <class T>
concept object = requires(ObjectWriter& out, ObjectReader& in, const T& x) {
  codec<T>::write(out, x);
  { codec<T>::read(in) } -> std::same_as<T>;
};

/// Tells whether a type is a literal, a pointer to characters, or a string view.
template <class X>
inline constexpr bool is_text =
    std::same_as<std::decay_t<X>, char*> || std::same_as<std::decay_t<X>, const char*> || std::same_as<std::remove_cvref_t<X>, std::string_view>;
template <class X>
struct sent_as {
  using type = std::remove_cvref_t<X>;
};
template <class X>
requires is_text<X>
struct sent_as<X> {
  using type = std::string;
};

/// The type as which an argument travels: text of any kind as std::string, everything else as
/// itself.
template <class X>
using sent_as_t = typename sent_as<X>::type;

/// An argument that an object collective takes.
template <class X>
concept object_argument = object<sent_as_t<X>>;

/// Fails to compile, with a sentence, for anything that is not an object.
template <class X>
constexpr void refuse_as_object() {
  static_assert(object_argument<X>,
                "unisono: this type is not an object: objects are numbers, enums, strings, containers and other types of the standard library with "
                "them, and types with UNISONO_FIELDS or unisono::object_traits");
}

/// An object that is neither a buffer nor a value, for functions that take all three. A literal is
/// text; an array of char that can be written to is a buffer. Numbers are told apart first, before
/// their codecs are asked for: those of objects.h may be defined after the call.
template <class X>
concept object_value = !Element<std::remove_cvref_t<X>> && !is_vector_bool<std::remove_cvref_t<X>> && object_argument<X> &&
                       (!has_view<X> || (std::is_array_v<std::remove_reference_t<X>> && std::is_const_v<std::remove_reference_t<X>> && is_text<X>));

}  // namespace detail
}  // namespace unisono
