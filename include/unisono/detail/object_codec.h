#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>

#include "unisono/detail/object_type.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/standard.h"
#include "unisono/error.h"

// The codecs of everything but containers: each object is one value of MessagePack. A codec<T> has
// write, read and name.

namespace unisono::detail {

/// The DType as which a number travels, the same on every platform. The character types that are not
/// elements have one as well.
template <class T>
struct number_type {};
template <Element T>
struct number_type<T> : dtype_of<T> {};
template <>
struct number_type<char> : dtype_constant<DType::int8> {};
template <>
struct number_type<wchar_t> : dtype_constant<DType::int32> {};
template <>
struct number_type<char8_t> : dtype_constant<DType::uint8> {};
template <>
struct number_type<char16_t> : dtype_constant<DType::uint16> {};
template <>
struct number_type<char32_t> : dtype_constant<DType::uint32> {};
template <class T>
requires(std::is_enum_v<T> && !Element<T>) struct number_type<T> : number_type<std::underlying_type_t<T>> {
};

/// A type that travels as a number.
template <class T>
concept numeric = std::same_as<T, std::remove_cv_t<T>> && !has_object_traits<T> && requires {
  number_type<T>::value;
};

template <numeric T>
struct codec<T> {
  static constexpr DType dtype = number_type<T>::value;
  static void write(ObjectWriter& out, const T& x) { out.number(dtype, &x); }
  static T read(ObjectReader& in) {
    T x;
    in.number(dtype, &x);
    return x;
  }
  static void name(TypeName& name) {
    if constexpr (std::same_as<T, std::byte>) name << "byte";
    else if constexpr (std::same_as<T, char>) name << "char";
    else if constexpr (std::is_enum_v<T>) name << "enum " << to_string(dtype);
    else name << to_string(dtype);
  }
};

template <>
struct codec<long double> {
  static void write(ObjectWriter& out, const long double& x) { out.extended(x); }
  static long double read(ObjectReader& in) {
    long double x;
    in.extended(x);
    return x;
  }
  static void name(TypeName& name) { name << "long double " << static_cast<std::size_t>(std::numeric_limits<long double>::digits); }
};

template <>
struct codec<std::string> {
  static void write(ObjectWriter& out, const std::string& x) { out.string(x); }
  static std::string read(ObjectReader& in) { return std::string(in.string()); }
  static void name(TypeName& name) { name << "string"; }
};

template <path_like T>
requires(!has_object_traits<T>) struct codec<T> {
  static void write(ObjectWriter& out, const T& x) { out.string(x.native()); }
  static T read(ObjectReader& in) { return T(in.string()); }
  static void name(TypeName& name) { name << "path"; }
};

template <>
struct codec<std::monostate> {
  static void write(ObjectWriter& out, const std::monostate&) { out.nil(); }
  static std::monostate read(ObjectReader& in) {
    in.nil();
    return {};
  }
  static void name(TypeName& name) { name << "nothing"; }
};

template <class Rep, class Period>
requires object<Rep>
struct codec<std::chrono::duration<Rep, Period>> {
  using Duration = std::chrono::duration<Rep, Period>;
  static void write(ObjectWriter& out, const Duration& x) { codec<Rep>::write(out, x.count()); }
  static Duration read(ObjectReader& in) { return Duration(codec<Rep>::read(in)); }
  static void name(TypeName& name) {
    name << "duration<";
    name.add<Rep>();
    name << " × " << static_cast<std::size_t>(Period::num) << "/" << static_cast<std::size_t>(Period::den) << ">";
  }
};

template <class Clock, class Duration>
requires object<Duration>
struct codec<std::chrono::time_point<Clock, Duration>> {
  using Point = std::chrono::time_point<Clock, Duration>;
  static void write(ObjectWriter& out, const Point& x) { codec<Duration>::write(out, x.time_since_epoch()); }
  static Point read(ObjectReader& in) { return Point(codec<Duration>::read(in)); }
  static void name(TypeName& name) {
    name << (std::same_as<Clock, std::chrono::system_clock> ? "system " : std::same_as<Clock, std::chrono::steady_clock> ? "steady " : "");
    name.add<Duration>("time");
  }
};

/// The codec of holders, which are an array of one element or none, so that an optional of an
/// optional keeps its levels.
template <class T, class Holder>
struct holder_codec {
  static void write(ObjectWriter& out, const Holder& x) {
    out.array(x ? 1 : 0);
    if (x) codec<T>::write(out, *x);
  }
  static bool read_whether(ObjectReader& in) {
    const std::size_t n = in.array();
    if (n > 1) in.refuse("an optional of several values");
    return n == 1;
  }
};
template <object T>
struct codec<std::optional<T>> : holder_codec<T, std::optional<T>> {
  static std::optional<T> read(ObjectReader& in) {
    if (!codec::read_whether(in)) return std::nullopt;
    return std::optional<T>(codec<T>::read(in));
  }
  static void name(TypeName& name) { name.add<T>("optional"); }
};
template <object T>
struct codec<std::unique_ptr<T>> : holder_codec<T, std::unique_ptr<T>> {
  static std::unique_ptr<T> read(ObjectReader& in) {
    if (!codec::read_whether(in)) return nullptr;
    return std::make_unique<T>(codec<T>::read(in));
  }
  static void name(TypeName& name) { name.add<T>("unique_ptr"); }
};

/// The codec of types with a fixed number of parts.
template <class Tuple, class... T>
struct tuple_codec {
  static void write(ObjectWriter& out, const Tuple& x) {
    out.array(sizeof...(T));
    std::apply([&](const T&... parts) { (codec<T>::write(out, parts), ...); }, x);
  }
  static Tuple read(ObjectReader& in) {
    in.array_of(sizeof...(T));
    return Tuple{codec<T>::read(in)...};  // in the order of the list
  }
  static void name(TypeName& name) { name.add<T...>("tuple"); }
};
template <object... T>
struct codec<std::tuple<T...>> : tuple_codec<std::tuple<T...>, T...> {};
template <object A, object B>
struct codec<std::pair<A, B>> : tuple_codec<std::pair<A, B>, A, B> {};

template <object... T>
struct codec<std::variant<T...>> {
  using Variant = std::variant<T...>;
  static void write(ObjectWriter& out, const Variant& x) {
    if (x.valueless_by_exception()) throw InvalidArgument("a variant that lost its value to an exception is not an object");
    out.array(2);
    codec<std::uint32_t>::write(out, static_cast<std::uint32_t>(x.index()));
    std::visit([&]<class V>(const V& value) { codec<V>::write(out, value); }, x);
  }
  static Variant read(ObjectReader& in) {
    in.array_of(2);
    const auto index = codec<std::uint32_t>::read(in);
    if (index >= sizeof...(T)) in.refuse("a variant without such an alternative");
    return read_alternative(in, index, std::index_sequence_for<T...>{});
  }
  static void name(TypeName& name) { name.add<T...>("variant"); }

 private:
  template <std::size_t I>
  static Variant read_as(ObjectReader& in) {
    return Variant(std::in_place_index<I>, codec<std::variant_alternative_t<I, Variant>>::read(in));
  }
  template <std::size_t... I>
  static Variant read_alternative(ObjectReader& in, std::size_t index, std::index_sequence<I...>) {
    using Read = Variant (*)(ObjectReader&);
    constexpr Read alternatives[] = {&read_as<I>...};
    return alternatives[index](in);
  }
};

// Members: each an object, or an array of such.
template <class T>
void write_member(ObjectWriter& out, const T& x) {
  static_assert(object<T>, "unisono: a member in UNISONO_FIELDS is of a type that is not an object");
  codec<T>::write(out, x);
}
template <class T, std::size_t N>
void write_member(ObjectWriter& out, const T (&x)[N]) {
  out.array(N);
  for (const T& element : x) write_member(out, element);
}
template <class T>
void read_member(ObjectReader& in, T& x) {
  x = codec<T>::read(in);
}
template <class T, std::size_t N>
void read_member(ObjectReader& in, T (&x)[N]) {
  in.array_of(N);
  for (T& element : x) read_member(in, element);
}
template <class T>
void name_member(TypeName& name) {
  if constexpr (std::is_array_v<T>) {
    name << "array<";
    name_member<std::remove_extent_t<T>>(name);
    name << ", " << std::extent_v<T> << ">";
  } else {
    name.add<T>();
  }
}

template <class T>
requires(has_fields<T> && !has_object_traits<T>) struct codec<T> {
  static void write(ObjectWriter& out, const T& x) {
    static_assert(own_fields<T>, "unisono: the UNISONO_FIELDS of this type are its base's; give it its own, with those of the base among them");
    std::apply(
        [&](const auto&... members) {
          out.array(sizeof...(members));
          (write_member(out, members), ...);
        },
        x.unisono_fields());
  }
  static T read(ObjectReader& in) {
    static_assert(std::default_initializable<T>, "unisono: a type with UNISONO_FIELDS needs a default constructor; object_traits do without");
    T x{};
    std::apply(
        [&](auto&... members) {
          in.array_of(sizeof...(members));
          (read_member(in, members), ...);
        },
        x.unisono_fields());
    return x;
  }
  static void name(TypeName& name) {
    name.nest<T>([&] {
      name << "{" << T::unisono_field_names() << ":";
      using Members = decltype(std::declval<T&>().unisono_fields());
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((name << " ", name_member<std::remove_reference_t<std::tuple_element_t<I, Members>>>(name)), ...);
      }
      (std::make_index_sequence<std::tuple_size_v<Members>>{});
      name << "}";
    });
  }
};

template <has_object_traits T>
struct codec<T> {
  static void write(ObjectWriter& out, const T& x) {
    const std::size_t mark = out.open();
    object_traits<T>::write(out, x);
    out.close(mark);
  }
  static T read(ObjectReader& in) {
    const std::size_t mark = in.open();
    T x = object_traits<T>::read(in);
    in.close(mark);
    return x;
  }
  static void name(TypeName& name) {
    if constexpr (requires { std::string_view(object_traits<T>::name); }) name << object_traits<T>::name;
    else name << typeid(T).name();
  }
};

}  // namespace unisono::detail
