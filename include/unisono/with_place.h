#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>

#include "unisono/detail/request.h"
#include "unisono/detail/standard.h"
#include "unisono/detail/typed_edge.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/work.h"

// The smallest or largest value together with the place where it is: MINLOC and MAXLOC of MPI.
//
// ```cpp
// const auto [loss, best] = all_reduce(WithPlace{loss_here, rank()}, ReduceOp::min);   // the same on all ranks
// ```
//
// ReduceOp::min and ReduceOp::max are the only operations on pairs; another one is InvalidArgument.

namespace unisono {

/// A value and its place: a rank, or an index of the program's choice.
///
/// min and max choose among pairs by their values. Among equal values the lowest place wins. As
/// with values alone, a NaN wins over numbers and -0 is less than +0.
template <Element T>
requires(!detail::complex_number<T>) struct WithPlace {
  T value{};
  alignas(8) std::int64_t place = 0;
  friend bool operator==(const WithPlace&, const WithPlace&) = default;
};

/// Lets a place be any integer type in `WithPlace{value, place}`.
template <class T, std::integral Place>
WithPlace(T, Place) -> WithPlace<T>;

namespace detail {

/// Tells whether a type is a WithPlace.
template <class X>
inline constexpr bool is_placed = false;
template <class T>
inline constexpr bool is_placed<WithPlace<T>> = true;

/// A single pair.
template <class X>
concept placed = is_placed<std::remove_cvref_t<X>>;

/// A range of pairs that can be written to.
template <class R>
concept placed_range = std::ranges::contiguous_range < std::remove_reference_t<R>
& > &&std::ranges::sized_range<std::remove_reference_t<R>&>&& placed<std::ranges::range_value_t<std::remove_reference_t<R>&>> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<std::remove_reference_t<R>&>>> &&
    (std::is_lvalue_reference_v<R> || std::ranges::view<std::remove_cvref_t<R>>);

/// An argument that has a place: a pair or a range of pairs.
template <class X>
concept takes_place = placed<X> || placed_range<X>;

/// Tells whether a number is not a number. Integers never are.
template <class T>
bool is_nan(const T& x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::byte>) return false;
  else return is_nan(static_cast<float>(x));
}

/// Compares two numbers, with -0 before +0.
template <class T>
bool is_less(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (a == b && __builtin_signbit(a) && !__builtin_signbit(b));
  else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::byte>) return a < b;
  else return is_less(static_cast<float>(a), static_cast<float>(b));
}

/// Tells whether `a` is chosen over `b`. Pairs that differ are ordered strictly, so that the result
/// does not depend on the order in which they are compared.
template <class T, bool Largest>
bool wins(const WithPlace<T>& a, const WithPlace<T>& b) {
  const bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && is_less(a.value, b.value)) return !Largest;
  if (!a_nan && is_less(b.value, a.value)) return Largest;
  return a.place < b.place;
}

/// Throws InvalidArgument for any operation but min and max.
UNISONO_API void require_min_or_max(Operation operation, ReduceOp op, const ProcessGroup& group, std::source_location where);

/// Views pairs as elements of 16 bytes, which only their own operation looks into.
template <class T>
TensorView view_of_places(const WithPlace<T>* pairs, std::size_t n) {
  static_assert(sizeof(WithPlace<T>) == 2 * sizeof(double));
  return {const_cast<WithPlace<T>*>(pairs), DType::complex128, n};
}

/// Returns the name of that operation, which the ranks compare.
UNISONO_API std::string_view name_of_choice(DType dtype, bool largest) noexcept;

/// Returns the operation that keeps the chosen pair of each two.
template <class T, bool Largest>
std::shared_ptr<const CustomReduction> choice() {
  const auto apply = [](void* accumulator, const void* elements, std::size_t n) {
    auto* a = static_cast<WithPlace<T>*>(accumulator);
    const auto* e = static_cast<const WithPlace<T>*>(elements);
    for (std::size_t i = 0; i < n; ++i) {
      if (wins<T, Largest>(e[i], a[i])) a[i] = e[i];
    }
  };
  static const auto& shared =
      *new auto(std::make_shared<const CustomReduction>(CustomReduction{.apply = apply, .name = name_of_choice(dtype_of<T>::value, Largest)}));
  return shared;
}

/// Makes the request of a reduction of pairs.
template <class T>
Request choosing(Operation operation, WithPlace<T>* pairs, std::size_t n, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  require_min_or_max(operation, op, group, options.where);
  const TensorView view = view_of_places(pairs, n);
  return {operation, view, view, op, op == ReduceOp::max ? choice<T, true>() : choice<T, false>()};
}

/// Makes the request of a reduction of a range of pairs.
template <class R>
Request choosing(Operation operation, R& pairs, ReduceOp op, const ProcessGroup& group, const CallOptions& options) {
  return choosing(operation, std::ranges::data(pairs), static_cast<std::size_t>(std::ranges::size(pairs)), op, group, options);
}

}  // namespace detail

/// Returns the chosen pair of all ranks, on every rank.
template <class T>
[[nodiscard]] WithPlace<T> all_reduce(WithPlace<T> x, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::choosing(Operation::all_reduce, &x, 1, op, group, options), group, options);
  return x;
}

/// Returns the chosen pair of all ranks on rank `dst`, and std::nullopt on every other rank.
template <class T>
[[nodiscard]] std::optional<WithPlace<T>> reduce(WithPlace<T> x, Rank dst, ReduceOp op, const ProcessGroup& group = current_world(),
                                                 const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::choosing(Operation::reduce, &x, 1, op, group, options), dst), group, options);
  if (detail::rank_is(dst, group)) return x;
  return std::nullopt;
}

/// Returns the chosen pair of the ranks 0 … rank().
template <class T>
[[nodiscard]] WithPlace<T> scan(WithPlace<T> x, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::choosing(Operation::scan, &x, 1, op, group, options), group, options);
  return x;
}

/// Replaces each pair of the range by the chosen one of all ranks' pairs in that position.
template <detail::placed_range R>
void all_reduce(R&& pairs, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::choosing(Operation::all_reduce, pairs, op, group, options), group, options);
}

/// Starts `all_reduce(pairs, op)` and returns at once. The range belongs to the library until the
/// Work is done.
template <detail::placed_range R>
[[nodiscard]] Work all_reduce_async(R&& pairs, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::start(detail::choosing(Operation::all_reduce, pairs, op, group, options), group, options);
}

/// Replaces the pairs of rank `dst` by the chosen ones; the other ranks' pairs keep their values.
template <detail::placed_range R>
void reduce(R&& pairs, Rank dst, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::rooted(detail::choosing(Operation::reduce, pairs, op, group, options), dst), group, options);
}

/// Replaces each pair by the chosen one of the ranks 0 … rank().
template <detail::placed_range R>
void scan(R&& pairs, ReduceOp op, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::run(detail::choosing(Operation::scan, pairs, op, group, options), group, options);
}

}  // namespace unisono
