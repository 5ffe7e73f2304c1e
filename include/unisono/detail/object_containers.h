#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "unisono/detail/object_codec.h"

// Containers of the standard library. The elements of vectors and arrays of numbers travel as one block.

namespace unisono::detail {

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
template <class T>
std::span<const std::byte> read_block(ObjectReader& in) {
  if constexpr (std::same_as<T, std::byte>) return in.bytes();
  else return in.block(number_type<T>::value);
}
/// As many as fit the bytes that are left: what a container makes room for before its elements come.
template <class T>
std::size_t room(const ObjectReader& in, std::size_t n) {
  return std::min(n, in.bytes_left() / sizeof(T) + 1);
}
template <class T>
void name_container(TypeName& name, std::string_view container) {
  name << container << "<";
  name.add<T>();
  name << ">";
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
  static void name(TypeName& name) { name_container<T>(name, "vector"); }
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

/// Elements one by one, in the order of the container.
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
template <class K, class V>
void name_map(TypeName& name, std::string_view container) {
  name << container << "<";
  name.add_list<K, V>();
  name << ">";
}

template <object T, class A>
struct codec<std::deque<T, A>> : sequence_codec<std::deque<T, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "deque"); }
};
template <object T, class A>
struct codec<std::list<T, A>> : sequence_codec<std::list<T, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "list"); }
};
template <object T, class C, class A>
struct codec<std::set<T, C, A>> : sequence_codec<std::set<T, C, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "set"); }
};
template <object T, class C, class A>
struct codec<std::multiset<T, C, A>> : sequence_codec<std::multiset<T, C, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "multiset"); }
};
template <object T, class H, class E, class A>
struct codec<std::unordered_set<T, H, E, A>> : sequence_codec<std::unordered_set<T, H, E, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "unordered_set"); }
};
template <object T, class H, class E, class A>
struct codec<std::unordered_multiset<T, H, E, A>> : sequence_codec<std::unordered_multiset<T, H, E, A>, T> {
  static void name(TypeName& name) { name_container<T>(name, "unordered_multiset"); }
};

template <object K, object V, class C, class A>
struct codec<std::map<K, V, C, A>> : map_codec<std::map<K, V, C, A>, K, V> {
  static void name(TypeName& name) { name_map<K, V>(name, "map"); }
};
template <object K, object V, class C, class A>
struct codec<std::multimap<K, V, C, A>> : map_codec<std::multimap<K, V, C, A>, K, V> {
  static void name(TypeName& name) { name_map<K, V>(name, "multimap"); }
};
template <object K, object V, class H, class E, class A>
struct codec<std::unordered_map<K, V, H, E, A>> : map_codec<std::unordered_map<K, V, H, E, A>, K, V> {
  static void name(TypeName& name) { name_map<K, V>(name, "unordered_map"); }
};
template <object K, object V, class H, class E, class A>
struct codec<std::unordered_multimap<K, V, H, E, A>> : map_codec<std::unordered_multimap<K, V, H, E, A>, K, V> {
  static void name(TypeName& name) { name_map<K, V>(name, "unordered_multimap"); }
};

}  // namespace unisono::detail
