#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "unisono/export.h"

// The walk over data that is made of tensors: at::Tensor, and vectors, deques, lists, arrays, pairs,
// tuples and maps of data, in any depth.

namespace unisono::detail {

/// A tensor within data, and the path to it: `["images"][3]`, empty for the data itself.
struct TensorLeaf {
  at::Tensor tensor;
  std::string place;
};

/// A tensor, the tensor that it is copied to, and the path to both.
struct TensorPair {
  at::Tensor from, to;
  std::string place;
};

/// Returns the device of all tensors. InvalidArgument, with the path, if there are several, or a
/// tensor is undefined.
UNISONO_API at::Device device_of_leaves(const std::vector<TensorLeaf>& leaves);

/// Returns the tensors on the device.
UNISONO_API std::vector<at::Tensor> leaves_on(const std::vector<TensorLeaf>& leaves, const at::Device& device);

/// Copies each tensor to its partner, once all of them were found to fit.
UNISONO_API void fill_leaves(const std::vector<TensorPair>& pairs, const at::Device& device);

/// Throws InvalidArgument for data without tensors.
[[noreturn]] UNISONO_API void refuse_empty_data(const std::string& place);

/// Throws InvalidArgument for sequences or maps of different sizes.
[[noreturn]] UNISONO_API void refuse_out_size(const std::string& place, std::size_t data, std::size_t out);

/// Throws InvalidArgument for a key that `out` does not have.
[[noreturn]] UNISONO_API void refuse_out_key(const std::string& place);

/// Returns a step of a path.
template <class Key>
std::string place_of_key(const Key& key) {
  if constexpr (std::convertible_to<const Key&, std::string_view>) return std::string("[\"").append(std::string_view(key)).append("\"]");
  else if constexpr (std::integral<Key>) return std::string("[").append(std::to_string(key)).append("]");
  else return "[a key]";
}

/// The walk over data of type D, always in the same order: `collect` its tensors, `replace` them by
/// others, `match` two data of one shape.
template <class D>
struct tensor_data {};

/// A type that is made of tensors.
template <class D>
concept TensorData = requires(const D& data, std::vector<TensorLeaf>& leaves) {
  tensor_data<D>::collect(data, std::string(), leaves);
};

/// The next of the tensors that replace those of the data.
using NextTensor = std::vector<at::Tensor>::iterator;

template <>
struct tensor_data<at::Tensor> {
  static void collect(const at::Tensor& data, std::string place, std::vector<TensorLeaf>& leaves) { leaves.push_back({data, std::move(place)}); }
  static at::Tensor replace(const at::Tensor&, NextTensor& next) { return std::move(*next++); }
  static void match(const at::Tensor& data, const at::Tensor& out, std::string place, std::vector<TensorPair>& pairs) {
    pairs.push_back({data, out, std::move(place)});
  }
};

/// The walk over vectors, deques, lists and arrays.
template <class Sequence>
struct tensor_sequence {
  using Part = typename Sequence::value_type;
  static void collect(const Sequence& data, const std::string& place, std::vector<TensorLeaf>& leaves) {
    if (data.empty()) refuse_empty_data(place);
    std::size_t i = 0;
    for (const Part& part : data) tensor_data<Part>::collect(part, place + place_of_key(i++), leaves);
  }
  static Sequence replace(const Sequence& data, NextTensor& next) {
    Sequence result(data);
    for (Part& part : result) part = tensor_data<Part>::replace(part, next);
    return result;
  }
  static void match(const Sequence& data, const Sequence& out, const std::string& place, std::vector<TensorPair>& pairs) {
    if (data.empty()) refuse_empty_data(place);
    if (data.size() != out.size()) refuse_out_size(place, data.size(), out.size());
    auto to = out.begin();
    std::size_t i = 0;
    for (const Part& part : data) tensor_data<Part>::match(part, *to++, place + place_of_key(i++), pairs);
  }
};
template <TensorData T, class A>
struct tensor_data<std::vector<T, A>> : tensor_sequence<std::vector<T, A>> {};
template <TensorData T, class A>
struct tensor_data<std::deque<T, A>> : tensor_sequence<std::deque<T, A>> {};
template <TensorData T, class A>
struct tensor_data<std::list<T, A>> : tensor_sequence<std::list<T, A>> {};
template <TensorData T, std::size_t N>
struct tensor_data<std::array<T, N>> : tensor_sequence<std::array<T, N>> {};

/// The walk over maps. The path names the key.
template <class Map>
struct tensor_map {
  using Part = typename Map::mapped_type;
  static void collect(const Map& data, const std::string& place, std::vector<TensorLeaf>& leaves) {
    if (data.empty()) refuse_empty_data(place);
    for (const auto& [key, part] : data) tensor_data<Part>::collect(part, place + place_of_key(key), leaves);
  }
  static Map replace(const Map& data, NextTensor& next) {
    Map result(data);
    for (const auto& [key, part] : data) result.find(key)->second = tensor_data<Part>::replace(part, next);
    return result;
  }
  static void match(const Map& data, const Map& out, const std::string& place, std::vector<TensorPair>& pairs) {
    if (data.empty()) refuse_empty_data(place);
    if (data.size() != out.size()) refuse_out_size(place, data.size(), out.size());
    for (const auto& [key, part] : data) {
      const auto to = out.find(key);
      if (to == out.end()) refuse_out_key(place + place_of_key(key));
      tensor_data<Part>::match(part, to->second, place + place_of_key(key), pairs);
    }
  }
};
template <class K, TensorData T, class C, class A>
struct tensor_data<std::map<K, T, C, A>> : tensor_map<std::map<K, T, C, A>> {};
template <class K, TensorData T, class H, class E, class A>
struct tensor_data<std::unordered_map<K, T, H, E, A>> : tensor_map<std::unordered_map<K, T, H, E, A>> {};

/// The walk over pairs and tuples.
template <class Tuple, class... Parts>
struct tensor_tuple {
  using Indices = std::index_sequence_for<Parts...>;
  static void collect(const Tuple& data, const std::string& place, std::vector<TensorLeaf>& leaves) {
    if (sizeof...(Parts) == 0) refuse_empty_data(place);
    std::size_t i = 0;
    std::apply([&](const Parts&... parts) { (tensor_data<Parts>::collect(parts, place + place_of_key(i++), leaves), ...); }, data);
  }
  static Tuple replace(const Tuple& data, NextTensor& next) {
    return std::apply([&](const Parts&... parts) { return Tuple{tensor_data<Parts>::replace(parts, next)...}; }, data);  // in the order of the list
  }
  static void match(const Tuple& data, const Tuple& out, const std::string& place, std::vector<TensorPair>& pairs) {
    if (sizeof...(Parts) == 0) refuse_empty_data(place);
    match_parts(data, out, place, pairs, Indices{});
  }

 private:
  template <std::size_t... I>
  static void match_parts(const Tuple& data, const Tuple& out, const std::string& place, std::vector<TensorPair>& pairs, std::index_sequence<I...>) {
    (tensor_data<Parts>::match(std::get<I>(data), std::get<I>(out), place + place_of_key(I), pairs), ...);
  }
};
template <TensorData A, TensorData B>
struct tensor_data<std::pair<A, B>> : tensor_tuple<std::pair<A, B>, A, B> {};
template <TensorData... T>
struct tensor_data<std::tuple<T...>> : tensor_tuple<std::tuple<T...>, T...> {};

/// Fails to compile, with a sentence, for anything that is not made of tensors.
template <class D>
constexpr void refuse_as_tensor_data() {
  static_assert(TensorData<D>,
                "unisono: this is not data of tensors: those are at::Tensor, and vectors, deques, lists, arrays, pairs, tuples and maps of such");
}

/// Returns the tensors of the data with their paths.
template <class D>
std::vector<TensorLeaf> leaves_of(const D& data) {
  std::vector<TensorLeaf> leaves;
  tensor_data<D>::collect(data, {}, leaves);
  return leaves;
}

}  // namespace unisono::detail
