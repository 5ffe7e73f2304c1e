#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

#include "unisono/detail/callable.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

/// The way in which the elements of the ranks are combined.
///
/// | operation | dtypes |
/// |---|---|
/// | sum, product | every dtype; integers wrap; on boolean they are or, and |
/// | avg | every dtype except boolean; on integers the exact sum divided by the group's size, truncated toward zero |
/// | min, max | every dtype except the complex ones; a NaN on any rank gives a NaN; -0 < +0 |
/// | band, bor, bxor | integers and boolean |
/// | land, lor | every dtype except the complex ones: a value other than zero is true, the result is 0 or 1 |
///
/// Any other pair is InvalidArgument. float16 and bfloat16 are accumulated in float32 and rounded
/// once.
enum class ReduceOp { sum, product, min, max, avg, band, bor, bxor, land, lor };

/// Reads the name of an operation in any spelling that torch, ignite, mmengine or MPI uses, in upper or
/// lower case. Names are "sum", "prod", "product", "min", "max", "mean", "avg", "average", "and",
/// "band", "or", "bor", "xor", "bxor", "land", "lor".
///
/// @throws InvalidArgument for anything else
UNISONO_API ReduceOp parse_reduce_op(std::string_view text);

/// Returns the name of the enumerator: "sum".
UNISONO_API std::string_view to_string(ReduceOp op) noexcept;

/// The sum of what the ranks have, each multiplied by its rank's own factor before (PREMUL_SUM of
/// NCCL and torch).
///
/// It is defined for floating-point and complex dtypes, in all_reduce, reduce and reduce_scatter.
/// Halves are rounded after the product as well as after the sum.
struct PremulSum {
  /// The factor of this rank. Ranks may have different ones.
  double factor = 1;
};

/// Returns the operation with this rank's factor: `all_reduce(x, premul_sum(0.25))`.
constexpr PremulSum premul_sum(double factor) noexcept { return {factor}; }

namespace detail {

/// A text in which "F = " stands before the name of the type.
template <class F>
constexpr std::string_view name_of_type() {
  return __PRETTY_FUNCTION__;
}

/// Returns the operation that a function object of the standard library is.
template <class T, class F>
constexpr std::optional<ReduceOp> standard_operation() {
  const auto is_either = []<class A, class B>(std::type_identity<A>, std::type_identity<B>) { return std::same_as<F, A> || std::same_as<F, B>; };
  using std::type_identity;
  // NOLINTBEGIN(modernize-use-transparent-functors): both kinds are asked for
  if (is_either(type_identity<std::plus<>>(), type_identity<std::plus<T>>())) return ReduceOp::sum;
  if (is_either(type_identity<std::multiplies<>>(), type_identity<std::multiplies<T>>())) return ReduceOp::product;
  if (is_either(type_identity<std::bit_and<>>(), type_identity<std::bit_and<T>>())) return ReduceOp::band;
  if (is_either(type_identity<std::bit_or<>>(), type_identity<std::bit_or<T>>())) return ReduceOp::bor;
  if (is_either(type_identity<std::bit_xor<>>(), type_identity<std::bit_xor<T>>())) return ReduceOp::bxor;
  if (is_either(type_identity<std::logical_and<>>(), type_identity<std::logical_and<T>>())) return ReduceOp::land;
  if (is_either(type_identity<std::logical_or<>>(), type_identity<std::logical_or<T>>())) return ReduceOp::lor;
  // NOLINTEND(modernize-use-transparent-functors)
  // Their header takes as long to compile as ours, so they are known by their names: those of libstdc++ and of two versions of libc++.
  const auto is_one_of = [](std::string_view first, std::string_view second, std::string_view third) {
    constexpr std::string_view text = name_of_type<F>(), before = "F = std::ranges::";
    const auto begin = text.find(before);
    if (begin == std::string_view::npos) return false;
    const std::string_view name = text.substr(begin + before.size(), text.find_first_of(";]", begin) - begin - before.size());
    return name == first || name == second || name == third;
  };
  if (is_one_of("__min_fn", "__min", "__min::__fn")) return ReduceOp::min;
  if (is_one_of("__max_fn", "__max", "__max::__fn")) return ReduceOp::max;
  return std::nullopt;
}

}  // namespace detail

/// The operation of a collective on elements of type T. Users never name this type: it is made from
/// a ReduceOp, from premul_sum(factor), or from a callable `T(T, T)`.
///
/// A callable is associative, commutative, and the same on every rank. It may be called on any
/// thread, at any time until the operation is done. On backend nccl it is done in the host's memory.
///
/// Ranks whose callables are the same code of the same file, and have captured the same, are known
/// to agree. Otherwise each rank applies its callable to a few elements of all ranks' data before
/// anything is moved, and a difference is a Mismatch. Of a callable that has captured something, the
/// first call in a group is compared so, and later ones are taken to be alike.
///
/// The function objects of the standard library that are such an operation stand for it:
/// `std::plus<>` for sum, `std::multiplies<>` for product, `std::ranges::min` and `max`,
/// `std::bit_and<>`, `bit_or` and `bit_xor`, `std::logical_and<>` and `logical_or`.
///
/// ```cpp
/// all_reduce(x, [](float a, float b) { return std::hypot(a, b); });
/// ```
template <class T>
class Reduction {
 public:
  /// Stands for a ReduceOp.
  Reduction(ReduceOp op) noexcept : op_(op) {}  // NOLINT(google-explicit-constructor): a ReduceOp stands for itself
  /// Stands for a sum with a factor.
  Reduction(PremulSum op) noexcept : factor_(op.factor) {}  // NOLINT(google-explicit-constructor)

  /// Takes a callable, which is copied.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, ReduceOp> && !std::same_as<std::remove_cvref_t<F>, Reduction> &&
           std::is_invocable_r_v<T, const std::remove_cvref_t<F>&, T, T>)
      Reduction(F&& function, std::source_location where = std::source_location::current()) {  // NOLINT(google-explicit-constructor)
    constexpr auto standard = detail::standard_operation<T, std::decay_t<F>>();
    if constexpr (standard.has_value()) op_ = *standard;
    else custom_ = detail::reduction_by<T, std::decay_t<F>>(std::forward<F>(function), where);
  }

  /// Returns the operation; sum if a callable or a factor was given.
  ReduceOp op() const noexcept { return op_; }
  /// Returns the callable, or null.
  const std::shared_ptr<const detail::CustomReduction>& custom() const noexcept { return custom_; }
  /// Returns this rank's factor, if one was given.
  std::optional<double> factor() const noexcept { return factor_; }

 private:
  ReduceOp op_ = ReduceOp::sum;
  std::optional<double> factor_;
  std::shared_ptr<const detail::CustomReduction> custom_;
};

/// The operation on a buffer whose element type only its dtype tells, a TensorView or an
/// at::Tensor: no callable can fit it.
template <>
class Reduction<void> {
 public:
  Reduction(ReduceOp op) noexcept : op_(op) {}              // NOLINT(google-explicit-constructor)
  Reduction(PremulSum op) noexcept : factor_(op.factor) {}  // NOLINT(google-explicit-constructor)
  ReduceOp op() const noexcept { return op_; }
  std::shared_ptr<const detail::CustomReduction> custom() const noexcept { return nullptr; }
  std::optional<double> factor() const noexcept { return factor_; }

 private:
  ReduceOp op_ = ReduceOp::sum;
  std::optional<double> factor_;
};

}  // namespace unisono
