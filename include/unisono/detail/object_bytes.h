#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/object_codec.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/object_type.h"

// The codecs of the containers of the standard library. The elements of vectors and arrays of
// numbers travel as one block.

namespace unisono::detail {

/// Writes consecutive elements: numbers as one block, other objects as an array.
template <class T>
void write_elements(ObjectWriter& out, const T* elements, std::size_t n) {
  if constexpr (std::same_as<T, std::byte>) {
    out.bytes({elements, n});
  } else if constexpr (numeric<T>) {
    out.block(number_type<T>::value, elements, n);
  } else {
    out.array(n);
    for (std::size_t i = 0; i < n; ++i) codec<T>::write(out, elements[i]);
  }
}

/// Reads a block of numbers of this type.
template <class T>
std::span<const std::byte> read_block(ObjectReader& in) {
  if constexpr (std::same_as<T, std::byte>) return in.bytes();
  else return in.block(number_type<T>::value);
}

/// Returns the number of elements that a container may make room for before they come: no more than
/// fit the bytes that are left.
template <class T>
std::size_t room(const ObjectReader& in, std::size_t n) {
  const std::size_t most = in.bytes_left() / sizeof(T) + 1;
  return n < most ? n : most;
}

template <object T, class A>
struct codec<std::vector<T, A>> {
  using Vector = std::vector<T, A>;
  static void write(ObjectWriter& out, const Vector& x) {
    if constexpr (std::same_as<T, bool>) {
      const std::vector<unsigned char> bytes(x.begin(), x.end());
      out.block(DType::boolean, bytes.data(), bytes.size());
    } else {
      write_elements(out, x.data(), x.size());
    }
  }
  static Vector read(ObjectReader& in) {
    Vector x;
    if constexpr (std::same_as<T, bool>) {
      const auto bytes = in.block(DType::boolean);
      x.reserve(bytes.size());
      for (const std::byte b : bytes) x.push_back(b != std::byte{0});
    } else if constexpr (numeric<T>) {
      const auto bytes = read_block<T>(in);
      x.resize(bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(static_cast<void*>(x.data()), bytes.data(), bytes.size());
    } else {
      const std::size_t n = in.array();
      x.reserve(room<T>(in, n));
      for (std::size_t i = 0; i < n; ++i) x.push_back(codec<T>::read(in));
    }
    return x;
  }
  static void name(TypeName& name) { name.add<T>("vector"); }
};

template <object T, std::size_t N>
struct codec<std::array<T, N>> {
  using Array = std::array<T, N>;
  static void write(ObjectWriter& out, const Array& x) { write_elements(out, x.data(), N); }
  static Array read(ObjectReader& in) {
    static_assert(std::default_initializable<T>, "unisono: the elements of a std::array need a default constructor");
    Array x{};
    if constexpr (numeric<T>) {
      const auto bytes = read_block<T>(in);
      if (bytes.size() != N * sizeof(T)) in.refuse("an array of another length than its type has");
      if constexpr (N > 0) std::memcpy(static_cast<void*>(x.data()), bytes.data(), bytes.size());
    } else {
      in.array_of(N);
      for (T& element : x) element = codec<T>::read(in);
    }
    return x;
  }
  static void name(TypeName& name) {
    name << "array<";
    name.add<T>();
    name << ", " << N << ">";
  }
};

/// The codec of containers whose elements are written one by one, in the order of the container.
template <class Container, class T>
struct sequence_codec {
  static void write(ObjectWriter& out, const Container& x) {
    out.array(x.size());
    for (const auto& element : x) codec<T>::write(out, element);
  }
  static Container read(ObjectReader& in) {
    Container x;
    const std::size_t n = in.array();
    for (std::size_t i = 0; i < n; ++i) x.insert(x.end(), codec<T>::read(in));
    if (x.size() != n) in.refuse("a set with an element twice");
    return x;
  }
};

/// The codec of maps: keys and values in the order of the container.
template <class Map, class K, class V>
struct map_codec {
  static void write(ObjectWriter& out, const Map& x) {
    out.map(x.size());
    for (const auto& [key, value] : x) {
      codec<K>::write(out, key);
      codec<V>::write(out, value);
    }
  }
  static Map read(ObjectReader& in) {
    Map x;
    const std::size_t n = in.map();
    for (std::size_t i = 0; i < n; ++i) {
      K key = codec<K>::read(in);
      x.emplace_hint(x.end(), std::move(key), codec<V>::read(in));
    }
    if (x.size() != n) in.refuse("a map with a key twice");
    return x;
  }
};

// The other containers are told by their shape: a program that has one includes its header, and all of these headers together take longer to compile
// than this library's. A class derived from a container has other template arguments, or none, and is not taken for it.

template <class C>
concept ordered_keys = requires {
  typename C::key_compare;
};
template <class C>
concept hashed_keys = requires {
  typename C::hasher;
};

/// A container that holds each key once: inserting tells whether the key was there already.
template <class C>
concept single_keys = requires(C& x, const typename C::value_type& value) {
  x.insert(value).second;
};

template <class C, class T>
concept list_shaped = std::same_as<typename C::value_type, T> && requires(C& x) {
  x.splice(x.begin(), x);
  x.push_front(x.back());
};
template <class C, class T>
concept deque_shaped = std::same_as<typename C::value_type, T> && requires(C& x) {
  x.push_front(x[0]);
  x.shrink_to_fit();
};
template <class C, class T>
concept set_shaped = (ordered_keys<C> || hashed_keys<C>)&&std::same_as<typename C::key_type, T>&& std::same_as<typename C::value_type, T>;
template <class C, class K, class V>
concept map_shaped = (ordered_keys<C> || hashed_keys<C>)&&std::same_as<typename C::key_type, K>&& std::same_as<typename C::mapped_type, V>;

template <class C>
constexpr std::string_view set_name() {
  if constexpr (ordered_keys<C>) return single_keys<C> ? "set" : "multiset";
  else return single_keys<C> ? "unordered_set" : "unordered_multiset";
}
template <class C>
constexpr std::string_view map_name() {
  if constexpr (ordered_keys<C>) return single_keys<C> ? "map" : "multimap";
  else return single_keys<C> ? "unordered_map" : "unordered_multimap";
}

template <template <class, class> class C, object T, class A>
requires list_shaped<C<T, A>, T>
struct codec<C<T, A>> : sequence_codec<C<T, A>, T> {
  static void name(TypeName& name) { name.add<T>("list"); }
};
template <template <class, class> class C, object T, class A>
requires deque_shaped<C<T, A>, T>
struct codec<C<T, A>> : sequence_codec<C<T, A>, T> {
  static void name(TypeName& name) { name.add<T>("deque"); }
};
template <template <class, class, class> class C, object T, class Compare, class A>
requires set_shaped<C<T, Compare, A>, T>
struct codec<C<T, Compare, A>> : sequence_codec<C<T, Compare, A>, T> {
  static void name(TypeName& name) { name.add<T>(set_name<C<T, Compare, A>>()); }
};
template <template <class, class, class, class> class C, object T, class Hash, class Equal, class A>
requires set_shaped<C<T, Hash, Equal, A>, T>
struct codec<C<T, Hash, Equal, A>> : sequence_codec<C<T, Hash, Equal, A>, T> {
  static void name(TypeName& name) { name.add<T>(set_name<C<T, Hash, Equal, A>>()); }
};
template <template <class, class, class, class> class C, object K, object V, class Compare, class A>
requires map_shaped<C<K, V, Compare, A>, K, V>
struct codec<C<K, V, Compare, A>> : map_codec<C<K, V, Compare, A>, K, V> {
  static void name(TypeName& name) { name.add<K, V>(map_name<C<K, V, Compare, A>>()); }
};
template <template <class, class, class, class, class> class C, object K, object V, class Hash, class Equal, class A>
requires map_shaped<C<K, V, Hash, Equal, A>, K, V>
struct codec<C<K, V, Hash, Equal, A>> : map_codec<C<K, V, Hash, Equal, A>, K, V> {
  static void name(TypeName& name) { name.add<K, V>(map_name<C<K, V, Hash, Equal, A>>()); }
};

/// Writes an object behind the fingerprint of its type.
template <object O>
std::vector<std::byte> to_bytes(const O& object) {
  ObjectWriter out;
  out.array(2);
  codec<std::uint64_t>::write(out, object_type<O>().fingerprint);
  codec<O>::write(out, object);
  return out.take();
}

/// Reads an object. Throws Mismatch for the bytes of another type, and ProtocolError for bytes that
/// to_bytes does not make.
template <object O>
O from_bytes(std::span<const std::byte> bytes) {
  ObjectReader in(bytes);
  in.array_of(2);
  check_fingerprint(object_type<O>(), codec<std::uint64_t>::read(in));
  O object = codec<O>::read(in);
  in.finish();
  return object;
}

}  // namespace unisono::detail
