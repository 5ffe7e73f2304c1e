#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/collectives.h"
#include "unisono/detail/standard.h"
#include "unisono/error.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"

// All parameters of a model in one call, all entries of a dictionary, one seed for all ranks.
//
// Everything is worked on in place, in the dtype that it has. Names, dtypes and shapes are compared
// between the ranks first: if they differ, all ranks throw Mismatch, which names the first
// difference, and nothing is moved.

namespace unisono::detail {

/// A tensor and the name that ranks compare.
struct NamedTensor {
  std::string name;
  TensorView view;
};

/// Sorts tensors by their names: the order in which all ranks work on them, whatever the order of
/// the dictionary that they come from.
UNISONO_API void sort_by_name(std::vector<NamedTensor>& tensors);

/// The options of reduce_together.
struct Together {
  /// The function that the user called, a string literal.
  std::string_view label;
  ReduceOp op = ReduceOp::sum;
  bool coalesce = true;
  /// The bytes at which a bucket is full.
  std::size_t bucket_bytes = SIZE_MAX;
};

/// Reduces each tensor in place, with one all_reduce for as many of a dtype as fit a bucket.
///
/// Names, dtypes and shapes are compared first, in the order given. If they differ, all ranks throw
/// Mismatch, which says where, and nothing is moved.
UNISONO_API void reduce_together(const std::vector<NamedTensor>& tensors, const Together& how, const ProcessGroup& group, const CallOptions& options);

}  // namespace unisono::detail

namespace unisono {

/// The options of all_reduce_params, the same on all ranks.
struct ParamsOptions {
  /// Whether buffers of one dtype travel together. Otherwise each is an operation by itself.
  bool coalesce = true;
  /// MiB of buffers that travel together; -1 for all of them at once.
  int bucket_size_mb = -1;
  /// The operation.
  ReduceOp op = ReduceOp::sum;
};

namespace detail {

/// Returned in place of void by functions that are often taken to return their result. A statement
/// compiles; a copy, as in `auto y = f(x)`, is a compile error that says what to write instead.
struct InPlace {
  InPlace() = default;
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;
  template <class T>
  requires std::same_as<T, InPlace> InPlace(T&) {  // NOLINT(google-explicit-constructor): chosen where one that is not const is copied
    static_assert(
        !std::same_as<T, InPlace>,
        "unisono: this function works in place and returns nothing: call it as a statement, the argument holds the result afterwards; only a "
        "number, given by value, is returned");
  }
};
inline InPlace in_place_result;

/// An entry of a dictionary: a buffer, or one element.
template <class T>
concept Entry = Buffer<T&> ||(Element<T> && !std::is_const_v<T>);

/// A map from text to buffers or elements that can be written to.
template <class Map>
concept Dictionary = requires {
  typename Map::key_type;
  typename Map::mapped_type;
  requires !std::is_const_v<Map>;
  requires std::convertible_to<const typename Map::key_type&, std::string_view>;
  requires Entry<typename Map::mapped_type>;
};

/// A range of buffers that can be written to.
template <class R>
concept BufferRange = std::ranges::input_range<R> && Buffer<std::ranges::range_reference_t<R>>;

/// Returns a view of an entry.
template <class T>
TensorView view_of_entry(T& entry) {
  if constexpr (Element<T>) return view_of_value(entry);
  else return writable_view_of(entry);
}

/// Returns the entries in the order of their keys, whatever the order of the container.
template <Dictionary Map>
std::vector<NamedTensor> tensors_of(Map& map) {
  std::vector<NamedTensor> tensors;
  for (auto& [key, entry] : map) tensors.push_back({std::string(std::string_view(key)), view_of_entry(entry)});
  sort_by_name(tensors);
  return tensors;
}

/// Fails to compile, with a sentence, for anything that is not a dictionary.
template <class T>
constexpr void refuse_as_dictionary() {
  static_assert(Dictionary<T>,
                "unisono: this is not a dictionary that can be worked on: a std::map from std::string to buffers or numbers, not const, and without "
                "dictionaries in it");
}

/// Fails to compile, with a sentence, for anything that is not a range of buffers.
template <class R>
constexpr void refuse_as_params() {
  static_assert(BufferRange<R>, "unisono: this is not a range of buffers that can be written to");
}

}  // namespace detail

/// Replaces `x` on every rank by the average of all ranks' `x`. Averages of integers are truncated
/// toward zero. It works in place, and returns nothing that can be kept.
template <Buffer B>
detail::InPlace& average_across_processes(B&& x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::writable_view_of(x);
  detail::run(detail::labelled({Operation::all_reduce, view, view, ReduceOp::avg}, "average_across_processes"), group, options);
  return detail::in_place_result;
}

/// Returns the average of the ranks' values, on every rank.
template <Element T>
[[nodiscard]] T average_across_processes(T x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const TensorView view = detail::view_of_value(x);
  detail::run(detail::labelled({Operation::all_reduce, view, view, ReduceOp::avg}, "average_across_processes"), group, options);
  return x;
}

/// Replaces every entry, a buffer or a number, by the average over the ranks. Entries are paired by
/// key, whatever their order.
///
/// ```cpp
/// std::map<std::string, double> metrics{{"loss", loss}, {"accuracy", accuracy}};
/// average_across_processes(metrics);
/// ```
template <detail::Dictionary Map>
detail::InPlace& average_across_processes(Map& map, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::reduce_together(detail::tensors_of(map), {.label = "average_across_processes", .op = ReduceOp::avg}, group, options);
  return detail::in_place_result;
}

/// Replaces every entry on every rank by the combination of all ranks' entries of that key. All
/// ranks have the same keys; a dictionary may be empty.
template <detail::Dictionary Map>
void all_reduce_dict(Map& map, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::reduce_together(detail::tensors_of(map), {.label = "all_reduce_dict", .op = op}, group, options);
}

/// Replaces every buffer of the range by the combination of all ranks' buffers in that position.
///
/// The range is gone through once, so it may be a generator of views; the memory lives as long as
/// the call.
///
/// ```cpp
/// all_reduce_params(model.gradients(), {.bucket_size_mb = 25, .op = ReduceOp::avg});
/// ```
///
/// @throws InvalidArgument for a bucket size of 0, or below -1
template <detail::BufferRange R>
void all_reduce_params(R&& params, const ParamsOptions& how = {}, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  if (how.bucket_size_mb != -1 && how.bucket_size_mb <= 0) {
    throw InvalidArgument("buckets cannot be of " + std::to_string(how.bucket_size_mb) + " MiB", {.operation = "all_reduce_params",
                                                                                                  .group = group.name(),
                                                                                                  .rank = group.rank(),
                                                                                                  .hint = "-1 stands for one bucket for each dtype",
                                                                                                  .where = options.where});
  }
  std::vector<detail::NamedTensor> tensors;
  for (auto&& param : params) tensors.push_back({"parameter " + std::to_string(tensors.size()), detail::writable_view_of(param)});
  detail::reduce_together(tensors,
                          {.label = "all_reduce_params",
                           .op = how.op,
                           .coalesce = how.coalesce,
                           .bucket_bytes = how.bucket_size_mb == -1 ? SIZE_MAX : static_cast<std::size_t>(how.bucket_size_mb) << 20},
                          group, options);
}

/// Returns the same seed below 2^31 on all ranks, which rank 0 of the group draws from the system.
/// No generator of the program's is touched.
[[nodiscard]] UNISONO_API std::uint32_t sync_random_seed(const ProcessGroup& group = current_world(), const CallOptions& options = {});

// These refuse arguments that fit none of the functions above.

template <class X, class... Rest>
requires(!Buffer<X> && !Element<std::remove_cvref_t<X>> && !detail::Dictionary<std::remove_reference_t<X>>) void average_across_processes(X&&,
                                                                                                                                          Rest&&...) {
  if constexpr (InBuffer<X>) detail::refuse_as_buffer<X>();
  else detail::refuse_as_dictionary<std::remove_reference_t<X>>();
}
template <class X, class... Rest>
requires(!detail::Dictionary<std::remove_reference_t<X>>) void all_reduce_dict(X&&, Rest&&...) {
  detail::refuse_as_dictionary<std::remove_reference_t<X>>();
}
template <class X, class... Rest>
requires(!detail::BufferRange<X>) void all_reduce_params(X&&, Rest&&...) { detail::refuse_as_params<X>(); }

}  // namespace unisono
